// The sampling kernel, case by case, against the reference; sampling_random_test.cc mixes them.
#include "core/backend/cuda/sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/sample/random.h"
#include "tests/backend/cuda/sampling_rig.h"
#include "tests/backend/random_values.h"
#include "tests/fakes/allocation_counter.h"

namespace luna::backend::cuda {
namespace {

using ::testing::IsEmpty;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

std::vector<float> RandomLogits(int vocab, float width = 3.0f) {
  std::vector<float> logits = Random(vocab, static_cast<uint32_t>(vocab));
  for (float& logit : logits) logit *= width;
  return logits;
}

// `row` at several positions of the random numbers, with both sizes of blocks.
void ExpectTheReferencesChoices(const SampleCase& row, int positions = 20) {
  std::vector<SampleCase> rows(positions, row);
  for (int i = 0; i < positions; ++i) rows[i].position = i;
  for (const int threads : {64, 512}) {
    const auto sampled = SampleOnDevice(rows, {.threads = threads});
    for (int i = 0; i < positions; ++i) {
      ExpectEqual(sampled[i], SampleByReference(rows[i]),
                  absl::StrCat(row.name, ", ", threads, " threads, position ", i));
    }
  }
}

TEST(SamplingTest, EqualLogitsGoToTheLowestIdAndAreDrawnInOrder) {
  SampleCase row;
  for (const float temperature : {0.0f, 1.0f, 100.0f}) {
    row.name = absl::StrCat("temperature ", temperature);
    row.params.temperature = temperature;
    row.logits.assign(5000, -2.5f);
    ExpectTheReferencesChoices(row);
    row.logits = {-1.0f, -0.0f, 0.0f, -0.0f, 0.0f};  // zeros of both signs are equal
    ExpectTheReferencesChoices(row);
  }
}

TEST(SamplingTest, CandidatesThatCrowdOneBinAreToldApart) {
  SampleCase row;
  row.logits = RandomLogits(4096, 1e-5f);
  row.logits[77] = -20.0f;  // so that the bins are wide
  row.name = "crowded";
  ExpectTheReferencesChoices(row);
  row.params.top_k = 3000;
  row.params.top_p = 0.6f;
  row.name = "crowded and cut";
  ExpectTheReferencesChoices(row);
}

TEST(SamplingTest, LogitsThatAreNotFiniteAreRefusedWherever) {
  const std::vector<float> usable = RandomLogits(1001);
  for (const float bad : {kNan, -kNan, kInf}) {
    for (const int place : {0, 3, 500, 1000}) {
      SampleCase row{.name = absl::StrCat(bad, " at ", place), .logits = usable};
      row.logits[place] = bad;
      row.params.num_logprobs = 2;
      ExpectTheReferencesChoices(row, 2);
      EXPECT_EQ(SampleByReference(row).status.code(), absl::StatusCode::kInternal);
    }
  }
  SampleCase row{.name = "all -Inf", .logits = std::vector<float>(1001, -kInf)};
  ExpectTheReferencesChoices(row, 2);
  EXPECT_EQ(SampleByReference(row).status.code(), absl::StatusCode::kInternal);
  row.logits[1000] = -3e38f;
  row.name = "one left";
  ExpectTheReferencesChoices(row, 2);
  EXPECT_EQ(SampleOnDevice({&row, 1})[0].token, 1000);
}

TEST(SamplingTest, WhereAllIsMaskedThereIsNoTokenAndNoCandidate) {
  SampleCase row{.name = "masked", .logits = {1.0f, -kInf, 2.0f}};
  row.masked = {2, 0, 7, -1, 2};
  row.params.num_logprobs = 2;
  ExpectTheReferencesChoices(row, 2);
  const auto sampled = SampleOnDevice({&row, 1});
  EXPECT_EQ(sampled[0].status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(sampled[0].top, IsEmpty());
}

struct Change {
  std::string name;
  std::function<void(SampleCase&)> change;
};

class SamplingChangeTest : public ::testing::TestWithParam<Change> {};

TEST_P(SamplingChangeTest, ChoosesWhatTheReferenceChooses) {
  for (const int vocab : {1, 2, 97, 4096}) {
    SampleCase row;
    row.logits = RandomLogits(vocab);
    row.seed = 5;
    for (int i = 0; i < 40; ++i) row.prompt.push_back((i * 7) % std::min(vocab, 30));
    for (int i = 0; i < 40; ++i) row.output.push_back((i * i) % std::min(vocab, 50));
    GetParam().change(row);
    row.name = absl::StrCat(GetParam().name, ", vocabulary ", vocab);
    ExpectTheReferencesChoices(row, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , SamplingChangeTest,
    ::testing::Values(
        Change{"Nothing", [](SampleCase&) {}},
        Change{"Greedy", [](SampleCase& row) { row.params.temperature = 0.0f; }},
        Change{"Cold", [](SampleCase& row) { row.params.temperature = 1e-3f; }},
        Change{"NearlyZero", [](SampleCase& row) { row.params.temperature = 1e-45f; }},
        Change{"Hot", [](SampleCase& row) { row.params.temperature = 100.0f; }},
        Change{"TopKOne", [](SampleCase& row) { row.params.top_k = 1; }},
        Change{"TopKFew", [](SampleCase& row) { row.params.top_k = 40; }},
        Change{"TopKMany", [](SampleCase& row) { row.params.top_k = 1500; }},
        Change{"TopKAll", [](SampleCase& row) { row.params.top_k = std::ssize(row.logits); }},
        Change{"TopKBeyond", [](SampleCase& row) { row.params.top_k = int64_t{1} << 33; }},
        Change{"TopP", [](SampleCase& row) { row.params.top_p = 0.9f; }},
        Change{"TopPTiny", [](SampleCase& row) { row.params.top_p = 1e-45f; }},
        Change{"TopPNearlyAll", [](SampleCase& row) { row.params.top_p = 0.99999994f; }},
        Change{"TopPOfFlat",
               [](SampleCase& row) {
                 row.params.top_p = 0.9f;
                 row.params.temperature = 20.0f;
               }},
        Change{"MinP", [](SampleCase& row) { row.params.min_p = 0.05f; }},
        Change{"MinPTiny", [](SampleCase& row) { row.params.min_p = 1e-45f; }},
        Change{"MinPOne", [](SampleCase& row) { row.params.min_p = 1.0f; }},
        Change{"Repetition", [](SampleCase& row) { row.params.repetition_penalty = 1.7f; }},
        Change{"RepetitionHuge", [](SampleCase& row) { row.params.repetition_penalty = 1e-38f; }},
        Change{"RepetitionOverRange",
               [](SampleCase& row) {
                 std::ranges::fill(row.logits, -3e38f);
                 row.params.repetition_penalty = 100.0f;
               }},
        Change{"Presence", [](SampleCase& row) { row.params.presence_penalty = 1.5f; }},
        Change{"Frequency", [](SampleCase& row) { row.params.frequency_penalty = -0.3f; }},
        Change{"Bias",
               [](SampleCase& row) {
                 row.params.logit_bias = {{0, 5.0f}, {std::ssize(row.logits) - 1, -3.0f}};
               }},
        Change{"BiasTwice",  // first down, then up: 2^24 + 1 is none of its floats
               [](SampleCase& row) {
                 std::ranges::fill(row.logits, 0x1p24f - 1.0f);
                 const auto last = static_cast<TokenId>(row.logits.size() - 1);
                 row.logits[last] = 0x1p24f;
                 row.params.logit_bias = {{last, -1.0f}, {last, 1.0f}};
                 row.params.temperature = 0.0f;
               }},
        Change{"Mask",
               [](SampleCase& row) {
                 row.masked = {static_cast<TokenId>(row.logits.size()) - 1, 0, 1 << 20, -5};
               }},
        Change{"Logprob", [](SampleCase& row) { row.params.num_logprobs = 0; }},
        Change{"LogprobsOfAll",
               [](SampleCase& row) {
                 for (size_t i = 0; i < row.logits.size(); i += 3) row.logits[i] = -kInf;
                 row.logits[0] = 1.0f;
                 row.params.num_logprobs = static_cast<int>(row.logits.size());
               }},
        Change{"LogprobsOfEqualOnes",
               [](SampleCase& row) {
                 std::ranges::fill(row.logits, 1.5f);
                 row.params.num_logprobs = static_cast<int>(std::ssize(row.logits) / 2);
               }}),
    [](const auto& info) { return info.param.name; });

// The draw goes beyond its number: with 4096 equal weights that number is often a whole one.
TEST(SamplingTest, ADrawThatEndsExactlyWithACandidateGoesToTheNext) {
  SampleCase row{.name = "exact", .logits = std::vector<float>(4096, 1.0f)};
  int exact = 0;
  for (; exact < 3; ++row.position) {
    const float next = sample::Uniform(row.seed, row.position) * 4096.0f;
    if (next != std::floor(next)) continue;
    ++exact;
    const auto sampled = SampleOnDevice({&row, 1});
    EXPECT_EQ(sampled[0].token, static_cast<TokenId>(next));
    ExpectEqual(sampled[0], SampleByReference(row), row.name);
  }
}

// Each of these weighs 2^-40 of the first; together they are just enough to be drawn now and then.
TEST(SamplingTest, WhatWeighsLeastCanBeDrawn) {
  SampleCase row{.name = "tail", .logits = std::vector<float>(262'144, -27.5f)};
  row.logits[1000] = 0.0f;
  row.seed = 5;
  row.position = 1'236'438;
  ASSERT_GE(sample::Uniform(row.seed, row.position), 1.0f - 0x1p-23f);
  const auto sampled = SampleOnDevice({&row, 1});
  EXPECT_GT(sampled[0].token, 1000);
  ExpectEqual(sampled[0], SampleByReference(row), row.name);
}

// Sums of 2^53 and more are rounded where they are compared: a prefix may be enough before its end.
TEST(SamplingTest, SumsBeyondTheDigitsOfDoubleEndWhereTheReferencesEnd) {
  SampleCase row{.name = "wide", .logits = RandomLogits(30'000, 1.0f)};
  row.params.temperature = 100.0f;
  for (const float top_p : {1.0f, 0.9999999f}) {
    row.params.top_p = top_p;
    row.params.min_p = 1e-3f;
    ExpectTheReferencesChoices(row, 5);
  }
}

TEST(SamplingTest, ATokenThatIsNotReadYetCountsAsOutput) {
  SampleCase row;
  row.logits = RandomLogits(300);
  const auto best = static_cast<TokenId>(std::ranges::max_element(row.logits) - row.logits.begin());
  row.params.repetition_penalty = 1.3f;
  row.params.presence_penalty = 0.4f;
  row.params.frequency_penalty = 0.7f;
  row.params.num_logprobs = 3;
  const std::vector<TokenId> with_best = {1, best, 3, best};
  const std::vector<TokenId> others = {1, 2, 3};
  const auto expect = [&](std::string name) {
    for (const float temperature : {0.0f, 1.0f}) {
      row.name = absl::StrCat(name, ", temperature ", temperature);
      row.params.temperature = temperature;
      ExpectTheReferencesChoices(row, 4);
    }
  };
  row.pending = best;
  row.output = with_best;
  expect("in the output");
  row.output = others;
  row.prompt = with_best;
  expect("in the prompt");
  row.prompt = others;
  expect("new");
  row.params.logit_bias = {{best, 0.5f}};
  expect("only biased");
  row.params.logit_bias.clear();
  row.prompt.clear();
  row.output.clear();
  expect("alone");
  row.params.repetition_penalty = 1.0f;
  expect("with penalties on the output alone");
  row.params.presence_penalty = row.params.frequency_penalty = 0.0f;
  expect("without penalties");
}

// The raw distribution, also of tokens whose logits were changed, by the host's lists or without.
TEST(SamplingTest, LogprobsAreThoseOfTheLogitsAsTheyCame) {
  SampleCase row{.name = "raised", .logits = {0.0f, 1.0f, 2.0f, 3.0f}};
  row.params.temperature = 0.0f;
  row.params.num_logprobs = 1;
  row.params.frequency_penalty = -2.0f;
  row.output = {0, 0};
  row.pending = 1;
  ExpectTheReferencesChoices(row, 1);  // 0 was raised most
  row.output = {};
  row.pending = 0;
  row.logits = {2.0f, 1.0f, 0.0f, 3.0f};
  row.name = "raised by the pending token";
  ExpectTheReferencesChoices(row, 1);
  const auto sampled = SampleOnDevice({&row, 1});
  EXPECT_EQ(sampled[0].token, 0);
  EXPECT_EQ(sampled[0].top[0].token, 3);
  EXPECT_NEAR(sampled[0].logprob, sampled[0].top[0].logprob - 1.0f, 1e-6f);
}

TEST(SamplingTest, LargeVocabularies) {
  for (const int vocab : {49'152, 262'144}) {
    SampleCase row{.name = absl::StrCat("vocabulary ", vocab), .logits = RandomLogits(vocab)};
    ExpectTheReferencesChoices(row, 3);
    row.params.top_k = 40;
    row.params.top_p = 0.9f;
    row.params.num_logprobs = 20;
    ExpectTheReferencesChoices(row, 3);
  }
}

class SamplePackerTest : public ::testing::Test {
 protected:
  static constexpr int kVocab = 500;

  SamplePackerTest() : tokens_(3000) {
    for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<TokenId>(i * 7 % kVocab);
    params_.repetition_penalty = 1.1f;
    params_.frequency_penalty = 0.1f;
    for (int i = 0; i < 20; ++i) params_.logit_bias.emplace_back(i % 15, 0.1f * i);
    params_.num_logprobs = 2;
    spec_ = {.params = &params_, .prompt = tokens_, .output = tokens_, .masked = masked_};
  }

  std::vector<TokenId> tokens_;
  std::vector<TokenId> masked_ = {3, 499, 3};
  sample::SamplingParams params_;
  sample::SampleSpec spec_;
};

TEST_F(SamplePackerTest, RowsWithoutListsNeedNone) {
  const sample::SamplingParams plain;
  spec_.params = &plain;
  spec_.masked = {};
  SamplePacker packer(kVocab);
  EXPECT_EQ(packer.ListBytes({&spec_, 1}), 0);
}

// However long the context, a token is listed once.
TEST_F(SamplePackerTest, ListsAreBoundedByTheVocabulary) {
  const std::vector<sample::SampleSpec> specs(3, spec_);
  SamplePacker packer(kVocab);
  const int64_t bytes = packer.ListBytes(specs);
  EXPECT_EQ(bytes, 3 * (20 * sizeof(SampleBias) + kVocab * sizeof(SampleEdit)));
  std::vector<SampleEdit> fixed(SamplePacker::FixedBytes(3) / sizeof(SampleEdit) + 1);
  std::vector<SampleEdit> lists(bytes / sizeof(SampleEdit) + 1);
  auto* list_bytes = reinterpret_cast<std::byte*>(lists.data());
  EXPECT_EQ(packer.Pack(specs, reinterpret_cast<std::byte*>(fixed.data()), list_bytes, list_bytes),
            bytes);
}

TEST_F(SamplePackerTest, ASteadyStateAllocatesNothing) {
  const std::vector<sample::SampleSpec> specs(3, spec_);
  SamplePacker packer(kVocab);
  std::vector<SampleEdit> fixed(SamplePacker::FixedBytes(3) / sizeof(SampleEdit) + 1);
  std::vector<SampleEdit> lists(packer.ListBytes(specs) / sizeof(SampleEdit) + 1);
  const SampleResultsLayout layout(3, 3 * 20);
  std::vector<SampleTop> memory(layout.bytes() / sizeof(SampleTop) + 1);
  const SampleResults results = layout.At(reinterpret_cast<std::byte*>(memory.data()));
  std::vector<sample::SampledToken> out;
  int64_t before = 0;
  for (int round = 0; round < 3; ++round) {
    if (round == 1) before = AllocationCount();
    auto* list_bytes = reinterpret_cast<std::byte*>(lists.data());
    packer.Pack(specs, reinterpret_cast<std::byte*>(fixed.data()), list_bytes, list_bytes);
    UnpackSamples(reinterpret_cast<std::byte*>(fixed.data()), kVocab, results, out);
  }
  EXPECT_EQ(AllocationCount(), before);
  EXPECT_EQ(out[2].top.size(), 2u);
}

}  // namespace
}  // namespace luna::backend::cuda
