// What a number format costs in quality: the distributions of the next token on real text, against
// f32 weights and KV of the same file.
//   luna-quality MODEL TEXT_FILE [--windows N] [--window TOKENS] [--path NAME]
// For each choice of weights format and KV dtype: mean Kullback-Leibler divergence from f32 in nats
// a token, and in how many places the likeliest token is the same. The divergence is taken over the
// kTop likeliest tokens of f32, the others counting as one: that is a lower bound, and close, since
// they hold next to nothing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/cpu/packed_weights.h"
#include "core/backend/factory/factory.h"
#include "core/base/check.h"
#include "core/model/model.h"
#include "core/text/tokenizer.h"
#include "tests/backend/sequence_driver.h"

namespace luna::backend {
namespace {

constexpr int kTop = 1024;
constexpr int kChunk = 128;
constexpr double kSmallest = 1e-9;  // of what is left of 1; below it is rounding

struct Arguments {
  std::string model, text;
  int windows = 16;
  int window = 512;  // tokens, each window a sequence of its own
  std::string code_path;
};

// A backend that runs one window after the other.
class Subject {
 public:
  Subject(const std::shared_ptr<const model::Model>& model, const Arguments& arguments,
          WeightsFormat weights, KvDtype kv_dtype)
      : config_(model->config),
        backend_(Make(model, arguments, weights, kv_dtype)),
        driver_(*backend_, config_, kBlockTokens,
                (arguments.window / kBlockTokens + 8) *
                    TestLayout(config_, kBlockTokens, *backend_).num_groups()) {}

  const std::string& numerics() const { return backend_->info().numerics; }

  // One result for each token of `window`.
  std::vector<RowResult> Run(std::span<const TokenId> window) {
    TestSequence sequence = driver_.NewSequence(static_cast<int>(window.size()), 1);
    sequence.tokens.assign(window.begin(), window.end());
    sample::SamplingParams params;
    params.temperature = 0.0f;
    params.num_logprobs = std::min(kTop, config_.vocab_size);
    while (sequence.computed < static_cast<int>(window.size())) {
      const int left = static_cast<int>(window.size()) - sequence.computed;
      const Chunk chunks[] = {{&sequence, std::min(kChunk, left)}};
      LUNA_CHECK(driver_.Step(chunks, params).ok());
    }
    driver_.Release(sequence);
    return std::move(sequence.rows);
  }

 private:
  static constexpr int kBlockTokens = 16;

  static std::unique_ptr<Backend> Make(const std::shared_ptr<const model::Model>& model,
                                       const Arguments& arguments, WeightsFormat weights,
                                       KvDtype kv_dtype) {
    auto backend = MakeBackend("cpu", model,
                               {.weights = weights,
                                .kv_dtype = kv_dtype,
                                .max_batch_tokens = kChunk,
                                .code_path = arguments.code_path});
    LUNA_CHECK(backend.ok()) << backend.status();
    return *std::move(backend);
  }

  const model::ModelConfig& config_;
  std::unique_ptr<Backend> backend_;
  SequenceDriver driver_;
};

double Divergence(const RowResult& exact, const RowResult& other) {
  double sum = 0, rest = 1, other_rest = 1;
  for (size_t token = 0; token < exact.logprobs.size(); ++token) {
    if (exact.logprobs[token] == kNotAmongTheTop || other.logprobs[token] == kNotAmongTheTop) {
      continue;
    }
    const double log_p = exact.logprobs[token], log_q = other.logprobs[token];
    sum += std::exp(log_p) * (log_p - log_q);
    rest -= std::exp(log_p);
    other_rest -= std::exp(log_q);
  }
  if (rest > kSmallest && other_rest > kSmallest) sum += rest * std::log(rest / other_rest);
  return sum;
}

struct Difference {
  double divergence = 0, largest = 0;
  int64_t same = 0, places = 0;

  void Add(const std::vector<RowResult>& exact, const std::vector<RowResult>& other) {
    for (size_t i = 0; i < exact.size(); ++i) {
      const double here = Divergence(exact[i], other[i]);
      divergence += here;
      largest = std::max(largest, here);
      same += exact[i].token == other[i].token;
    }
    places += static_cast<int64_t>(exact.size());
  }
};

void Compare(const std::shared_ptr<const model::Model>& model, const Arguments& arguments,
             std::span<const TokenId> tokens) {
  Subject exact(model, arguments, WeightsFormat::kF32, KvDtype::kF32);
  std::vector<std::unique_ptr<Subject>> subjects;
  for (const auto& [weights, kv_dtype] : {std::pair{WeightsFormat::kF32, KvDtype::kBf16},
                                          {WeightsFormat::kF32, KvDtype::kInt8},
                                          {WeightsFormat::kBf16, KvDtype::kBf16},
                                          {WeightsFormat::kInt8, KvDtype::kF32},
                                          {WeightsFormat::kInt8, KvDtype::kBf16},
                                          {WeightsFormat::kInt8, KvDtype::kInt8},
                                          {WeightsFormat::kInt4, KvDtype::kF32},
                                          {WeightsFormat::kInt4, KvDtype::kInt8}}) {
    if (weights == WeightsFormat::kInt4 && !cpu::HasQ4(*model)) continue;
    subjects.push_back(std::make_unique<Subject>(model, arguments, weights, kv_dtype));
  }
  std::vector<Difference> differences(subjects.size());
  const size_t length = arguments.window;
  for (size_t begin = 0; begin + length <= std::min(tokens.size(), length * arguments.windows);
       begin += length) {
    const std::vector<RowResult> expected = exact.Run(tokens.subspan(begin, length));
    for (size_t s = 0; s < subjects.size(); ++s) {
      differences[s].Add(expected, subjects[s]->Run(tokens.subspan(begin, length)));
    }
  }
  for (size_t s = 0; s < subjects.size(); ++s) {
    const Difference& d = differences[s];
    LUNA_CHECK(d.places > 0) << "the text has " << tokens.size() << " tokens; a window takes "
                             << length;
    std::printf("%-44s %6lld places  KL %.2e nats, %.2f at most  same top token %.2f %%\n",
                subjects[s]->numerics().c_str(), static_cast<long long>(d.places),
                d.divergence / d.places, d.largest, 100.0 * d.same / d.places);
  }
}

int Main(int argc, char** argv) {
  LUNA_CHECK(argc >= 3) << "usage: luna-quality MODEL TEXT_FILE [--windows N] [--window TOKENS] "
                           "[--path NAME]";
  Arguments arguments{.model = argv[1], .text = argv[2], .code_path = ""};
  for (int i = 3; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--windows") arguments.windows = std::stoi(value);
    if (flag == "--window") arguments.window = std::stoi(value);
    if (flag == "--path") arguments.code_path = value;
  }
  const auto model = model::LoadModel(arguments.model);
  LUNA_CHECK(model.ok()) << model.status();
  const auto tokenizer = text::Tokenizer::Create((*model)->tokenizer);
  LUNA_CHECK(tokenizer.ok()) << tokenizer.status();
  std::ifstream file(arguments.text, std::ios::binary);
  LUNA_CHECK(file.good()) << "cannot read " << arguments.text;
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto tokens = (*tokenizer)->Encode(text);
  LUNA_CHECK(tokens.ok()) << tokens.status();
  Compare(*model, arguments, *tokens);
  return 0;
}

}  // namespace
}  // namespace luna::backend

int main(int argc, char** argv) { return luna::backend::Main(argc, argv); }
