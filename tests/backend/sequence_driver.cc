#include "tests/backend/sequence_driver.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/kv/sequence_kv.h"

namespace luna::backend {

bool RowResult::operator==(const RowResult& other) const {
  const auto bits = [](float logprob) { return std::bit_cast<uint32_t>(logprob); };
  return status == other.status && token == other.token &&
         std::ranges::equal(logprobs, other.logprobs, {}, bits, bits);
}

kv::KvLayout TestLayout(const model::ModelConfig& config, int block_tokens,
                        const Backend& backend) {
  std::vector<int> windows;
  for (const model::LayerConfig& layer : config.layers) windows.push_back(layer.sliding_window);
  return kv::MakeLayout(windows, block_tokens, backend.token_layer_bytes());
}

SequenceDriver::SequenceDriver(Backend& backend, const model::ModelConfig& config, int block_tokens,
                               int num_blocks, uint32_t scramble)
    : backend_(backend),
      layout_(TestLayout(config, block_tokens, backend)),
      vocab_size_(config.vocab_size),
      free_(num_blocks) {
  const absl::Status status = backend_.AllocateKv(layout_, num_blocks);
  LUNA_CHECK(status.ok()) << status;
  std::iota(free_.begin(), free_.end(), 0);
  std::shuffle(free_.begin(), free_.end(), std::mt19937(scramble));
}

TestSequence SequenceDriver::NewSequence(int length, uint32_t seed) const {
  TestSequence sequence;
  sequence.seed = seed;
  sequence.tables.resize(layout_.num_groups());
  std::mt19937 random(seed);
  for (int i = 0; i < length; ++i) {
    sequence.tokens.push_back(static_cast<TokenId>(random() % vocab_size_));
  }
  return sequence;
}

void SequenceDriver::Extend(TestSequence& sequence, int count) {
  const size_t needed = (sequence.computed + count - 1) / layout_.block_tokens + 1;
  for (std::vector<int32_t>& table : sequence.tables) {
    while (table.size() < needed) {
      LUNA_CHECK(!free_.empty());
      table.push_back(free_.back());
      free_.pop_back();
    }
  }
}

void SequenceDriver::DropBehindWindows(TestSequence& sequence) {
  for (int g = 0; g < layout_.num_groups(); ++g) {
    const int window = layout_.groups[g].window;
    if (window == 0) continue;
    const int first = std::max(0, sequence.computed - window + 1);  // that the next token sees
    for (int i = 0; i < first / layout_.block_tokens; ++i) {
      int32_t& block = sequence.tables[g][i];
      if (block != kv::kNoBlock) free_.push_back(block);
      block = kv::kNoBlock;
    }
  }
}

void SequenceDriver::BuildBatch(std::span<const Chunk> chunks, const sample::SamplingParams& params,
                                const std::function<bool(int position)>& wanted) {
  batch_.Clear();
  batch_.sequence_starts.push_back(0);
  for (const Chunk& chunk : chunks) {
    TestSequence& sequence = *chunk.sequence;
    for (int i = 0; i < chunk.count; ++i) {
      const int position = sequence.computed + i;
      if (!wanted || wanted(position)) {
        batch_.samples.push_back({.row = batch_.num_tokens(),
                                  .params = &params,
                                  .seed = sequence.seed,
                                  .position = static_cast<uint64_t>(position) + 1});
      }
      batch_.token_ids.push_back(sequence.tokens[position]);
      batch_.positions.push_back(position);
    }
    batch_.sequence_starts.push_back(batch_.num_tokens());
    batch_.context_lengths.push_back(sequence.computed + chunk.count);
  }
  batch_.block_table_starts.push_back(0);
  for (int g = 0; g < layout_.num_groups(); ++g) {
    for (const Chunk& chunk : chunks) {
      const std::vector<int32_t>& table = chunk.sequence->tables[g];
      batch_.block_tables.insert(batch_.block_tables.end(), table.begin(), table.end());
      batch_.block_table_starts.push_back(static_cast<int32_t>(batch_.block_tables.size()));
    }
  }
}

absl::Status SequenceDriver::Step(std::span<const Chunk> chunks,
                                  const sample::SamplingParams& params,
                                  const std::function<bool(int position)>& wanted) {
  for (const Chunk& chunk : chunks) Extend(*chunk.sequence, chunk.count);
  BuildBatch(chunks, params, wanted);
  LUNA_RETURN_IF_ERROR(backend_.Launch(batch_));
  LUNA_RETURN_IF_ERROR(backend_.Collect(result_));
  LUNA_CHECK_EQ(result_.samples.size(), batch_.samples.size());
  auto sampled = result_.samples.begin();
  for (const Chunk& chunk : chunks) {
    for (int i = 0; i < chunk.count; ++i) {
      RowResult& row = chunk.sequence->rows.emplace_back();
      if (wanted && !wanted(chunk.sequence->computed + i)) continue;
      row.status = sampled->status;
      row.token = sampled->token;
      if (!sampled->top.empty()) row.logprobs.assign(vocab_size_, kNotAmongTheTop);
      for (const sample::TokenLogprob& top : sampled->top) row.logprobs[top.token] = top.logprob;
      ++sampled;
    }
    chunk.sequence->computed += chunk.count;
    DropBehindWindows(*chunk.sequence);
  }
  return absl::OkStatus();
}

absl::Status SequenceDriver::Step(std::span<const Chunk> chunks) {
  sample::SamplingParams params;
  params.num_logprobs = vocab_size_;
  return Step(chunks, params);
}

absl::Status SequenceDriver::Launch(std::span<TestSequence* const> sequences,
                                    const sample::SamplingParams& params, bool follows) {
  launched_.clear();
  for (TestSequence* sequence : sequences) {
    Extend(*sequence, 1);
    launched_.push_back({sequence, 1});
  }
  BuildBatch(launched_, params, nullptr);
  if (follows) {
    for (size_t i = 0; i < sequences.size(); ++i) {
      batch_.token_ids[i] = batch::PendingToken(static_cast<int>(i));
    }
  }
  LUNA_RETURN_IF_ERROR(backend_.Launch(batch_));
  for (TestSequence* sequence : sequences) {
    sequence->rows.emplace_back();
    ++sequence->computed;
    DropBehindWindows(*sequence);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::span<const sample::SampledToken>> SequenceDriver::Collect() {
  LUNA_RETURN_IF_ERROR(backend_.Collect(result_));
  for (const sample::SampledToken& sampled : result_.samples) LUNA_RETURN_IF_ERROR(sampled.status);
  return result_.samples;
}

absl::Status SequenceDriver::Finish(TestSequence& sequence, int chunk) {
  while (sequence.computed < static_cast<int>(sequence.tokens.size())) {
    const int left = static_cast<int>(sequence.tokens.size()) - sequence.computed;
    const Chunk chunks[] = {{&sequence, std::min(chunk, left)}};
    LUNA_RETURN_IF_ERROR(Step(chunks));
  }
  return absl::OkStatus();
}

void SequenceDriver::Release(TestSequence& sequence) {
  for (std::vector<int32_t>& table : sequence.tables) {
    for (int32_t block : table) {
      if (block != kv::kNoBlock) free_.push_back(block);
    }
    table.clear();
  }
}

}  // namespace luna::backend
