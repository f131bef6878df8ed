// Drives a backend as the engine would, with tables of its own: sequences in a scrambled pool,
// blocks behind a window given back and used again.
#ifndef LUNA_TESTS_BACKEND_SEQUENCE_DRIVER_H_
#define LUNA_TESTS_BACKEND_SEQUENCE_DRIVER_H_

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/backend/backend.h"
#include "core/batch/batch.h"
#include "core/kv/layout.h"
#include "core/model/config.h"

namespace luna::backend {

// In RowResult::logprobs, of a token that was not among those asked for.
inline constexpr float kNotAmongTheTop = 1.0f;

// What one token led to: the choice, and the log-probabilities that were asked for.
struct RowResult {
  absl::Status status;
  TokenId token = 0;
  std::vector<float> logprobs;                    // [vocab_size] by token id, or empty
  bool operator==(const RowResult& other) const;  // bit for bit
};

struct TestSequence {
  std::vector<TokenId> tokens;
  uint64_t seed = 0;
  int computed = 0;
  std::vector<std::vector<int32_t>> tables;  // [num_groups]
  std::vector<RowResult> rows;               // [computed]
};

// A sequence and how many of its tokens the next step computes.
struct Chunk {
  TestSequence* sequence;
  int count;
};

kv::KvLayout TestLayout(const model::ModelConfig& config, int block_tokens, const Backend& backend);

class SequenceDriver {
 public:
  // `scramble` orders the pool's free blocks.
  SequenceDriver(Backend& backend, const model::ModelConfig& config, int block_tokens,
                 int num_blocks, uint32_t scramble = 1);

  // One step. Rows at positions that `wanted` refuses are not sampled and leave an empty result;
  // without `wanted` all are. Status of Launch or Collect.
  absl::Status Step(std::span<const Chunk> chunks, const sample::SamplingParams& params,
                    const std::function<bool(int position)>& wanted = nullptr);
  // The same with full distributions and temperature 1.
  absl::Status Step(std::span<const Chunk> chunks);
  // One of a chain of steps that each compute a token of every sequence, of which as many may be in
  // flight as the backend's depth allows. `follows`: the tokens are those that the launch before
  // chooses, for the same sequences; else those that the sequences have, which need one at these
  // positions in any case. Leaves empty results.
  absl::Status Launch(std::span<TestSequence* const> sequences,
                      const sample::SamplingParams& params, bool follows);
  // What the oldest of them chose, in the sequences' order; valid until the next step.
  absl::StatusOr<std::span<const sample::SampledToken>> Collect();
  // Computes the rest of one sequence, alone, `chunk` tokens at a time.
  absl::Status Finish(TestSequence& sequence, int chunk);
  void Release(TestSequence& sequence);

  TestSequence NewSequence(int length, uint32_t seed) const;
  // Blocks in the order in which they will be handed out, last first.
  std::vector<int32_t>& free_blocks() { return free_; }
  const batch::Batch& batch() const { return batch_; }
  const kv::KvLayout& layout() const { return layout_; }

 private:
  void Extend(TestSequence& sequence, int count);
  void DropBehindWindows(TestSequence& sequence);
  void BuildBatch(std::span<const Chunk> chunks, const sample::SamplingParams& params,
                  const std::function<bool(int position)>& wanted);

  Backend& backend_;
  kv::KvLayout layout_;
  int vocab_size_;
  std::vector<int32_t> free_;
  batch::Batch batch_;
  std::vector<Chunk> launched_;
  batch::StepResult result_;
};

}  // namespace luna::backend

#endif  // LUNA_TESTS_BACKEND_SEQUENCE_DRIVER_H_
