// What is particular to the backend on a GPU: tokens that are still on their way, and a device that
// fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/backend/cuda/cuda_backend.h"
#include "core/backend/cuda/kernels/sampling_args.h"
#include "core/base/status_macros.h"
#include "tests/backend/random_model.h"
#include "tests/backend/sequence_driver.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/kernels/kernels.h"

namespace luna::backend::cuda {
namespace {

using testing::HasSubstr;

struct Made {
  std::unique_ptr<Backend> backend;
  EmulatedDevice* device = nullptr;
};

Made Make(const std::shared_ptr<const model::Model>& model,
          const EmulatedDeviceOptions& device_options = {}, int max_batch_tokens = 64) {
  auto device = std::make_unique<EmulatedDevice>(device_options);
  Made made;
  made.device = device.get();
  BackendOptions options;
  options.max_batch_tokens = max_batch_tokens;
  made.backend = *MakeCudaBackend(model, options, std::move(device), EmulatedKernels());
  return made;
}

// Decodes one sequence, `depth` steps in flight, each of which samples its last row.
class Decoding {
 public:
  Decoding(Backend& backend, const model::ModelConfig& config, std::vector<TokenId> prompt,
           const sample::SamplingParams& params)
      : backend_(backend), params_(params), tokens_(std::move(prompt)), prompt_(tokens_.size()) {
    const kv::KvLayout layout = TestLayout(config, 16, backend);
    EXPECT_TRUE(backend_.AllocateKv(layout, 32).ok());
    for (int i = 0; i < 6; ++i) table_.push_back(5 * i % 32);
  }

  std::vector<TokenId> Run(int count, int depth) {
    std::vector<bool> in_flight_samples;
    int launched = 0;
    while (static_cast<int>(tokens_.size() - prompt_) < count) {
      if (launched < count) {
        EXPECT_TRUE(Launch(launched).ok());
        ++launched;
      }
      const int in_flight = launched - static_cast<int>(tokens_.size() - prompt_);
      if (in_flight < depth && launched < count) continue;
      batch::StepResult result;
      EXPECT_TRUE(backend_.Collect(result).ok());
      EXPECT_TRUE(result.samples.at(0).status.ok()) << result.samples[0].status;
      tokens_.push_back(result.samples[0].token);
    }
    return {tokens_.begin() + static_cast<int64_t>(prompt_), tokens_.end()};
  }

 private:
  // The step that gives output token `step`.
  absl::Status Launch(int step) {
    const bool pending = step > 0 && tokens_.size() < prompt_ + step;
    batch::Batch batch;
    const int position = step == 0 ? 0 : static_cast<int>(prompt_) + step - 1;
    const int count = step == 0 ? static_cast<int>(prompt_) : 1;
    for (int i = 0; i < count; ++i) {
      batch.token_ids.push_back(pending ? batch::PendingToken(0) : tokens_[position + i]);
      batch.positions.push_back(position + i);
    }
    batch.sequence_starts = {0, count};
    batch.context_lengths = {position + count};
    batch.block_tables = table_;
    batch.block_table_starts = {0, static_cast<int32_t>(table_.size())};
    sample::SampleSpec spec;
    spec.row = count - 1;
    spec.params = &params_;
    spec.seed = 42;
    spec.position = prompt_ + step;
    spec.prompt = std::span(tokens_).first(prompt_);
    spec.output = std::span(tokens_).subspan(prompt_);
    spec.pending = pending ? 0 : -1;
    batch.samples = {spec};
    return backend_.Launch(batch);
  }

