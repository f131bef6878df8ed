// The sampling kernel over random logits and parameters, against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/backend/cuda/sampling_rig.h"
#include "tests/fakes/rounds.h"

namespace luna::backend::cuda {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

class CaseMaker {
 public:
  explicit CaseMaker(uint32_t seed) : random_(seed) {}

  SampleCase Make(int vocab, std::string name) {
    SampleCase made;
    made.name = std::move(name);
    made.logits = Logits(vocab);
    made.seed = random_();
    made.position = random_() % 10'000;
    SetCuts(vocab, made.params);
    SetPenalties(vocab, made);
    if (OneIn(3)) {
      for (int i = Below(6); i >= 0; --i) {
        made.params.logit_bias.emplace_back(Below(vocab), Between(-5.0f, 5.0f));
      }
      if (OneIn(2)) made.params.logit_bias.push_back(made.params.logit_bias.front());
    }
    if (OneIn(4)) {
      // End tokens that the model does not have among them, and the likeliest ones.
      made.masked = {-1, vocab, Below(vocab), Best(made.logits)};
      if (OneIn(2)) made.masked.push_back(made.masked[2]);
    }
    if (OneIn(4)) made.params.num_logprobs = std::min(Below(22) - 1, vocab);
    return made;
  }

 private:
  int Below(int limit) { return static_cast<int>(random_() % limit); }
  bool OneIn(int n) { return Below(n) == 0; }
  float Between(float low, float high) {
    return std::uniform_real_distribution<float>(low, high)(random_);
  }
  static TokenId Best(const std::vector<float>& logits) {
    return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
  }

  std::vector<float> Logits(int vocab) {
    static constexpr float kWidths[] = {1e-38f, 1e-3f, 0.3f, 1.0f, 3.0f, 3.0f, 10.0f, 1e30f};
    const float width = kWidths[Below(8)];
    const float middle = OneIn(3) ? Between(-50.0f, 50.0f) : 0.0f;
    std::normal_distribution<float> normal;
    std::vector<float> logits(vocab);
    for (float& logit : logits) logit = middle + width * normal(random_);
    if (OneIn(4)) {  // ties
      for (float& logit : logits) logit = std::round(logit * 4.0f) / 4.0f;
    }
    if (OneIn(6)) {
      for (float& logit : logits) logit = OneIn(3) ? -kInf : logit;
      logits[Below(vocab)] = 0.25f;
    }
    if (OneIn(8)) logits[Below(vocab)] += 30.0f;       // one far above
    if (OneIn(8)) logits[Below(vocab)] = -1e30f;       // one far below
    if (OneIn(10)) std::ranges::fill(logits, middle);  // all the same
    if (OneIn(20)) logits[Below(vocab)] = OneIn(2) ? kInf : std::numeric_limits<float>::quiet_NaN();
    return logits;
  }

  void SetCuts(int vocab, sample::SamplingParams& params) {
    static constexpr float kTemperatures[] = {1.0f, 1.0f, 0.7f, 0.0f, 1e-3f, 1.7f, 100.0f, 1e-40f};
    params.temperature = kTemperatures[Below(8)];
    if (OneIn(2)) {
      const int64_t some[] = {1, 1 + Below(50), 1 + Below(vocab), vocab, int64_t{1} << 40};
      params.top_k = some[Below(5)];
    }
    if (OneIn(2)) {
      const float some[] = {1e-30f, Between(0.01f, 0.99f), 0.9f, 0.9999999f};
      params.top_p = some[Below(4)];
    }
    if (OneIn(3)) {
      const float some[] = {1e-12f, Between(0.0f, 0.2f), 0.05f, 1.0f};
      params.min_p = some[Below(4)];
    }
  }

  void SetPenalties(int vocab, SampleCase& made) {
    const int among = OneIn(2) ? vocab : std::min(vocab, 20);
    for (int i = Below(60); i > 0; --i) made.prompt.push_back(Below(among));
    for (int i = Below(60); i > 0; --i) made.output.push_back(Below(among));
    if (OneIn(2)) made.output.push_back(Best(made.logits));
    if (OneIn(3)) made.params.repetition_penalty = OneIn(4) ? 1e-38f : Between(0.5f, 2.0f);
    if (OneIn(3)) made.params.presence_penalty = Between(-2.0f, 2.0f);
    if (OneIn(3)) made.params.frequency_penalty = Between(-2.0f, 2.0f);
    if (OneIn(2)) made.pending = OneIn(2) ? Best(made.logits) : Below(vocab);
  }

  std::mt19937 random_;
};

struct Scale {
  int vocab, threads;
  uint32_t rounds;
};

class SamplingRandomTest : public ::testing::TestWithParam<Scale> {};

TEST_P(SamplingRandomTest, ChoosesWhatTheReferenceChooses) {
  constexpr int kRows = 10;
  const auto [vocab, threads, rounds] = GetParam();
  for (uint32_t seed = 0; seed < NumSeeds(rounds); ++seed) {
    CaseMaker maker(seed);
    std::vector<SampleCase> rows;
    for (int i = 0; i < kRows; ++i) {
      rows.push_back(maker.Make(vocab, absl::StrCat("seed ", seed, ", row ", i)));
    }
    const auto sampled = SampleOnDevice(rows, {.threads = threads});
    ASSERT_EQ(sampled.size(), rows.size());
    for (int i = 0; i < kRows; ++i) {
      ExpectEqual(sampled[i], SampleByReference(rows[i]), rows[i].name);
    }
    if (HasFailure()) return;
  }
}

// With 64 threads a block has few bins and gathers few candidates: the descent goes deep.
INSTANTIATE_TEST_SUITE_P(
    , SamplingRandomTest,
    ::testing::Values(Scale{1, 64, 3}, Scale{2, 64, 3}, Scale{97, 64, 40}, Scale{1000, 64, 40},
                      Scale{4096, 64, 20}, Scale{20'000, 64, 5}, Scale{97, 512, 10},
                      Scale{4096, 512, 10}, Scale{49'152, 512, 5}, Scale{262'144, 512, 2}),
    [](const auto& info) {
      return absl::StrCat("Vocabulary", info.param.vocab, "Threads", info.param.threads);
    });

TEST(SamplingRowsTest, ARowIsTheSameAloneAndAmongOthersWhateverTheGrid) {
  CaseMaker maker(7);
  std::vector<SampleCase> rows;
  for (int i = 0; i < 21; ++i) {
    rows.push_back(maker.Make(1000, absl::StrCat("row ", i)));
    rows.back().params.num_logprobs = i % 3 == 0 ? 20 : -1;
  }
  const auto together = SampleOnDevice(rows);
  for (const int blocks : {1, 7, 64}) {
    const auto again = SampleOnDevice(rows, {.blocks = blocks, .far_lists = blocks == 7});
    for (size_t i = 0; i < rows.size(); ++i) ExpectSame(together[i], again[i], rows[i].name);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto alone = SampleOnDevice(std::span(rows).subspan(i, 1));
    ExpectSame(together[i], alone[0], rows[i].name);
  }
}

}  // namespace
}  // namespace luna::backend::cuda
