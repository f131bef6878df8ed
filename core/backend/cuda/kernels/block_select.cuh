// One block looks through a row of values in its descending order, ties by ascending index, without
// sorting it: where does the running sum of a measure reach something?
//
// Values fall into kBins bins, the first digit of a radix descent: equal steps down from the
// largest. One pass adds each value's measure to its bin, and a scan makes of that the sums up to
// each bin, which say in which one the sum gets there. A second pass gathers the few candidates of
// that bin, one a thread; each adds up those that do not come after it. Where too many share a bin
// (ties, or values far from all others), the descent goes on by the exact order, bits of the value
// and then of the index, kBins parts at a time.
//
// Measures are whole numbers, added by atomics of 32 bits: every order of adding gives the same.
// (Shared memory has none of 64 bits; those would be loops.)
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_BLOCK_SELECT_CUH_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_BLOCK_SELECT_CUH_

#include <cstdint>
#include <limits>

#include "core/backend/cuda/kernels/platform.cuh"

namespace luna::backend::cuda {
inline namespace LUNA_KERNELS {

inline constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kFloatMax = std::numeric_limits<float>::max();

// Ascending keys are the order of candidates. -0 stands with 0; no NaN. Never 0.
LUNA_DEVICE uint64_t OrderKey(float value, int index) {
  const auto bits = __builtin_bit_cast(uint32_t, value + 0.0f);
  const uint32_t descending = bits >> 31 != 0 ? bits : ~bits & 0x7fffffffu;
  return uint64_t{descending} << 32 | static_cast<uint32_t>(index);
}
LUNA_DEVICE float ValueOfKey(uint64_t key) {
  const auto descending = static_cast<uint32_t>(key >> 32);
  return __builtin_bit_cast(float, descending >> 31 != 0 ? descending : ~descending & 0x7fffffffu);
}
LUNA_DEVICE int IndexOfKey(uint64_t key) { return static_cast<int>(key & 0xffffffffu); }

struct alignas(16) FourFloats {
  float value[4];
};

// visit(value, index), each thread four neighbours at a time and the next four on their way.
// `values` is aligned to 16 bytes and may be read up to the next multiple of four.
template <typename Visit>
LUNA_DEVICE void ForEachValue(const float* values, int count, const Visit& visit) {
  const auto load = [=](int first) {
    return first < count ? *reinterpret_cast<const FourFloats*>(values + first) : FourFloats{};
  };
  const int step = 4 * BlockThreads();
  FourFloats next = load(4 * ThreadIndex());
  for (int first = 4 * ThreadIndex(); first < count; first += step) {
    const FourFloats four = next;
    next = load(first + step);
    for (int i = 0; i < 4; ++i) {
      if (first + i < count) visit(four.value[i], first + i);
    }
  }
}

template <int kThreads>
class BlockSelect {
 public:
  static constexpr int kBinsPerThread = 4;
  static constexpr int kBins = kBinsPerThread * kThreads;
  static constexpr int kWarps = kThreads / kWarpSize;
  static_assert(kThreads % kWarpSize == 0 && kWarps <= kWarpSize);

  struct Candidate {
    uint64_t key, measure;
    uint64_t sum;  // of the measures of all gathered ones that do not come after it
  };
  // A candidate, and the sum of the measures up to it, its own included.
  struct Place {
    uint64_t key, sum;
  };
  // Candidates of bins and keys within these, all ends included.
  struct Range {
    int first_bin, last_bin;
    uint64_t low, high;
  };
  struct FoundBin {
    int index;
    uint64_t before, through;  // the sums up to it, without and with its own
  };
  struct Memory {
    uint32_t low[kBins], high[kBins];  // halves of the sums up to each bin
    Candidate gathered[kThreads];
    uint64_t warps[kWarpSize];
    Place found;
    FoundBin found_bin;
    uint32_t num_gathered;
  };
  static constexpr uint64_t kLastKey = ~uint64_t{0};

  LUNA_DEVICE BlockSelect(Memory* memory, const float* values, int count)
      : memory_(memory), values_(values), count_(count) {}

  // Values from `largest` down to `smallest`, but at most `reach` down, spread over the bins; what
  // lies lower is in the last one. With `all` false that one is left out of everything below.
  LUNA_DEVICE void SetBins(float largest, float smallest, float reach, bool all) {
    const float range = largest - smallest < reach ? largest - smallest : reach;
    const float scale = static_cast<float>(kBins - 8) / range;  // the last bin is out of reach
    largest_ = largest;
    scale_ = scale < kFloatMax ? scale : kFloatMax;
    last_bin_ = all ? kBins - 1 : kBins - 2;
  }

  LUNA_DEVICE Range UpTo(uint64_t last_key) const { return {0, last_bin_, 0, last_key}; }

  // Adds up the measures of the candidates up to `last_key`. Returns the sum of all.
  template <typename Measure>
  LUNA_DEVICE uint64_t Sum(uint64_t last_key, const Measure& measure) {
    summed_ = true;
    return FillBins(UpTo(last_key), kByBin, measure);
  }
  // Whether what Sum made is there still: where a bin has too many candidates, Select needs the
  // memory.
  LUNA_DEVICE bool summed() const { return summed_; }

  // The first candidate up to which the measures make a sum that is reached(sum). Sum was called
  // with the same `last_key` and `measure`; reached holds for the sum of all, not for 0, and for
  // whatever is above a sum that it holds for. Where the sum at that candidate's bin is at most
  // `whole`, all candidates up to that bin are gathered first, and whole() says whether they could
  // be.
  template <typename Measure, typename Reached>
  LUNA_DEVICE Place Select(uint64_t last_key, const Measure& measure, const Reached& reached,
                           uint64_t whole) {
    const FoundBin bin = FindBin(0, reached);
    whole_ = bin.through <= whole;
    Range range = {whole_ ? 0 : bin.index, bin.index, 0, last_key};
    uint64_t base = whole_ ? 0 : bin.before;
    bool measured = false;  // whether the range is as narrow as its candidates
    while (!Gather(range, measure)) {
      if (whole_) {
        whole_ = false;
        range.first_bin = bin.index;
        base = bin.before;
        continue;
      }
      if (!measured) Narrow(range);
      measured = true;
      base = Descend(range, base, measure, reached);
    }
    return Pick(base, reached);
  }
  LUNA_DEVICE bool whole() const { return whole_; }

  // One candidate a thread, those of `range` that measure something; false if there are more than
  // threads.
  template <typename Measure>
  LUNA_DEVICE bool Gather(const Range& range, const Measure& measure) {
    SyncThreads();
    if (ThreadIndex() == 0) memory_->num_gathered = 0;
    SyncThreads();
    bool full = false;
    ForEachValue(values_, count_, [&](float value, int index) {
      if (full || !IsIn(range, value, index)) return;
      const uint64_t one = measure(value);
      if (one == 0) return;
      const uint32_t place = AtomicAdd(&memory_->num_gathered, uint32_t{1});
      full = place >= kThreads;
      if (!full) memory_->gathered[place] = {OrderKey(value, index), one, 0};
    });
    SyncThreads();
    const uint32_t gathered = memory_->num_gathered;
    if (gathered > kThreads) return false;
    num_gathered_ = static_cast<int>(gathered);
    AddUp();
    return true;
  }

  // This thread's candidate of those gathered, or null.
  LUNA_DEVICE const Candidate* own() const {
    return ThreadIndex() < num_gathered_ ? &memory_->gathered[ThreadIndex()] : nullptr;
  }

  // Gives what was gathered other measures.
  LUNA_DEVICE void Remeasure(uint64_t measure) {
    SyncThreads();
    if (ThreadIndex() < num_gathered_) memory_->gathered[ThreadIndex()].measure = measure;
    SyncThreads();
    AddUp();
  }

  // As Select, of what was gathered; `base` is the sum before it.
  template <typename Reached>
  LUNA_DEVICE Place Pick(uint64_t base, const Reached& reached) {
    SyncThreads();
    if (const Candidate* own = this->own(); own != nullptr && own->measure > 0) {
      const uint64_t sum = base + own->sum;
      if (reached(sum) && !reached(sum - own->measure)) memory_->found = {own->key, sum};
    }
    SyncThreads();
    return memory_->found;
  }

  // combine(…) over the values of all threads, in a fixed tree; T has 4 or 8 bytes.
  template <typename T, typename Combine>
  LUNA_DEVICE T Reduce(T value, T neutral, const Combine& combine) {
    for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
      value = combine(value, ShuffleXor(value, mask));
    }
    T* warps = reinterpret_cast<T*>(memory_->warps);
    SyncThreads();
    if (Lane() == 0) warps[Warp()] = value;
    SyncThreads();
    value = Lane() < kWarps ? warps[Lane()] : neutral;
    for (int mask = kWarpSize / 2; mask > 0; mask /= 2) {
      value = combine(value, ShuffleXor(value, mask));
    }
    return value;
  }

 private:
  static constexpr int kByBin = -1;

  LUNA_DEVICE static int Lane() { return ThreadIndex() % kWarpSize; }
  LUNA_DEVICE static int Warp() { return ThreadIndex() / kWarpSize; }

  // Rounding keeps the order: a lower value never gets a lower bin.
  LUNA_DEVICE int Bin(float value) const {
    const float steps = (largest_ - value) * scale_;
    return steps < static_cast<float>(kBins - 1) ? static_cast<int>(steps) : kBins - 1;
  }

  LUNA_DEVICE void AddUp() {
    if (ThreadIndex() >= num_gathered_) return;
    Candidate& own = memory_->gathered[ThreadIndex()];
    const uint64_t key = own.key;
    uint64_t sum = 0;
    for (int i = 0; i < num_gathered_; ++i) {
      if (memory_->gathered[i].key <= key) sum += memory_->gathered[i].measure;
    }
    own.sum = sum;
  }

  LUNA_DEVICE bool IsIn(const Range& range, float value, int index) const {
    const int bin = Bin(value);
    if (bin < range.first_bin || bin > range.last_bin) return false;
    const uint64_t key = OrderKey(value, index);
    return key >= range.low && key <= range.high;
  }

  // Candidates of `range` by Bin, or by the bits of their keys from `shift` upwards.
  template <typename Measure>
  LUNA_DEVICE uint64_t FillBins(const Range& range, int shift, const Measure& measure) {
    for (int i = ThreadIndex(); i < kBins; i += kThreads) memory_->low[i] = memory_->high[i] = 0;
    SyncThreads();
    ForEachValue(values_, count_, [&](float value, int index) {
      if (!IsIn(range, value, index)) return;
      const uint64_t one = measure(value);
      if (one == 0) return;
      const int bin = shift == kByBin
                          ? Bin(value)
                          : static_cast<int>((OrderKey(value, index) - range.low) >> shift);
      const auto low = static_cast<uint32_t>(one);
      const uint32_t before = AtomicAdd(&memory_->low[bin], low);
      const uint32_t carry = before + low < before ? 1 : 0;
      const uint32_t high = static_cast<uint32_t>(one >> 32) + carry;
      if (high != 0) AtomicAdd(&memory_->high[bin], high);
    });
    SyncThreads();
    return ScanBins();
  }

  LUNA_DEVICE static uint64_t ScanWarp(uint64_t value) {
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const bool there = Lane() >= distance;
      const uint64_t other = ShuffleFrom(value, there ? Lane() - distance : Lane());
      if (there) value += other;
    }
    return value;
  }