  Backend& backend_;
  const sample::SamplingParams params_;
  std::vector<TokenId> tokens_;
  const size_t prompt_;
  std::vector<int32_t> table_;
};

TEST(CudaBackendTest, OfCandidatesOnlyThoseAskedForLeaveTheDevice) {
  const auto model = MakeRandomModel("gpt2");
  constexpr int kSteps = 3;
  int64_t copied[3];
  for (const int count : {0, 1, 2}) {
    Made made = Make(model);
    sample::SamplingParams params;
    params.num_logprobs = count * 5;
    Decoding(*made.backend, model->config, {5, 6, 7}, params).Run(kSteps, 2);
    copied[count] = made.device->counters().copied_out_bytes;
  }
  constexpr int64_t kFive = kSteps * 5 * sizeof(SampleTop);
  EXPECT_EQ(copied[1], copied[0] + kFive);
  EXPECT_EQ(copied[2], copied[1] + kFive);
}

TEST(CudaBackendTest, TokensOnTheirWayAreTheSameAsTokensThatWereRead) {
  const auto model = MakeRandomModel("llama");
  sample::SamplingParams greedy, penalized;
  greedy.temperature = 0.0f;
  penalized.temperature = 0.9f;
  penalized.top_p = 0.9f;
  penalized.repetition_penalty = 1.5f;
  penalized.frequency_penalty = 1.0f;
  penalized.presence_penalty = 0.5f;
  for (const sample::SamplingParams& params : {greedy, penalized}) {
    std::vector<std::vector<TokenId>> said;
    for (const int depth : {1, 2}) {
      const Made made = Make(model);
      said.push_back(
          Decoding(*made.backend, model->config, {3, 1, 4, 1, 5}, params).Run(40, depth));
    }
    EXPECT_EQ(said[0], said[1]);
  }
}

// More single tokens, and more choices in one step, than any recorded graph has.
TEST(CudaBackendTest, StepsLargerThanEveryGraphAreTheSame) {
  constexpr int kSequences = 300;
  const auto model = MakeRandomModel("llama");
  const Made made = Make(model, {}, 2 * kSequences);
  SequenceDriver driver(*made.backend, model->config, 4, kSequences);
  std::vector<TestSequence> sequences;
  for (int i = 0; i < kSequences; ++i) sequences.push_back(driver.NewSequence(3, 7 + i));
  const int64_t graphs = made.device->counters().graph_launches;
  for (const int count : {2, 1}) {  // chunks, then single tokens
    std::vector<Chunk> chunks;
    for (TestSequence& sequence : sequences) chunks.push_back({&sequence, count});
    ASSERT_TRUE(driver.Step(chunks).ok());
  }
  EXPECT_EQ(made.device->counters().graph_launches, graphs);
  for (const int i : {0, 63, 64, 255, 256, 299}) {
    const Made alone = Make(model);
    SequenceDriver other(*alone.backend, model->config, 4, 1);
    TestSequence sequence = other.NewSequence(3, 7 + i);
    ASSERT_TRUE(other.Finish(sequence, 1).ok());
    EXPECT_EQ(alone.device->counters().graph_launches, 3);
    EXPECT_EQ(sequence.rows, sequences[i].rows) << "sequence " << i;
  }
}

TEST(CudaBackendTest, PendingTokensOfNoStepAreRefused) {
  const auto model = MakeRandomModel("llama");
  const Made made = Make(model);
  SequenceDriver driver(*made.backend, model->config, 16, 8);
  TestSequence sequence = driver.NewSequence(4, 1);
  const Chunk chunks[] = {{&sequence, 4}};
  const sample::SamplingParams params;
  ASSERT_TRUE(driver.Step(chunks, params).ok());
  batch::Batch batch = driver.batch();
  batch.token_ids[2] = batch::PendingToken(0);
  EXPECT_THAT(std::string(made.backend->Launch(batch).message()), HasSubstr("token id -1"));
  batch = driver.batch();
  batch.samples.back().pending = 0;
  EXPECT_THAT(std::string(made.backend->Launch(batch).message()),
              HasSubstr("follows sample 0 of 0"));
}

// Every allocation fails once: a clear status, nothing is left behind (the device checks that at
// its end), and the next try works.
TEST(CudaBackendTest, OutOfMemoryIsAStatusWhereverItHappens) {
  const auto model = MakeRandomModel("gemma3");
  BackendOptions options;
  options.max_batch_tokens = 16;
  int failures = 0;
  for (int number = 1;; ++number) {
    auto device = std::make_unique<EmulatedDevice>();
    EmulatedDevice* const raw = device.get();
    raw->FailAllocation(number);
    auto made = MakeCudaBackend(model, options, std::move(device), EmulatedKernels());
    if (!made.ok()) {
      EXPECT_EQ(made.status().code(), absl::StatusCode::kResourceExhausted) << made.status();
      ++failures;
      continue;
    }
    const kv::KvLayout layout = TestLayout(model->config, 16, **made);
    absl::Status status = (*made)->AllocateKv(layout, 16);
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    ++failures;
    EXPECT_TRUE((*made)->AllocateKv(layout, 16).ok()) << "a second try";
  }
  EXPECT_GT(failures, 50);
}

TEST(CudaBackendTest, APoolLargerThanTheDeviceIsRefusedWithWhatIsFree) {
  const auto model = MakeRandomModel("llama");
  EmulatedDeviceOptions options;
  options.total_bytes = 16 << 20;
  const Made made = Make(model, options);
  const auto use = made.backend->device_memory();
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->total_bytes, options.total_bytes);
  EXPECT_LT(use->free_bytes, options.total_bytes - made.backend->info().weights_bytes);
  const kv::KvLayout layout = TestLayout(model->config, 16, *made.backend);
  const auto blocks = static_cast<int32_t>(options.total_bytes / layout.block_bytes());
  const absl::Status status = made.backend->AllocateKv(layout, blocks);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("KV pool"));
  // Exactly what the pool says is what the device has less.
  ASSERT_TRUE(made.backend->AllocateKv(layout, 10).ok());
  EXPECT_LE(made.backend->device_memory()->free_bytes, use->free_bytes - 10 * layout.block_bytes());
}

