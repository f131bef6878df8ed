#include "tests/fakes/fake_backend.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/kv/sequence_kv.h"

namespace luna::fakes {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u + b + 0x2545F4914F6CDD1Du;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return x ^ (x >> 32);
}

}  // namespace

FakeBackend::FakeBackend(int context_length) {
  info_ = {.name = "fake",
           .numerics = "numbers",
           .vocab_size = kVocabSize,
           .context_length = context_length,
           .weights_bytes = 1000};
}

absl::Status FakeBackend::AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) {
  layout_ = layout;
  slots_.assign(static_cast<size_t>(num_blocks) * layout.block_tokens, Slot());
  return absl::OkStatus();
}

void FakeBackend::Fault(std::string words) {
  if (faults_.size() < 20) faults_.push_back(std::move(words));
}

FakeBackend::Slot* FakeBackend::Find(const batch::Batch& batch, int group, int sequence,
                                     int position) {
  const auto table = batch.block_table(group, sequence);
  const size_t entry = position / layout_.block_tokens;
  if (entry >= table.size() || table[entry] == kv::kNoBlock) {
    Fault(absl::StrCat("step ", batch.step, ": group ", group, " has no block for position ",
                       position));
    return nullptr;
  }
  return &slots_[static_cast<size_t>(table[entry]) * layout_.block_tokens +
                 position % layout_.block_tokens];
}

uint64_t FakeBackend::ComputeToken(const batch::Batch& batch, int group, int sequence, int token) {
  const int position = batch.positions[token];
  const int window = layout_.groups[group].window;
  uint64_t number = Mix(batch.token_ids[token], position);
  for (int seen = window == 0 ? 0 : std::max(0, position - window + 1); seen < position; ++seen) {
    const Slot* slot = Find(batch, group, sequence, seen);
    if (slot == nullptr) continue;
    if (slot->group != group || slot->position != seen) {
      Fault(absl::StrCat("step ", batch.step, ": the slot of position ", seen, " in group ", group,
                         " holds position ", slot->position, " of group ", slot->group));
    }
    number = Mix(number, slot->number);
  }
  if (Slot* slot = Find(batch, group, sequence, position); slot != nullptr) {
    *slot = {group, position, batch.token_ids[token], number};
  }
  return number;
}

// Into buffers that have room for any step, so that a steady state allocates nothing.
void FakeBackend::Take(const batch::Batch& batch, Flight& flight) {
  const auto copy = [](const auto& from, auto& to) {
    to.reserve(from.capacity());
    to = from;
  };
  flight.batch.step = batch.step;
  copy(batch.token_ids, flight.batch.token_ids);
  copy(batch.positions, flight.batch.positions);
  copy(batch.sequence_starts, flight.batch.sequence_starts);
  copy(batch.context_lengths, flight.batch.context_lengths);
  copy(batch.block_tables, flight.batch.block_tables);
  copy(batch.block_table_starts, flight.batch.block_table_starts);
  flight.samples.resize(batch.samples.size());
  for (size_t i = 0; i < batch.samples.size(); ++i) {
    const sample::SampleSpec& spec = batch.samples[i];
    Sample& sample = flight.samples[i];
    sample.row = spec.row;
    sample.temperature = spec.params->temperature;
    sample.num_logprobs = spec.params->num_logprobs;
    sample.seed = spec.seed;
    sample.position = spec.position;
    sample.masked.assign(spec.masked.begin(), spec.masked.end());
  }
}

// A token that is not known yet is chosen by the step that was launched before, which is in flight.
void FakeBackend::CheckPending(const batch::Batch& batch, TokenId token) {
  if (!batch::IsPending(token)) return;
  if (in_flight_ == 0) {
    Fault(absl::StrCat("step ", batch.step, ": a pending token, and no step in flight"));
  } else if (batch::PendingSample(token) >=
             static_cast<int>(FlightAt(in_flight_ - 1).samples.size())) {
    Fault(absl::StrCat("step ", batch.step, ": pending sample ", batch::PendingSample(token),
                       " of ", FlightAt(in_flight_ - 1).samples.size()));
  }
}

void FakeBackend::CheckSample(const batch::Batch& batch, const sample::SampleSpec& spec) {
  const bool is_pending = spec.pending >= 0;
  if (spec.position != spec.prompt.size() + spec.output.size() + (is_pending ? 1 : 0)) {
    Fault(absl::StrCat("step ", batch.step, ": sampling position ", spec.position, " after ",
                       spec.prompt.size(), " + ", spec.output.size(), " tokens",
                       is_pending ? " and a pending one" : ""));
  }
  const TokenId last = is_pending            ? batch::PendingToken(spec.pending)
                       : spec.output.empty() ? spec.prompt.back()
                                             : spec.output.back();
  if (batch.token_ids[spec.row] != last) {
    Fault(absl::StrCat("step ", batch.step, ": row ", spec.row, " is token ",
                       batch.token_ids[spec.row], "; the last one before the choice is ", last));
  }
}

