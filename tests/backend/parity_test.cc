// The fast paths against the plain twin.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "core/base/check.h"
#include "core/model/model.h"
#include "tests/backend/backend_cases.h"
#include "tests/backend/random_model.h"
#include "tests/backend/sequence_driver.h"

namespace luna::backend {
namespace {

// Log-probabilities of these models lie between about -15 and 0. The twin sums in double and rounds
// once; the kernels sum up to a hundred f32 products, rounding each (2^-24 relative), in a dozen
// products one after the other: 5e-5 is a few times the 1.2e-5 that is seen.
constexpr float kTolerance = 5e-5f;

float LargestDifference(const std::vector<RowResult>& a, const std::vector<RowResult>& b) {
  float largest = 0.0f;
  for (size_t row = 0; row < a.size(); ++row) {
    LUNA_CHECK(a[row].status.ok() && b[row].status.ok()) << a[row].status << ", " << b[row].status;
    for (size_t i = 0; i < a[row].logprobs.size(); ++i) {
      largest = std::max(largest, std::abs(a[row].logprobs[i] - b[row].logprobs[i]));
    }
  }
  return largest;
}

class ParityTest : public testing::TestWithParam<std::string> {};

TEST_P(ParityTest, EveryPathAgreesWithTheReference) {
  const auto model = MakeRandomModel(GetParam());
  std::vector<RowResult> expected;
  for (const BackendCase& c : ExactBackendCases()) {
    const auto backend = MustMakeBackend(c, model);
    SequenceDriver driver(*backend, model->config, 16, 64);
    TestSequence sequence = driver.NewSequence(96, 11);  // the whole context
    ASSERT_TRUE(driver.Finish(sequence, 50).ok());
    if (c.backend == "reference") {
      expected = sequence.rows;
      continue;
    }
    EXPECT_LT(LargestDifference(expected, sequence.rows), kTolerance) << c;
  }
}

// What a format may cost, in nats a token: about what is asked of it on real text. Sums of these
// narrow models have few terms, over which errors do not cancel as they do in wide ones.
TEST_P(ParityTest, EveryFormatIsCloseToTheReference) {
  const auto model = MakeRandomModel(GetParam());
  const auto run = [&](const BackendCase& c) {
    const auto backend = MustMakeBackend(c, model);
    SequenceDriver driver(*backend, model->config, 16, 64);
    TestSequence sequence = driver.NewSequence(96, 11);
    EXPECT_TRUE(driver.Finish(sequence, 50).ok());
    return sequence.rows;
  };
  const std::vector<RowResult> expected = run(ExactBackendCases().front());
  std::vector<BackendCase> cases = RoundingBackendCases();
  if (GetParam() == "llama-q4") {
    for (const BackendCase& c : Int4BackendCases()) cases.push_back(c);
  }
  for (const BackendCase& c : cases) {
    const std::vector<RowResult> rows = run(c);
    double divergence = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (size_t i = 0; i < expected[row].logprobs.size(); ++i) {
        const double log_p = expected[row].logprobs[i];
        divergence += std::exp(log_p) * (log_p - rows[row].logprobs[i]);
      }
    }
    EXPECT_LT(divergence / rows.size(), c.weights == WeightsFormat::kBf16 ? 1e-3 : 4e-3) << c;
    EXPECT_GT(divergence / rows.size(), 1e-9) << c << " rounds nothing";
  }
}

INSTANTIATE_TEST_SUITE_P(Families, ParityTest, testing::ValuesIn(RandomModelFamilies()),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

// In its full size: wider matrices than those of the families have, and the vocabulary.
TEST(ParityTest, LunasShape) {
  const std::shared_ptr<const model::Model> model = *model::LoadModel("dummy:luna");
  std::vector<RowResult> expected;
  for (const BackendCase& c : ExactBackendCases()) {
    const auto backend = MustMakeBackend(c, model);
    SequenceDriver driver(*backend, model->config, 16, 1);
    TestSequence sequence = driver.NewSequence(5, 11);
    ASSERT_TRUE(driver.Finish(sequence, 4).ok());
    if (c.backend == "reference") {
      expected = sequence.rows;
      ASSERT_NE(expected[3].logprobs, expected[4].logprobs);
      continue;
    }
    EXPECT_LT(LargestDifference(expected, sequence.rows), kTolerance) << c;
  }
}

// The window is what makes these models differ from ones that attend to everything.
TEST(ParityTest, WindowChangesTheResult) {
  const auto windowed = MakeRandomModel("gemma3");
  const auto full = MakeRandomModel("gemma3");
  for (model::LayerConfig& layer : full->config.layers) layer.sliding_window = 0;
  std::vector<std::vector<RowResult>> rows;
  for (const auto& model : {windowed, full}) {
    const auto backend = MustMakeBackend({.backend = "reference", .code_path = ""}, model);
    SequenceDriver driver(*backend, model->config, 16, 64);
    TestSequence sequence = driver.NewSequence(20, 11);
    ASSERT_TRUE(driver.Finish(sequence, 20).ok());
    rows.push_back(sequence.rows);
  }
  EXPECT_EQ(rows[0][6], rows[1][6]);  // seven tokens: still within the window
  EXPECT_NE(rows[0][7].logprobs, rows[1][7].logprobs);
}

}  // namespace
}  // namespace luna::backend
