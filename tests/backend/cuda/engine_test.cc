// The engine over the GPU's backend on the emulation: the words are the same whatever shares a
// step, and however many steps are in flight; when the device fails, sessions are kept.
#include "core/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/cuda/cuda_backend.h"
#include "core/base/clock.h"
#include "core/kv/layout.h"
#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "tests/cuda_emulation/emulated_device.h"
#include "tests/cuda_emulation/kernels/kernels.h"

namespace luna::backend::cuda {
namespace {

constexpr int kTokens = 6;

// The same backend to an engine that waits for every step.
class OneInFlight final : public Backend {
 public:
  explicit OneInFlight(Backend* backend) : backend_(backend) {}
  const BackendInfo& info() const override { return backend_->info(); }
  int64_t token_layer_bytes() const override { return backend_->token_layer_bytes(); }
  absl::Status AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) override {
    return backend_->AllocateKv(layout, num_blocks);
  }
  absl::Status Launch(const batch::Batch& batch) override { return backend_->Launch(batch); }
  absl::Status Collect(batch::StepResult& result) override { return backend_->Collect(result); }
  absl::Status CopyBlocks(std::span<const BlockCopy> copies) override {
    return backend_->CopyBlocks(copies);
  }

 private:
  Backend* const backend_;
};

// What was said, and with which bits.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> logprob_bits;
  bool operator==(const Answer&) const = default;
};

class CudaEngineTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = *model::LoadModel("models/luna-tiny");
    tokenizer_ = text::Tokenizer::Create(model_->tokenizer)->release();
  }
  static void TearDownTestSuite() {
    model_.reset();
    delete tokenizer_;
  }

  CudaEngineTest() {
    auto device = std::make_unique<EmulatedDevice>();
    device_ = device.get();
    BackendOptions options;
    options.max_batch_tokens = 96;
    backend_ = *MakeCudaBackend(model_, options, std::move(device), EmulatedKernels());
    shallow_ = std::make_unique<OneInFlight>(backend_.get());
    engine_options_.layout = kv::MakeLayout(std::vector<int>(model_->config.num_layers, 0), 16,
                                            backend_->token_layer_bytes());
    engine_options_.num_blocks = 64;
    engine_options_.max_batch_tokens = options.max_batch_tokens;
    EXPECT_TRUE(backend_->AllocateKv(engine_options_.layout, engine_options_.num_blocks).ok());
  }

  engine::Request RequestOf(int i) const {
    static constexpr const char* kPrompts[] = {"Once upon a time", "옛날 옛적에", "A fox", "달"};
    engine::Request request;
    request.input.tokens = *tokenizer_->Encode(kPrompts[i % 4]);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.7f + 0.1f * static_cast<float>(i);
    request.sampling.seed = static_cast<uint64_t>(i);
    if (i % 2 == 1) {
      // All of them look at the token that is still on its way.
      request.sampling.repetition_penalty = 1.3f;
      request.sampling.frequency_penalty = 0.5f;
      request.sampling.top_p = 0.95f;
      request.stopping.min_tokens = 3;
    }
    request.num_logprobs = 3;
    request.stopping.max_tokens = kTokens;
    request.stopping.ignore_eos = i % 2 == 0;
    return request;
  }

  std::vector<Answer> Run(Backend* backend, const std::vector<int>& members) {
    engine::Engine engine(engine_options_, backend, tokenizer_, &clock_);
    std::vector<std::shared_ptr<engine::TokenStream>> streams;
    for (const int member : members) {
      streams.push_back(std::make_shared<engine::TokenStream>());
      engine.Submit(RequestOf(member), streams.back());
    }
    while (engine.Tick()) {
    }
    std::vector<Answer> answers;
    for (const auto& stream : streams) answers.push_back(Read(*stream));
    engine.CheckInvariants([](absl::StatusOr<std::vector<std::string>> differences) {
      EXPECT_THAT(*differences, testing::IsEmpty());
    });
    engine.Tick();
    return answers;
  }

  static Answer Read(engine::TokenStream& stream) {
    engine::TokenStream::Taken taken;
    stream.TakeAll(taken);
    EXPECT_TRUE(taken.finished.has_value());
    Answer answer;
    answer.tokens = taken.delta.tokens;
    for (const engine::TokenLogprobs& one : taken.delta.logprobs) {
      answer.logprob_bits.push_back(std::bit_cast<uint32_t>(one.logprob));
      for (const sample::TokenLogprob& top : one.top) {
        answer.logprob_bits.push_back(std::bit_cast<uint32_t>(top.logprob));
      }
    }
    return answer;
  }

  static std::shared_ptr<const model::Model> model_;
  static text::Tokenizer* tokenizer_;
  SystemClock clock_;
  EmulatedDevice* device_ = nullptr;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<OneInFlight> shallow_;
  engine::EngineOptions engine_options_;
};

std::shared_ptr<const model::Model> CudaEngineTest::model_;
text::Tokenizer* CudaEngineTest::tokenizer_ = nullptr;