TEST(CudaBackendTest, AFailedLaunchChangesNothing) {
  const auto model = MakeRandomModel("qwen2");
  const auto run = [&](bool fail) {
    const Made made = Make(model);
    SequenceDriver driver(*made.backend, model->config, 16, 16);
    TestSequence sequence = driver.NewSequence(30, 1);
    const Chunk first[] = {{&sequence, 20}};
    const sample::SamplingParams params;
    EXPECT_TRUE(driver.Step(first, params).ok());
    if (fail) {
      made.device->FailLaunch(1);
      const batch::Batch batch = driver.batch();
      EXPECT_EQ(made.backend->Launch(batch).code(), absl::StatusCode::kInternal);
      batch::StepResult none;
      EXPECT_EQ(made.backend->Collect(none).code(), absl::StatusCode::kFailedPrecondition);
    }
    EXPECT_TRUE(driver.Finish(sequence, 1).ok());
    return sequence.rows;
  };
  EXPECT_EQ(run(true), run(false));
}

// A step that has no graph, with another one in flight: some of its kernels were launched.
TEST(CudaBackendTest, ALaunchThatFailsHalfwayLeavesTheStepBeforeAlone) {
  constexpr int kSequences = 260;
  const auto model = MakeRandomModel("llama");
  const Made made = Make(model, {}, kSequences);
  SequenceDriver driver(*made.backend, model->config, 4, kSequences);
  std::vector<TestSequence> sequences;
  std::vector<Chunk> chunks;
  for (int i = 0; i < kSequences; ++i) sequences.push_back(driver.NewSequence(1, 7 + i));
  for (TestSequence& sequence : sequences) chunks.push_back({&sequence, 1});
  sample::SamplingParams greedy;
  greedy.temperature = 0.0f;
  ASSERT_TRUE(driver.Step(chunks, greedy).ok());
  const batch::Batch batch = driver.batch();
  ASSERT_TRUE(made.backend->Launch(batch).ok());
  made.device->FailLaunch(5);
  const int64_t copied = made.device->counters().copied_in_bytes;
  EXPECT_EQ(made.backend->Launch(batch).code(), absl::StatusCode::kInternal);
  EXPECT_GT(made.device->counters().copied_in_bytes, copied) << "its staging memory is still read";
  // Its kernels may have written over the tokens of the step that is in flight.
  batch::Batch follows = batch;
  follows.token_ids[0] = batch::PendingToken(0);
  EXPECT_THAT(std::string(made.backend->Launch(follows).message()), HasSubstr("token id -1"));
  for (int i = 0; i < 2; ++i) {
    batch::StepResult result;
    ASSERT_TRUE(made.backend->Collect(result).ok());
    for (int s = 0; s < kSequences; ++s) {
      EXPECT_EQ(result.samples[s].token, sequences[s].rows[0].token) << s;
    }
    if (i == 0) {
      ASSERT_TRUE(made.backend->Launch(batch).ok());
    }
  }
}

TEST(CudaBackendTest, ALostDeviceIsUnavailableFromThenOn) {
  const auto model = MakeRandomModel("llama");
  for (const int work : {1, 5, 30}) {
    const Made made = Make(model);
    SequenceDriver driver(*made.backend, model->config, 16, 16);
    TestSequence sequence = driver.NewSequence(30, 1);
    const Chunk first[] = {{&sequence, 20}};
    const sample::SamplingParams params;
    ASSERT_TRUE(driver.Step(first, params).ok());
    made.device->LoseAt(work);
    const batch::Batch batch = driver.batch();
    ASSERT_TRUE(made.backend->Launch(batch).ok());
    ASSERT_TRUE(made.backend->Launch(batch).ok());
    batch::StepResult result;
    absl::Status status = made.backend->Collect(result);
    if (status.ok()) status = made.backend->Collect(result);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(made.backend->Launch(batch).code(), absl::StatusCode::kUnavailable);
    const BlockCopy copy[] = {{BlockId(0), BlockId(1)}};
    EXPECT_EQ(made.backend->CopyBlocks(copy).code(), absl::StatusCode::kUnavailable);
  }
}

TEST(CudaBackendTest, WhatTheDeviceDoesNotHaveIsRefused) {
  const auto model = MakeRandomModel("llama");
  const auto make = [&](const BackendOptions& options, const EmulatedDeviceOptions& device = {}) {
    return MakeCudaBackend(model, options, std::make_unique<EmulatedDevice>(device),
                           EmulatedKernels())
        .status();
  };
  BackendOptions options;
  options.weights = WeightsFormat::kInt4;
  EXPECT_THAT(std::string(make(options).message()), HasSubstr("weights int4"));
  options = {};
  options.kv_dtype = KvDtype::kInt8;
  EXPECT_THAT(std::string(make(options).message()), HasSubstr("KV dtype int8"));
  options = {};
  options.code_path = "avx2";
  EXPECT_THAT(std::string(make(options).message()), HasSubstr("code path 'avx2'"));
  EmulatedDeviceOptions small;
  small.info.shared_bytes = 16 << 10;
  const absl::Status status = make({}, small);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("16384 bytes of shared memory"));
}

}  // namespace
}  // namespace luna::backend::cuda
