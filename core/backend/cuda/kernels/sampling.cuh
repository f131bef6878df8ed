// The choice of every row's next token, by one block a row, equal to sample::Sampler's.
//
// What it costs is passes over the row's logits, of which one is enough for a greedy choice: it
// says whether all are finite and which is the largest. Edits (penalties, biases, masks) touch only
// the tokens they name and then cost that pass once more. A draw takes two more, one that adds up
// the weights in bins and one that gathers the candidates of the bin in which it falls (see
// block_select.cuh). top-k needs no weights but those of its few: one pass counts, one gathers all
// of them, and the rest is done among them. top-p and min-p are prefixes of the same order: where
// what top-p keeps fits into the block (a candidate a thread), the draw is among them as well.
//
//   greedy                                            1
//   a draw, with any of top-k, top-p, min-p           3
//   edits                                            +1
//   log-probabilities, those of the most probable    +1, +2
//   more kept by top-k, or by top-p, than threads    +2 for each
//   more candidates than threads in a bin            +3, and +2 for every further 11 bits
//
// Only the pass that adds up weights, and that of the log-probabilities, takes the exponential of
// every logit (in double, so that weights are the reference's); of what cannot weigh anything it is
// not taken.
//
// Nothing depends on other rows, on the grid or on the order in which threads run. exp is the
// device's, whose last bit may differ from the host's: a weight then differs by one of 2^-40 where
// it lies that near a whole number, and a choice only if the draw falls into that difference. Under
// the emulation exp is the host's, and choices are the reference's to the bit. Where two logits
// differ in their weights, exp is taken to keep their order. Compile it without contraction
// (-fmad=false): products are rounded before they are added, as on the host.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_SAMPLING_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_SAMPLING_CUH_

#include <cmath>
#include <cstdint>

#include "core/backend/cuda/kernels/block_select.cuh"
#include "core/backend/cuda/kernels/platform.cuh"
#include "core/backend/cuda/kernels/sampling_args.h"
#include "core/sample/philox.h"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline constexpr double kUnitWeight = 0x1p40;
inline constexpr double kWeighsNothing = -27.73;  // as in sample::Sampler
// A little further, for bins are made in float.
inline constexpr float kSampleReach = 27.74f;

LUNA_DEVICE uint64_t SampleWeight(float logit, float largest, double temperature) {
  const double distance = static_cast<double>(logit) - static_cast<double>(largest);
  const double exponent = temperature == 1.0 ? distance : distance / temperature;
  if (exponent < kWeighsNothing) return 0;
  return static_cast<uint64_t>(exp(exponent) * kUnitWeight);
}

// As in sample::Sampler: within the range of float, and -Inf stays.
LUNA_DEVICE float ChangedLogit(float from, float to) {
  if (from == -kFloatInfinity) return from;
  if (to < -kFloatMax) return -kFloatMax;
  return to > kFloatMax ? kFloatMax : to;
}

// What becomes of a logit; `marks` and `first_bias` as in SampleEdit.
LUNA_DEVICE float EditedLogit(float logit, uint32_t marks, int first_bias, const SampleRow& row,
                              const SampleBias* biases) {
  if (row.repetition_penalty != 1.0f && (marks & SampleEdit::kSeen) != 0) {
    logit = ChangedLogit(
        logit, logit > 0.0f ? logit / row.repetition_penalty : logit * row.repetition_penalty);
  }
  const uint32_t times = marks / SampleEdit::kOneOutput;
  if (times > 0 && (row.presence_penalty != 0.0f || row.frequency_penalty != 0.0f)) {
    const float penalty = row.presence_penalty + row.frequency_penalty * static_cast<float>(times);
    logit = ChangedLogit(logit, logit - penalty);
  }
  for (int i = first_bias; i >= 0; i = biases[i].next) {
    logit = ChangedLogit(logit, logit + biases[i].bias);
  }
  return (marks & SampleEdit::kMasked) != 0 ? -kFloatInfinity : logit;
}