TEST_F(CudaEngineTest, WordsAreTheSameAloneTogetherAndWithOneStepInFlight) {
  const std::vector<int> members = {3, 0, 5, 1, 4, 2};
  const std::vector<Answer> together = Run(backend_.get(), members);
  EXPECT_EQ(Run(shallow_.get(), members), together);
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_GE(together[i].tokens.size(), 3u);
    EXPECT_EQ(Run(backend_.get(), {members[i]}).front(), together[i]) << members[i];
  }
  // Steps are graphs, recorded when the pool was made.
  EXPECT_GT(device_->counters().graph_launches, 0);
}

TEST_F(CudaEngineTest, APoolThatIsTooSmallForAllChangesNoWord) {
  const std::vector<int> members = {3, 0, 5, 1, 4, 2};
  const std::vector<Answer> roomy = Run(backend_.get(), members);
  engine_options_.num_blocks = 5;  // of the 64; a generation has two at most
  EXPECT_EQ(Run(backend_.get(), members), roomy);
}

TEST_F(CudaEngineTest, WithoutTheKvCacheTheWordsAreTheSame) {
  const std::vector<int> members = {3, 0, 5, 1, 4, 2};
  const std::vector<Answer> cached = Run(backend_.get(), members);
  engine_options_.keep_kv = false;
  EXPECT_EQ(Run(backend_.get(), members), cached);
}

TEST_F(CudaEngineTest, AFailedLaunchEndsWhoWasInItAndTheEngineGoesOn) {
  const Answer expected = Run(backend_.get(), {0}).front();
  engine::Engine engine(engine_options_, backend_.get(), tokenizer_, &clock_);
  auto stream = std::make_shared<engine::TokenStream>();
  engine.Submit(RequestOf(0), stream);
  ASSERT_TRUE(engine.Tick());
  ASSERT_TRUE(engine.Tick());
  device_->FailLaunch(1);
  while (engine.Tick()) {
  }
  engine::TokenStream::Taken taken;
  stream->TakeAll(taken);
  ASSERT_TRUE(taken.finished.has_value());
  EXPECT_EQ(taken.finished->reason, engine::FinishReason::kError);
  EXPECT_EQ(taken.finished->error.code(), absl::StatusCode::kInternal);

  auto again = std::make_shared<engine::TokenStream>();
  engine.Submit(RequestOf(0), again);
  while (engine.Tick()) {
  }
  EXPECT_EQ(Read(*again), expected);
}

// Penalties are what a serving backend allocates memory for.
TEST_F(CudaEngineTest, OutOfMemoryEndsWhoWasInTheStepAndTheEngineGoesOn) {
  engine::Engine engine(engine_options_, backend_.get(), tokenizer_, &clock_);
  const auto run = [&] {
    auto stream = std::make_shared<engine::TokenStream>();
    engine.Submit(RequestOf(1), stream);
    while (engine.Tick()) {
    }
    engine::TokenStream::Taken taken;
    stream->TakeAll(taken);
    return *taken.finished;
  };
  device_->FailAllocation(1);
  const engine::Finished failed = run();
  EXPECT_EQ(failed.reason, engine::FinishReason::kError);
  EXPECT_EQ(failed.error.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(failed.error.message()), testing::HasSubstr("penalties and biases"));
  EXPECT_EQ(run().reason, engine::FinishReason::kLength);
}

TEST_F(CudaEngineTest, ALostDeviceEndsGenerationsAndKeepsSessions) {
  engine::Engine engine(engine_options_, backend_.get(), tokenizer_, &clock_);
  std::string key;
  engine.CreateSession({}, [&](absl::StatusOr<engine::SessionInfo> info) { key = info->key; });
  engine.Tick();
  const auto say = [&](engine::Request request) {
    request.session_key = key;
    auto stream = std::make_shared<engine::TokenStream>();
    engine.Submit(std::move(request), stream);
    return stream;
  };
  auto first = say(RequestOf(0));
  while (engine.Tick()) {
  }
  const Answer told = Read(*first);
  EXPECT_EQ(told.tokens.size(), size_t{kTokens});

  auto second = say(RequestOf(2));
  engine.Tick();
  device_->LoseAt(20);  // in the midst of a step
  while (engine.Tick()) {
  }
  for (int i = 0; i < 2; ++i) {
    engine::TokenStream::Taken taken;
    second->TakeAll(taken);
    ASSERT_TRUE(taken.finished.has_value());
    EXPECT_EQ(taken.finished->reason, engine::FinishReason::kError);
    EXPECT_EQ(taken.finished->error.code(), absl::StatusCode::kUnavailable);
    if (i == 0) second = say(RequestOf(2));  // fails alike
    while (engine.Tick()) {
    }
  }
  bool asked = false;
  engine.GetSession(key, [&](absl::StatusOr<engine::SessionInfo> info) {
    asked = true;
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->turn, 1u) << "the turn that was told is there, the one that failed is not";
  });
  engine.Tick();
  EXPECT_TRUE(asked);
}

}  // namespace
}  // namespace luna::backend::cuda