  LUNA_DEVICE uint64_t BinSum(int bin) const {
    return uint64_t{memory_->high[bin]} << 32 | memory_->low[bin];
  }
  LUNA_DEVICE void SetBinSum(int bin, uint64_t sum) {
    memory_->low[bin] = static_cast<uint32_t>(sum);
    memory_->high[bin] = static_cast<uint32_t>(sum >> 32);
  }

  // Makes of the bins' own sums those up to each of them. Returns the last.
  LUNA_DEVICE uint64_t ScanBins() {
    const int first = kBinsPerThread * ThreadIndex();
    uint64_t own = 0;
    for (int i = 0; i < kBinsPerThread; ++i) own += BinSum(first + i);
    const uint64_t within_warp = ScanWarp(own);
    if (Lane() == kWarpSize - 1) memory_->warps[Warp()] = within_warp;
    SyncThreads();
    const uint64_t warps = ScanWarp(Lane() < kWarps ? memory_->warps[Lane()] : 0);
    const uint64_t before_warp = ShuffleFrom(warps, Warp() > 0 ? Warp() - 1 : 0);
    uint64_t sum = (Warp() > 0 ? before_warp : 0) + within_warp - own;
    for (int i = 0; i < kBinsPerThread; ++i) SetBinSum(first + i, sum += BinSum(first + i));
    const uint64_t total = ShuffleFrom(warps, kWarpSize - 1);
    SyncThreads();
    return total;
  }