template <int kThreads>
struct SampleMemory {
  typename BlockSelect<kThreads>::Memory select;
  int32_t pending_edited;  // whether an edit of the row names the pending token
  float raw;
  double log_sum;  // log of the sum of exp over the logits as they came
};

template <int kThreads>
class RowSampler {
 public:
  LUNA_DEVICE RowSampler(const SampleArgs& args, int row_index, SampleMemory<kThreads>* memory)
      : args_(args),
        row_index_(row_index),
        row_(reinterpret_cast<const SampleRow*>(args.header + 1)[row_index]),
        logits_(args.logits + static_cast<int64_t>(row_index - args.first_row) * args.vocab_stride),
        memory_(memory),
        select_(&memory->select, logits_, args.vocab_size) {}

  LUNA_DEVICE void Sample() {
    const Extremes raw = FindExtremes();
    if (raw.best == 0 || ValueOfKey(raw.best) == -kFloatInfinity) {
      return Finish(SampleStatus::kNotFinite, 0, 0.0f);
    }
    if (row_.num_logprobs >= 0) {
      KeepLogSum(ValueOfKey(raw.best));
      if (row_.num_logprobs > 0) WriteTop(raw);
    }
    Extremes extremes = raw;
    if (row_.num_edits > 0 || row_.pending >= 0) {
      Edit();
      extremes = FindExtremes();
    }
    if (ValueOfKey(extremes.best) == -kFloatInfinity) {
      return Finish(SampleStatus::kAllMasked, 0, 0.0f);
    }
    const int token = row_.temperature == 0.0f ? IndexOfKey(extremes.best) : Draw(extremes);
    float logprob = 0.0f;
    if (row_.num_logprobs >= 0) {
      logprob = static_cast<float>(static_cast<double>(Raw(token)) - memory_->log_sum);
    }
    Finish(SampleStatus::kOk, token, logprob);
  }

 private:
  using Select = BlockSelect<kThreads>;

  struct Extremes {
    uint64_t best;   // key of the first candidate; 0 if a logit is NaN or +Inf
    float smallest;  // above -Inf
  };

  // Which sums are far enough, compared as sample::Sampler does: a draw goes beyond a whole number.
  struct Goal {
    bool drawing;
    double bound;

    LUNA_DEVICE bool operator()(uint64_t sum) const {
      return drawing ? sum > static_cast<uint64_t>(bound) : !(static_cast<double>(sum) < bound);
    }
  };

  LUNA_DEVICE Extremes FindExtremes() {
    bool usable = true;
    float largest = -kFloatInfinity;
    int best = 0;
    float smallest = kFloatInfinity;
    ForEachValue(logits_, args_.vocab_size, [&](float value, int index) {
      usable = usable && value < kFloatInfinity;  // false for NaN
      if (value > largest) {
        largest = value;
        best = index;
      }
      if (value > -kFloatInfinity && value < smallest) smallest = value;
    });
    const uint64_t key = usable ? OrderKey(largest, best) : 0;
    return {
        select_.Reduce(key, Select::kLastKey, [](uint64_t a, uint64_t b) { return a < b ? a : b; }),
        select_.Reduce(smallest, kFloatInfinity, [](float a, float b) { return a < b ? a : b; })};
  }

  // In a tree that kThreads alone decides.
  LUNA_DEVICE void KeepLogSum(double largest) {
    double sum = 0.0;
    ForEachValue(logits_, args_.vocab_size,
                 [&](float value, int) { sum += exp(static_cast<double>(value) - largest); });
    sum = select_.Reduce(sum, 0.0, [](double a, double b) { return a + b; });
    if (ThreadIndex() == 0) memory_->log_sum = largest + log(sum);
    SyncThreads();
  }

