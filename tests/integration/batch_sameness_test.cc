// An engine over a real model, ticked by hand, so that what shares a step is no accident.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/factory/factory.h"
#include "core/base/clock.h"
#include "core/engine/engine.h"
#include "core/kv/layout.h"
#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

constexpr int kSequences = 64;
constexpr int kTokens = 10;
constexpr int kLogprobs = 5;

// What was said, and with which bits.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<uint32_t> logprob_bits;  // of the chosen token, then of the top ones
  bool operator==(const Answer&) const = default;
};

class BatchSamenessTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto model = model::LoadModel(kStoryModel);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    auto tokenizer = text::Tokenizer::Create(model_->tokenizer);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    backend::BackendOptions backend_options;
    backend_options.num_threads = 1;
    auto backend = backend::MakeBackend("cpu", model_, backend_options);
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
    engine::EngineOptions options;
    const std::vector<int> windows(model_->config.layers.size(), 0);
    options.layout = kv::MakeLayout(windows, 16, backend_->token_layer_bytes());
    options.num_blocks = 4 * kSequences;
    options.max_batch_tokens = 512;
    ASSERT_TRUE(backend_->AllocateKv(options.layout, options.num_blocks).ok());
    engine_ = std::make_unique<engine::Engine>(options, backend_.get(), tokenizer_.get(), &clock_);
  }

  engine::Request RequestOf(int i) const {
    static constexpr const char* kPrompts[] = {"Once upon a time", "옛날 옛적에", "A fox", "달"};
    engine::Request request;
    request.input.tokens = *tokenizer_->Encode(kPrompts[i % 4]);
    request.sampling.temperature = i % 3 == 0 ? 0.0f : 0.7f + 0.1f * static_cast<float>(i % 8);
    request.sampling.seed = static_cast<uint64_t>(i);
    request.num_logprobs = kLogprobs;
    request.stopping.max_tokens = kTokens;
    request.stopping.ignore_eos = true;
    return request;
  }

  // All of `members` in one engine. `most_running` gets how many shared the fullest step.
  std::vector<Answer> Run(const std::vector<int>& members, uint32_t& most_running) {
    std::vector<std::shared_ptr<engine::TokenStream>> streams;
    for (const int member : members) {
      streams.push_back(std::make_shared<engine::TokenStream>());
      engine_->Submit(RequestOf(member), streams.back());
    }
    most_running = 0;
    while (!engine_->Idle()) {
      engine_->TakeSnapshot([&most_running](absl::StatusOr<engine::Snapshot> snapshot) {
        most_running = std::max(most_running, snapshot->load.running);
      });
      engine_->Tick();
    }
    std::vector<Answer> answers;
    for (const auto& stream : streams) answers.push_back(Read(*stream));
    return answers;
  }

 private:
  static Answer Read(engine::TokenStream& stream) {
    engine::TokenStream::Taken taken;
    stream.TakeAll(taken);
    EXPECT_FALSE(taken.rejected.has_value());
    EXPECT_TRUE(taken.finished.has_value());
    EXPECT_EQ(taken.delta.tokens.size(), size_t{kTokens});
    Answer answer;
    answer.tokens = taken.delta.tokens;
    for (const engine::TokenLogprobs& one : taken.delta.logprobs) {
      answer.logprob_bits.push_back(std::bit_cast<uint32_t>(one.logprob));
      for (const sample::TokenLogprob& top : one.top) {
        answer.logprob_bits.push_back(std::bit_cast<uint32_t>(top.logprob));
      }
    }
    EXPECT_EQ(answer.logprob_bits.size(), size_t{kTokens * (1 + kLogprobs)});
    return answer;
  }

  SystemClock clock_;
  std::shared_ptr<const model::Model> model_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<engine::Engine> engine_;
};

TEST_F(BatchSamenessTest, LogprobsAreTheSameBitsAloneAmong8AndAmong64) {
  std::vector<Answer> alone;
  uint32_t running = 0;
  for (int i = 0; i < kSequences; ++i) {
    alone.push_back(Run({i}, running).front());
    EXPECT_LE(running, 1u);
  }
  for (const int size : {8, kSequences}) {
    std::vector<int> members;
    for (int i = 0; i < size; ++i) members.push_back(kSequences - 1 - i);
    const std::vector<Answer> together = Run(members, running);
    EXPECT_EQ(running, static_cast<uint32_t>(size));
    for (int i = 0; i < size; ++i) {
      EXPECT_TRUE(together[i] == alone[members[i]]) << members[i] << " among " << size;
    }
  }
}

}  // namespace
}  // namespace luna::integration
