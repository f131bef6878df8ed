// What a sequence gets depends on its own tokens alone: held to the bit, for every backend and code
// path, over models of every family.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "core/kv/sequence_kv.h"
#include "tests/backend/backend_cases.h"
#include "tests/backend/random_model.h"
#include "tests/backend/sequence_driver.h"

namespace luna::backend {
namespace {

using Parameters = std::tuple<BackendCase, std::string>;

class SamenessTest : public testing::TestWithParam<Parameters> {
 protected:
  void SetUp() override { model_ = MakeRandomModel(std::get<1>(GetParam())); }

  std::unique_ptr<Backend> Make(int num_threads = 2) const {
    return MustMakeBackend(std::get<0>(GetParam()), model_, num_threads);
  }

  // Alone, whole prompt in one step, blocks of 16.
  std::vector<RowResult> Alone(int length, uint32_t seed) const {
    const auto backend = Make(1);
    SequenceDriver driver(*backend, model_->config, 16, 64);
    TestSequence sequence = driver.NewSequence(length, seed);
    EXPECT_TRUE(driver.Finish(sequence, length).ok());
    return sequence.rows;
  }

  std::shared_ptr<model::Model> model_;
};

TEST_P(SamenessTest, RowsAreFiniteAndDiffer) {
  const std::vector<RowResult> rows = Alone(40, 5);
  ASSERT_EQ(rows.size(), 40u);
  for (const RowResult& row : rows) {
    ASSERT_TRUE(row.status.ok()) << row.status;
    ASSERT_EQ(row.logprobs.size(), static_cast<size_t>(model_->config.vocab_size));
  }
  EXPECT_NE(rows[10].logprobs, rows[11].logprobs);
  EXPECT_NE(rows[38].logprobs, Alone(40, 6)[38].logprobs);
}

TEST_P(SamenessTest, ChunkedPrefillEqualsWholePrefillEqualsDecode) {
  const std::vector<RowResult> whole = Alone(61, 5);
  for (const int chunk : {1, 2, 7, 16, 60}) {
    const auto backend = Make();
    SequenceDriver driver(*backend, model_->config, 16, 64);
    TestSequence sequence = driver.NewSequence(61, 5);
    ASSERT_TRUE(driver.Finish(sequence, chunk).ok());
    EXPECT_THAT(sequence.rows, testing::ElementsAreArray(whole)) << "chunks of " << chunk;
  }
}

TEST_P(SamenessTest, BlockSizeAndPlaceDoNotMatter) {
  const std::vector<RowResult> whole = Alone(61, 5);
  for (const int block_tokens : {1, 3, 8, 16, 32}) {
    const auto backend = Make();
    SequenceDriver driver(*backend, model_->config, block_tokens, 256, /*scramble=*/block_tokens);
    TestSequence sequence = driver.NewSequence(61, 5);
    ASSERT_TRUE(driver.Finish(sequence, 13).ok());
    EXPECT_THAT(sequence.rows, testing::ElementsAreArray(whole)) << "blocks of " << block_tokens;
  }
}

// 30 sequences of different lengths, some in prefill while others decode, in a new order each step.
TEST_P(SamenessTest, CompanionsAndTheirOrderDoNotMatter) {
  const auto backend = Make();
  SequenceDriver driver(*backend, model_->config, 8, 1024);
  std::vector<TestSequence> sequences;
  for (int i = 0; i < 30; ++i) sequences.push_back(driver.NewSequence(5 + i * 13 % 41, 100 + i));
  std::mt19937 random(1);
  for (bool any = true; any;) {
    any = false;
    std::vector<Chunk> chunks;
    for (TestSequence& sequence : sequences) {
      const int left = static_cast<int>(sequence.tokens.size()) - sequence.computed;
      if (left == 0) continue;
      any = true;
      chunks.push_back({&sequence, std::min<int>(left, random() % 3 == 0 ? 5 : 1)});
    }
    std::shuffle(chunks.begin(), chunks.end(), random);
    if (any) {
      ASSERT_TRUE(driver.Step(chunks).ok());
    }
  }
  for (int i = 0; i < 30; i += 7) {
    EXPECT_THAT(sequences[i].rows, testing::ElementsAreArray(Alone(5 + i * 13 % 41, 100 + i)))
        << "sequence " << i;
  }
}

TEST_P(SamenessTest, NumberOfThreadsDoesNotMatter) {
  std::vector<std::vector<RowResult>> results;
  for (const int threads : {1, 2, 3, 5}) {
    const auto backend = Make(threads);
    SequenceDriver driver(*backend, model_->config, 16, 256);
    TestSequence a = driver.NewSequence(33, 8), b = driver.NewSequence(17, 9);
    const Chunk together[] = {{&a, 20}, {&b, 17}};
    ASSERT_TRUE(driver.Step(together).ok());
    ASSERT_TRUE(driver.Finish(a, 1).ok());
    results.push_back(a.rows);
    results.back().insert(results.back().end(), b.rows.begin(), b.rows.end());
  }
  for (size_t i = 1; i < results.size(); ++i) EXPECT_EQ(results[i], results[0]);
}

// These steps are small enough for one thread to do them alone.
TEST_P(SamenessTest, SharingAStepDoesNotMatter) {
  BackendOptions options;
  options.num_threads = 3;
  const auto made = TryMakeBackend(std::get<0>(GetParam()), model_, options);
  ASSERT_TRUE(made.ok()) << made.status();
  SequenceDriver driver(**made, model_->config, 16, 64);
  TestSequence sequence = driver.NewSequence(33, 8);
  ASSERT_TRUE(driver.Finish(sequence, 9).ok());
  EXPECT_THAT(sequence.rows, testing::ElementsAreArray(Alone(33, 8)));
}

// The sampled token too, where the choice is random.
TEST_P(SamenessTest, SampledTokensDoNotDependOnCompanions) {
  sample::SamplingParams params;
  params.temperature = 0.8f;
  params.top_p = 0.9f;
  const auto backend = Make();
  SequenceDriver driver(*backend, model_->config, 16, 256);
  TestSequence alone = driver.NewSequence(30, 3);
  const Chunk single[] = {{&alone, 30}};
  ASSERT_TRUE(driver.Step(single, params).ok());
  TestSequence again = driver.NewSequence(30, 3), other = driver.NewSequence(9, 4);
  const Chunk both[] = {{&other, 9}, {&again, 30}};
  ASSERT_TRUE(driver.Step(both, params).ok());
  EXPECT_EQ(again.rows, alone.rows);
}

// Where two steps may be in flight, the second is launched before anybody knows what the first
// chose.
TEST_P(SamenessTest, StepsInFlightGoOnWithWhatWasChosen) {
  constexpr int kPrompt = 20, kSteps = 12;
  sample::SamplingParams params;
  params.temperature = 0.8f;
  const auto generate = [&](int in_flight) {
    const auto backend = Make();
    EXPECT_LE(in_flight, backend->depth());
    SequenceDriver driver(*backend, model_->config, 16, 256);
    std::vector<TestSequence> sequences;
    for (int seed = 1; seed <= 3; ++seed) {
      sequences.push_back(driver.NewSequence(kPrompt + kSteps, seed));
    }
    std::vector<TestSequence*> all;
    std::vector<TokenId> tokens;
    for (TestSequence& sequence : sequences) {
      const Chunk prompt[] = {{&sequence, kPrompt}};
      EXPECT_TRUE(driver.Step(prompt, params).ok());
      sequence.tokens[kPrompt] = sequence.rows.back().token;
      all.push_back(&sequence);
    }
    for (int step = 0; step < kSteps + in_flight - 1; ++step) {
      if (step < kSteps) {
        EXPECT_TRUE(driver.Launch(all, params, in_flight > 1 && step > 0).ok());
      }
      if (step < in_flight - 1) continue;
      const auto chosen = driver.Collect();
      EXPECT_TRUE(chosen.ok()) << chosen.status();
      for (size_t i = 0; i < all.size(); ++i) {
        tokens.push_back((*chosen)[i].token);
        if (all[i]->computed < kPrompt + kSteps) all[i]->tokens[all[i]->computed] = tokens.back();
      }
    }
    return tokens;
  };
  const std::vector<TokenId> one = generate(1);
  EXPECT_EQ(one.size(), 3u * kSteps);
  EXPECT_EQ(generate(Make()->depth()), one);
}

TEST_P(SamenessTest, CopiedBlocksContinueAsTheOriginal) {
  const auto backend = Make();
  SequenceDriver driver(*backend, model_->config, 8, 256);
  TestSequence original = driver.NewSequence(40, 3);
  const Chunk first[] = {{&original, 21}};
  ASSERT_TRUE(driver.Step(first).ok());
  TestSequence copy = original;
  std::vector<BlockCopy> copies;
  for (std::vector<int32_t>& table : copy.tables) {
    for (int32_t& block : table) {
      if (block == kv::kNoBlock) continue;
      const int32_t to = driver.free_blocks().back();
      driver.free_blocks().pop_back();
      copies.push_back({BlockId(block), BlockId(to)});
      block = to;
    }
  }
  ASSERT_TRUE(backend->CopyBlocks(copies).ok());
  // Another continuation overwrites the original's last block; the copy must not see it.
  TestSequence changed = original;
  changed.tokens[21] = (changed.tokens[21] + 1) % model_->config.vocab_size;
  ASSERT_TRUE(driver.Finish(changed, 4).ok());
  ASSERT_TRUE(driver.Finish(copy, 4).ok());
  EXPECT_THAT(copy.rows, testing::ElementsAreArray(Alone(40, 3)));
}

std::vector<Parameters> AllParameters() {
  std::vector<Parameters> all;
  for (const BackendCase& backend : AllBackendCases()) {
    for (const std::string& family : RandomModelFamilies()) all.emplace_back(backend, family);
  }
  for (const BackendCase& backend : Int4BackendCases()) all.emplace_back(backend, "llama-q4");
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, SamenessTest, testing::ValuesIn(AllParameters()),
                         [](const testing::TestParamInfo<Parameters>& info) {
                           std::string name =
                               std::get<0>(info.param).label() + "_" + std::get<1>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace luna::backend
