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

absl::Status FakeBackend::Launch(const batch::Batch& batch) {
  if (!fail_launch_.ok()) return std::exchange(fail_launch_, absl::OkStatus());
  ++steps_;
  computed_tokens_ += batch.num_tokens();
  largest_step_ = std::max(largest_step_, batch.num_tokens());
  numbers_.assign(batch.num_tokens(), 0);
  samples_.resize(batch.samples.size());
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
    if (next_sample == batch.samples.size() || batch.samples[next_sample].row != end - 1) continue;
    const sample::SampleSpec& spec = batch.samples[next_sample];
    sample::SampledToken& out = samples_[next_sample++];
    out.status = absl::OkStatus();
    out.token = Choose(numbers_[spec.row], spec);
    out.logprob = -static_cast<float>(numbers_[spec.row] % 1000) / 100.0f;
    out.top.clear();
    for (int i = 0; i < spec.params->num_logprobs; ++i) out.top.push_back({i, out.logprob - i});
    if (spec.position != spec.prompt.size() + spec.output.size()) {
      Fault(absl::StrCat("step ", batch.step, ": sampling position ", spec.position, " after ",
                         spec.prompt.size(), " + ", spec.output.size(), " tokens"));
    }
    if (script_) {
      history_.clear();
      for (int position = 0; position < batch.context_lengths[sequence]; ++position) {
        if (const Slot* slot = Find(batch, 0, sequence, position)) history_.push_back(slot->token);
      }
      out.token = script_(history_, out.token);
    }
  }
  if (next_sample != samples_.size()) Fault(absl::StrCat("step ", batch.step, ": odd sample rows"));
  if (fail_row_.has_value() && fail_row_->first < samples_.size()) {
    samples_[fail_row_->first].status = fail_row_->second;
    fail_row_.reset();
  }
  return absl::OkStatus();
}

TokenId FakeBackend::Choose(uint64_t number, const sample::SampleSpec& spec) const {
  if (spec.params->temperature > 0) number = Mix(Mix(number, spec.seed), spec.position);
  TokenId token = static_cast<TokenId>(number % kVocabSize);
  while (std::find(spec.masked.begin(), spec.masked.end(), token) != spec.masked.end()) {
    token = (token + 1) % kVocabSize;
  }
  return token;
}

absl::Status FakeBackend::Collect(batch::StepResult& result) {
  if (!fail_collect_.ok()) return std::exchange(fail_collect_, absl::OkStatus());
  result.samples = samples_;
  return absl::OkStatus();
}

absl::Status FakeBackend::CopyBlocks(std::span<const backend::BlockCopy> copies) {
  for (const backend::BlockCopy& copy : copies) {
    const auto from = slots_.begin() + int64_t{copy.from.value()} * layout_.block_tokens;
    std::copy(from, from + layout_.block_tokens,
              slots_.begin() + int64_t{copy.to.value()} * layout_.block_tokens);
  }
  return absl::OkStatus();
}

}  // namespace luna::fakes