absl::Status FakeBackend::Launch(const batch::Batch& batch) {
  if (!fail_launch_.ok()) return std::exchange(fail_launch_, absl::OkStatus());
  if (in_flight_ >= depth_) {
    Fault(absl::StrCat("step ", batch.step, ": ", in_flight_, " are in flight; the depth is ",
                       depth_));
    return absl::InternalError("too many steps in flight");
  }
  ++steps_;
  if (in_flight_ > 0) {
    ++steps_ahead_;
    copies_ahead_ += static_cast<int64_t>(copies_.size());
  }
  computed_tokens_ += batch.num_tokens();
  largest_step_ = std::max(largest_step_, batch.num_tokens());
  for (const TokenId token : batch.token_ids) CheckPending(batch, token);
  for (const sample::SampleSpec& spec : batch.samples) CheckSample(batch, spec);
  Flight& flight = FlightAt(in_flight_++);
  Take(batch, flight);
  flight.copies.clear();
  std::swap(flight.copies, copies_);
  return absl::OkStatus();
}

void FakeBackend::Compute(Flight& flight) {
  for (const backend::BlockCopy& copy : flight.copies) {
    const auto from = slots_.begin() + int64_t{copy.from.value()} * layout_.block_tokens;
    std::copy(from, from + layout_.block_tokens,
              slots_.begin() + int64_t{copy.to.value()} * layout_.block_tokens);
  }
  batch::Batch& batch = flight.batch;
  for (TokenId& token : batch.token_ids) {
    if (!batch::IsPending(token)) continue;
    const size_t sample = batch::PendingSample(token);
    token = sample < samples_.size() ? samples_[sample].token : 0;
  }
  numbers_.assign(batch.num_tokens(), 0);
  samples_.resize(flight.samples.size());
  size_t next_sample = 0;
  for (int sequence = 0; sequence < batch.num_sequences(); ++sequence) {
    const int end = batch.sequence_starts[sequence + 1];
    for (int token = batch.sequence_starts[sequence]; token < end; ++token) {
      for (int group = 0; group < layout_.num_groups(); ++group) {
        numbers_[token] = Mix(numbers_[token], ComputeToken(batch, group, sequence, token));
      }
    }
    if (batch.context_lengths[sequence] != batch.positions[end - 1] + 1) {
      Fault(absl::StrCat("step ", batch.step, ": context length ", batch.context_lengths[sequence],
                         " after position ", batch.positions[end - 1]));
    }
    if (next_sample == samples_.size() || flight.samples[next_sample].row != end - 1) continue;
    Say(batch, sequence, flight.samples[next_sample], samples_[next_sample]);
    ++next_sample;
  }
  if (next_sample != samples_.size()) Fault(absl::StrCat("step ", batch.step, ": odd sample rows"));
}

void FakeBackend::Say(const batch::Batch& batch, int sequence, const Sample& sample,
                      sample::SampledToken& out) {
  out.status = absl::OkStatus();
  out.token = Choose(numbers_[sample.row], sample);
  out.logprob = -static_cast<float>(numbers_[sample.row] % 1000) / 100.0f;
  out.top.clear();
  for (int i = 0; i < sample.num_logprobs; ++i) out.top.push_back({i, out.logprob - i});
  if (!script_) return;
  history_.clear();
  for (int position = 0; position < batch.context_lengths[sequence]; ++position) {
    if (const Slot* slot = Find(batch, 0, sequence, position)) history_.push_back(slot->token);
  }
  out.token = script_(history_, out.token);
}

TokenId FakeBackend::Choose(uint64_t number, const Sample& sample) const {
  if (sample.temperature > 0) number = Mix(Mix(number, sample.seed), sample.position);
  TokenId token = static_cast<TokenId>(number % kVocabSize);
  while (std::find(sample.masked.begin(), sample.masked.end(), token) != sample.masked.end()) {
    token = (token + 1) % kVocabSize;
  }
  return token;
}

absl::Status FakeBackend::Collect(batch::StepResult& result) {
  if (in_flight_ == 0) {
    Fault("a step is collected that was not launched");
    return absl::InternalError("no step is in flight");
  }
  Compute(FlightAt(0));
  oldest_ = (oldest_ + 1) % kMostInFlight;
  --in_flight_;
  if (!fail_collect_.ok()) return std::exchange(fail_collect_, absl::OkStatus());
  if (fail_row_.has_value() && fail_row_->first < samples_.size()) {
    samples_[fail_row_->first].status = fail_row_->second;
    fail_row_.reset();
  }
  result.samples = samples_;
  return absl::OkStatus();
}

absl::Status FakeBackend::CopyBlocks(std::span<const backend::BlockCopy> copies) {
  for (const backend::BlockCopy& copy : copies) {
    if (fail_copy_.has_value() && fail_copy_->first-- == 0) {
      return std::exchange(fail_copy_, std::nullopt)->second;
    }
    copies_.push_back(copy);
  }
  return absl::OkStatus();
}

}  // namespace luna::fakes