  // The one in which `base` and the sums of the bins reach it.
  template <typename Reached>
  LUNA_DEVICE FoundBin FindBin(uint64_t base, const Reached& reached) {
    SyncThreads();
    const int first = kBinsPerThread * ThreadIndex();
    uint64_t before = base + (first > 0 ? BinSum(first - 1) : 0);
    if (!reached(before) && reached(base + BinSum(first + kBinsPerThread - 1))) {
      int bin = first;
      uint64_t through = base + BinSum(bin);
      while (!reached(through)) {
        before = through;
        through = base + BinSum(++bin);
      }
      memory_->found_bin = {bin, before, through};
    }
    SyncThreads();
    return memory_->found_bin;
  }

  // Keys from that of the first candidate in `range` to that of the last.
  LUNA_DEVICE void Narrow(Range& range) {
    uint64_t low = kLastKey;
    uint64_t high = 0;
    ForEachValue(values_, count_, [&](float value, int index) {
      if (!IsIn(range, value, index)) return;
      const uint64_t key = OrderKey(value, index);
      low = key < low ? key : low;
      high = key > high ? key : high;
    });
    range.low = Reduce(low, kLastKey, [](uint64_t a, uint64_t b) { return a < b ? a : b; });
    range.high = Reduce(high, uint64_t{0}, [](uint64_t a, uint64_t b) { return a > b ? a : b; });
  }

  // Leaves of `range` the part, one of kBins, in which the sum is reached; `base` is the sum before
  // `range`. Returns the sum before that part.
  template <typename Measure, typename Reached>
  LUNA_DEVICE uint64_t Descend(Range& range, uint64_t base, const Measure& measure,
                               const Reached& reached) {
    int shift = 0;
    while ((range.high - range.low) >> shift >= kBins) ++shift;
    FillBins(range, shift, measure);
    summed_ = false;
    const FoundBin part = FindBin(base, reached);
    range.low += static_cast<uint64_t>(part.index) << shift;
    const uint64_t last = range.low + ((uint64_t{1} << shift) - 1);
    range.high = last < range.high ? last : range.high;
    return part.before;
  }

  Memory* memory_;
  const float* values_;
  int count_;

  float largest_ = 0.0f;
  float scale_ = 1.0f;
  int last_bin_ = 0;

  int num_gathered_ = 0;
  bool summed_ = false;
  bool whole_ = false;
};

}  // namespace LUNA_KERNELS
}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_BLOCK_SELECT_CUH_
