// Whole models from their files against an independent implementation: golden values by PyTorch and
// transformers in f32, made by tools/make_golden.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/model/model.h"
#include "tests/backend/backend_cases.h"
#include "tests/backend/sequence_driver.h"

namespace luna::backend {
namespace {

using nlohmann::json;

struct GoldenModel {
  std::string name;
  std::string path;
  // Largest difference of a log-probability. Both sides work in f32 and sum in different orders.
  // Seen: 1.4e-5 with the tiny models, 3.4e-5 with the real ones.
  float tolerance;
  bool fetched = false;  // not in the repository
};

void PrintTo(const GoldenModel& model, std::ostream* out) { *out << model.name; }

const std::vector<GoldenModel>& GoldenModels() {
  static const std::vector<GoldenModel> kModels = {
      {"tiny-gpt2", "tests/golden/models/tiny-gpt2", 5e-5f},
      {"tiny-llama", "tests/golden/models/tiny-llama", 5e-5f},
      {"tiny-qwen2", "tests/golden/models/tiny-qwen2", 5e-5f},
      {"tiny-gemma3", "tests/golden/models/tiny-gemma3", 5e-5f},
      {"luna-tiny", "models/luna-tiny", 5e-5f},
      {"smollm2-135m", "models/smollm2-135m", 2e-4f, true},
      {"gemma3-270m", "models/gemma3-270m", 2e-4f, true},
  };
  return kModels;
}

// Loading is not what is tested here: each model is read once.
std::shared_ptr<const model::Model> Load(const std::string& path) {
  static std::map<std::string, std::shared_ptr<const model::Model>> loaded;
  std::shared_ptr<const model::Model>& model = loaded[path];
  if (model == nullptr) {
    auto result = model::LoadModel(path);
    LUNA_CHECK(result.ok()) << result.status();
    model = *std::move(result);
  }
  return model;
}

using Parameters = std::tuple<GoldenModel, BackendCase>;

class GoldenTest : public testing::TestWithParam<Parameters> {
 protected:
  static constexpr int kChunk = 64;

  // The prompt in chunks, then the greedy continuation token by token, always on the golden path.
  void RunCase(SequenceDriver& driver, const model::ModelConfig& config, const json& golden) {
    TestSequence sequence;
    sequence.tokens = golden["prompt"].get<std::vector<TokenId>>();
    const int prompt_size = static_cast<int>(sequence.tokens.size());
    const auto greedy = golden["greedy"].get<std::vector<TokenId>>();
    sequence.tokens.insert(sequence.tokens.end(), greedy.begin(), greedy.end());
    sequence.tables.resize(driver.layout().num_groups());
    std::vector<int> positions;
    for (const json& row : golden["rows"]) positions.push_back(row["position"]);
    const bool full = golden["rows"][0].contains("logprobs");

    sample::SamplingParams params;
    params.temperature = 0.0f;
    params.num_logprobs = full ? config.vocab_size : sample::kMaxLogprobs;
    const auto wanted = [&](int position) {
      return position >= prompt_size - 1 ||
             std::find(positions.begin(), positions.end(), position) != positions.end();
    };
    while (sequence.computed < static_cast<int>(sequence.tokens.size())) {
      const int left = prompt_size - sequence.computed;
      const Chunk chunks[] = {{&sequence, left > 0 ? std::min(left, kChunk) : 1}};
      ASSERT_TRUE(driver.Step(chunks, params, wanted).ok());
    }
    for (const json& row : golden["rows"]) CompareRow(row, sequence.rows[row["position"]]);
    for (size_t i = 0; i < greedy.size(); ++i) {
      EXPECT_EQ(sequence.rows[prompt_size - 1 + i].token, greedy[i]) << "greedy token " << i;
    }
    driver.Release(sequence);
  }

  void CompareRow(const json& golden, const RowResult& row) {
    ASSERT_TRUE(row.status.ok()) << row.status;
    const auto compare = [&](TokenId id, float expected) {
      ASSERT_NE(row.logprobs[id], kNotAmongTheTop) << "token " << id;
      worst_ = std::max(worst_, std::abs(row.logprobs[id] - expected));
      EXPECT_NEAR(row.logprobs[id], expected, std::get<0>(GetParam()).tolerance)
          << "position " << golden["position"] << ", token " << id;
    };
    if (golden.contains("logprobs")) {
      const auto expected = golden["logprobs"].get<std::vector<float>>();
      ASSERT_EQ(expected.size(), row.logprobs.size());
      for (size_t id = 0; id < expected.size(); ++id)
        compare(static_cast<TokenId>(id), expected[id]);
    } else {
      // The last of the twenty may change places with the twenty-first.
      for (int i = 0; i < 15; ++i) compare(golden["top"][i][0], golden["top"][i][1]);
    }
  }

  float worst_ = 0.0f;
};

TEST_P(GoldenTest, LogProbabilitiesAndGreedyTextEqualTransformers) {
  const auto& [golden_model, backend_case] = GetParam();
  if (golden_model.fetched && !std::filesystem::exists(golden_model.path)) {
    GTEST_SKIP() << golden_model.path << " is not there; ./dev model " << golden_model.name
                 << " fetches it";
  }
  // The fetched models on the fastest path, a GPU and the twin: the other paths are the same code.
  const bool gpu = backend_case.backend == "cuda" && cuda::TestsRunOnGpu();
  const bool fastest = gpu || backend_case.code_path == CpuCodePaths().back();
  const bool reference = backend_case.backend == "reference";
  if (golden_model.fetched && !fastest && !reference) {
    GTEST_SKIP() << "checked with the fastest path";
  }
  std::ifstream file("tests/golden/logprobs/" + golden_model.name + ".json");
  ASSERT_TRUE(file.good());
  const json golden = json::parse(file);
  const auto model = Load(golden_model.path);
  const auto backend = MustMakeBackend(backend_case, model, 2, kChunk);
  SequenceDriver driver(*backend, model->config, 16, 512);
  for (const json& golden_case : golden["cases"]) {
    // A minute of the twin for one long prompt would be too much.
    if (reference && golden_case["prompt"].size() > 100) continue;
    SCOPED_TRACE("prompt of " + std::to_string(golden_case["prompt"].size()) + " tokens");
    RunCase(driver, model->config, golden_case);
  }
  RecordProperty("largest_difference", absl::StrCat(worst_));
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest,
                         testing::Combine(testing::ValuesIn(GoldenModels()),
                                          testing::ValuesIn(ExactBackendCases())),
                         [](const testing::TestParamInfo<Parameters>& info) {
                           std::string name =
                               std::get<0>(info.param).name + "_" + std::get<1>(info.param).label();
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace luna::backend