  // The row's num_logprobs first candidates, a block of them at a time.
  LUNA_DEVICE void WriteTop(const Extremes& extremes) {
    SampleTop* top =
        args_.results.top + static_cast<int64_t>(row_index_) * args_.header->top_stride;
    const auto one = [](float) { return uint64_t{1}; };
    select_.SetBins(ValueOfKey(extremes.best), extremes.smallest, kSampleReach, true);
    uint64_t after = 0;
    for (int done = 0; done < row_.num_logprobs; done += kThreads) {
      if (done == 0 || !select_.summed()) select_.Sum(Select::kLastKey, one);
      const int left = row_.num_logprobs - done;
      const int last = done + (left < kThreads ? left : kThreads);
      const uint64_t last_key =
          select_.Select(Select::kLastKey, one, Goal{false, static_cast<double>(last)}, kThreads)
              .key;
      if (done > 0 || !select_.whole()) {
        auto range = select_.UpTo(last_key);
        range.low = after + 1;
        select_.Gather(range, one);
      }
      const auto* own = select_.own();
      if (own != nullptr && own->key <= last_key) {
        const double logit = ValueOfKey(own->key);
        top[done + static_cast<int>(own->sum) - 1] = {IndexOfKey(own->key),
                                                      static_cast<float>(logit - memory_->log_sum)};
      }
      after = last_key;
    }
  }

  LUNA_DEVICE int Pending() const {
    return row_.pending >= 0 ? args_.tokens_before[row_.pending] : -1;
  }

  // A thread for each token that is named; the pending one may be among them.
  LUNA_DEVICE void Edit() {
    const int pending = Pending();
    if (ThreadIndex() == 0) memory_->pending_edited = 0;
    SyncThreads();
    const SampleBias* biases = args_.header->biases;
    for (int i = ThreadIndex(); i < row_.num_edits; i += kThreads) {
      SampleEdit& edit = args_.header->edits[row_.first_edit + i];
      const int token = edit.token;
      uint32_t marks = edit.marks;
      if (token == pending) {
        marks = (marks | SampleEdit::kSeen) + SampleEdit::kOneOutput;
        memory_->pending_edited = 1;
      }
      edit.raw = logits_[token];
      logits_[token] = EditedLogit(logits_[token], marks, edit.first_bias, row_, biases);
    }
    SyncThreads();
    if (ThreadIndex() == 0 && pending >= 0 && memory_->pending_edited == 0) {
      memory_->raw = logits_[pending];
      logits_[pending] = EditedLogit(logits_[pending], SampleEdit::kSeen + SampleEdit::kOneOutput,
                                     -1, row_, biases);
    }
    SyncThreads();
  }

  // What the logit of the chosen token was.
  LUNA_DEVICE float Raw(int token) {
    const bool by_itself = token == Pending() && memory_->pending_edited == 0;
    if (ThreadIndex() == 0 && !by_itself) memory_->raw = logits_[token];
    SyncThreads();
    for (int i = ThreadIndex(); i < row_.num_edits; i += kThreads) {
      const SampleEdit& edit = args_.header->edits[row_.first_edit + i];
      if (edit.token == token) memory_->raw = edit.raw;
    }
    SyncThreads();
    return memory_->raw;
  }

  // What a candidate counts for in each of the cuts: one, or its weight.
  struct CandidateMeasure {
    bool counts;
    float largest;
    double temperature;

    LUNA_DEVICE uint64_t operator()(float value) const {
      return counts ? uint64_t{1} : SampleWeight(value, largest, temperature);
    }
  };

  // Where top-k ends, where top-p and min-p end, where the draw falls: three cuts of one order.
  LUNA_DEVICE int Draw(const Extremes& extremes) {
    enum Cut { kTopK, kTopP, kDraw };
    CandidateMeasure measure = {false, ValueOfKey(extremes.best), row_.temperature};
    select_.SetBins(measure.largest, extremes.smallest, kSampleReach * row_.temperature, false);

    uint64_t last_key = Select::kLastKey;
    uint64_t kept = 0;
    bool gathered = false;  // all that may be chosen, one a thread
    for (int cut = row_.top_k > 0 ? kTopK : kTopP;; ++cut) {
      measure.counts = cut == kTopK;
      uint64_t heavy = 0;
      const double least = static_cast<double>(row_.min_p) * kUnitWeight;
      const auto split = [&](float value) {
        const uint64_t one = measure(value);
        if (!(static_cast<double>(one) < least)) heavy += one;
        return one;
      };
      // The sums up to each candidate, anew where the measure or the memory is another.
      if (gathered && cut == kTopP) {
        kept = Remeasure(last_key, split);
      } else if (!gathered && (cut != kDraw || !select_.summed())) {
        const uint64_t sum = select_.Sum(last_key, split);
        if (cut != kDraw) kept = sum;
      }

      // Which of them ends the cut, unless it cuts nothing off.
      Goal goal = {false, static_cast<double>(row_.top_k)};
      if (cut == kTopK && kept <= static_cast<uint64_t>(row_.top_k)) continue;
      if (cut == kTopP) {
        if (row_.top_p == 1.0f && row_.min_p == 0.0f) continue;
        goal.bound = static_cast<double>(row_.top_p) * static_cast<double>(kept);
        if (row_.min_p > 0.0f) kept = Total(heavy);
        if (!goal(kept)) continue;
      }
      if (cut == kDraw) {
        const float uniform = sample::PhiloxUniform(row_.seed, row_.position);
        goal = {true, static_cast<double>(uniform) * static_cast<double>(kept)};
      }

      const uint64_t whole = cut == kTopK ? kThreads : cut == kTopP ? ~uint64_t{0} : 0;
      const auto place =
          gathered ? select_.Pick(0, goal) : select_.Select(last_key, measure, goal, whole);
      if (cut == kTopK) last_key = place.key;
      if (cut == kTopP) kept = place.sum;
      if (cut == kDraw) return IndexOfKey(place.key);
      gathered = gathered || select_.whole();
    }
  }

  // Weighs what top-k gathered. Returns the sum.
  template <typename Measure>
  LUNA_DEVICE uint64_t Remeasure(uint64_t last_key, const Measure& measure) {
    const auto* own = select_.own();
    const uint64_t one = own != nullptr && own->key <= last_key ? measure(ValueOfKey(own->key)) : 0;
    select_.Remeasure(one);
    return Total(one);
  }

  LUNA_DEVICE uint64_t Total(uint64_t value) {
    return select_.Reduce(value, uint64_t{0}, [](uint64_t a, uint64_t b) { return a + b; });
  }

  LUNA_DEVICE void Finish(SampleStatus status, int token, float logprob) {
    if (ThreadIndex() != 0) return;
    args_.results.tokens[row_index_] = token;
    args_.results.statuses[row_index_] = status;
    args_.results.logprobs[row_index_] = logprob;
  }

  const SampleArgs& args_;
  int row_index_;
  const SampleRow& row_;
  float* logits_;
  SampleMemory<kThreads>* memory_;
  Select select_;
};

// Grid: any number of blocks; those beyond the rows do nothing.
template <int kThreads>
LUNA_KERNEL void LUNA_BLOCK_OF(kThreads, 1) SampleRows(SampleArgs args) {
  auto* memory = reinterpret_cast<SampleMemory<kThreads>*>(SharedMemory());
  AwaitEarlierKernels();
  const int left = args.header->num_rows - args.first_row;
  const int num_rows = left < args.max_rows ? left : args.max_rows;
  for (int row = BlockIndexX(); row < num_rows; row += GridX()) {
    RowSampler<kThreads>(args, args.first_row + row, memory).Sample();
    SyncThreads();
  }
}

inline constexpr int kSampleThreads = 512;
template <int kThreads>
inline constexpr int64_t kSampleSharedBytes = sizeof(SampleMemory<kThreads>);

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_SAMPLING_CUH_
