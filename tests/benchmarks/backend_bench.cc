// Speed of a backend alone, without scheduler or server: prefill of one prompt, then greedy
// decoding of batches at given numbers of cached tokens. Wall time, and CPU time of all threads: on
// a machine that is shared, only the second says something, and with one thread the most.
//   luna-backend-bench MODEL [--backend NAME] [--path NAME] [--weights f32|bf16|int8]
//     [--threads N] [--batches N,N...] [--contexts N,N...] [--json FILE]
// Each batch is measured at each context; --context N is a list of one.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/backend/factory/factory.h"
#include "core/base/check.h"
#include "core/kv/sequence_kv.h"
#include "core/model/model.h"
#include "tests/backend/sequence_driver.h"

namespace luna::backend {
namespace {

class Stopwatch {
 public:
  double wall_seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - wall_).count();
  }
  double cpu_seconds() const { return static_cast<double>(std::clock() - cpu_) / CLOCKS_PER_SEC; }

 private:
  std::chrono::steady_clock::time_point wall_ = std::chrono::steady_clock::now();
  std::clock_t cpu_ = std::clock();
};

struct Arguments {
  std::string model;
  std::string backend = "cpu";
  BackendOptions options;
  std::vector<int> batches = {1, 8, 30, 64};
  std::vector<int> contexts = {250};  // tokens of every sequence before decoding begins
  std::string json = "";              // empty: none
};

class Bench {
 public:
  // For at most `max_batch` sequences of `max_context` tokens before decoding.
  Bench(Backend& backend, const model::ModelConfig& config, int max_batch, int max_context)
      : backend_(backend),
        config_(config),
        driver_(backend, config, /*block_tokens=*/16, NumBlocks(backend, max_batch, max_context)) {
    greedy_.temperature = 0.0f;
    for (const auto& layer : config.layers) has_window_ |= layer.sliding_window > 0;
  }

  // Best of `rounds`; one row is sampled.
  void Prefill(int tokens, int chunk, int rounds) {
    double best = 1e30, best_cpu = 1e30;
    for (int i = 0; i < rounds; ++i) {
      TestSequence sequence = driver_.NewSequence(tokens, 1);
      const Stopwatch watch;
      Compute(sequence, tokens, chunk);
      best = std::min(best, watch.wall_seconds());
      best_cpu = std::min(best_cpu, watch.cpu_seconds());
      driver_.Release(sequence);
    }
    std::printf("prefill %4d tokens: %8.1f ms, %8.0f tok/s; %8.1f ms CPU\n", tokens, best * 1e3,
                tokens / best, best_cpu * 1e3);
    json_["prefill"].push_back(
        {{"tokens", tokens}, {"ms", best * 1e3}, {"tokens_per_s", tokens / best}});
  }

  // Prompts that are computed stay for the next call. In the JSON, speed is that of the median
  // step.
  void Decode(int batch, int context) {
    const int steps = batch == 1 ? kStepsAlone : kSteps;
    context = std::min(context, config_.context_length - steps);
    Prepare(batch, context);
    std::vector<Chunk> chunks;
    for (int i = 0; i < batch; ++i) chunks.push_back({&sequences_[i], 1});
    std::vector<double> step_ms;
    const Stopwatch watch;
    for (int i = 0; i < steps; ++i) {
      const Stopwatch step;
      LUNA_CHECK(driver_.Step(chunks, greedy_).ok());
      step_ms.push_back(step.wall_seconds() * 1e3);
    }
    const double wall = watch.wall_seconds(), cpu = watch.cpu_seconds();
    std::sort(step_ms.begin(), step_ms.end());
    const double median = step_ms[step_ms.size() / 2];
    std::printf(
        "decode batch %3d at %4d: %8.2f ms a step (median %.2f), %8.0f tok/s; %8.2f ms CPU\n",
        batch, context, wall / steps * 1e3, median, batch * steps / wall, cpu / steps * 1e3);
    json_["decode"].push_back({{"batch", batch},
                               {"context", context},
                               {"step_ms", wall / steps * 1e3},
                               {"median_step_ms", median},
                               {"tokens_per_s", batch / median * 1e3},
                               {"cpu_ms", cpu / steps * 1e3}});
    Rewind(context);
  }

  nlohmann::ordered_json& json() { return json_; }

 private:
  static constexpr int kSteps = 15;
  static constexpr int kStepsAlone = 40;

  int NumBlocks(const Backend& backend, int max_batch, int max_context) const {
    const kv::KvLayout layout = TestLayout(config_, 16, backend);
    return std::max(max_batch, 4) * layout.num_groups() * (max_context / 16 + 8);
  }

  void Compute(TestSequence& sequence, int tokens, int chunk) {
    while (sequence.computed < tokens) {
      const Chunk chunks[] = {{&sequence, std::min(chunk, tokens - sequence.computed)}};
      const auto last = [&](int position) { return position == tokens - 1; };
      LUNA_CHECK(driver_.Step(chunks, greedy_, last).ok());
    }
  }

  // The first `batch` sequences have `context` tokens computed. Only the first computes them; the
  // others get a copy of its blocks, which costs a step as much to read.
  void Prepare(int batch, int context) {
    if (!sequences_.empty() && sequences_[0].computed > context) Drop();
    if (sequences_.empty()) sequences_.push_back(NewSequence());
    Compute(sequences_[0], context, 256);
    for (int i = 1; i < batch; ++i) {
      if (sequences_.size() == static_cast<size_t>(i)) sequences_.push_back(NewSequence());
      if (sequences_[i].computed != context) Copy(sequences_[0], sequences_[i]);
    }
  }

  TestSequence NewSequence() const { return driver_.NewSequence(config_.context_length, 0); }

  void Copy(const TestSequence& from, TestSequence& to) {
    driver_.Release(to);
    std::vector<int32_t>& free = driver_.free_blocks();
    std::vector<BlockCopy> copies;
    for (size_t group = 0; group < from.tables.size(); ++group) {
      for (const int32_t block : from.tables[group]) {
        if (block == kv::kNoBlock) {
          to.tables[group].push_back(block);
          continue;
        }
        LUNA_CHECK(!free.empty());
        to.tables[group].push_back(free.back());
        copies.push_back({BlockId(block), BlockId(free.back())});
        free.pop_back();
      }
    }
    LUNA_CHECK(backend_.CopyBlocks(copies).ok());
    to.computed = from.computed;
    to.rows.resize(to.computed);
  }

  // Back to the prompts. Not where blocks behind a window are gone.
  void Rewind(int context) {
    if (has_window_) return Drop();
    for (TestSequence& sequence : sequences_) {
      sequence.computed = std::min(sequence.computed, context);
      sequence.rows.resize(sequence.computed);
    }
  }

  void Drop() {
    for (TestSequence& sequence : sequences_) driver_.Release(sequence);
    sequences_.clear();
  }

  Backend& backend_;
  const model::ModelConfig& config_;
  sample::SamplingParams greedy_;
  SequenceDriver driver_;
  bool has_window_ = false;
  std::vector<TestSequence> sequences_;
  nlohmann::ordered_json json_;
};

// "1,2,4"
std::vector<int> ParseList(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream stream(text);
  for (std::string number; std::getline(stream, number, ',');) {
    numbers.push_back(std::stoi(number));
    LUNA_CHECK(numbers.back() > 0) << "in a list: " << text;
  }
  LUNA_CHECK(!numbers.empty()) << "an empty list";
  return numbers;
}

Arguments Parse(int argc, char** argv) {
  LUNA_CHECK(argc >= 2) << "usage: luna-backend-bench MODEL [--backend NAME] [--path NAME] "
                           "[--threads N] [--batches N,N...] [--contexts N,N...] [--json FILE]";
  Arguments arguments{.model = argv[1], .options = {}};
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--backend") arguments.backend = value;
    if (flag == "--weights") {
      for (const WeightsFormat format : kWeightsFormats) {
        if (value == WeightsFormatName(format)) arguments.options.weights = format;
      }
    }
    if (flag == "--path") arguments.options.code_path = value;
    if (flag == "--threads") arguments.options.num_threads = std::stoi(value);
    if (flag == "--batches") arguments.batches = ParseList(value);
    if (flag == "--context" || flag == "--contexts") arguments.contexts = ParseList(value);
    if (flag == "--json") arguments.json = value;
  }
  return arguments;
}

int Main(int argc, char** argv) {
  const Arguments arguments = Parse(argc, argv);
  const auto model = model::LoadModel(arguments.model);
  LUNA_CHECK(model.ok()) << model.status();
  const Stopwatch watch;
  const auto backend = MakeBackend(arguments.backend, *model, arguments.options);
  LUNA_CHECK(backend.ok()) << backend.status();
  const BackendInfo& info = (*backend)->info();
  std::printf("%s, %s, %s: %.0f MB of weights, ready in %.2f s\n", arguments.model.c_str(),
              info.name.c_str(), info.numerics.c_str(), info.weights_bytes / 1e6,
              watch.wall_seconds());
  const model::ModelConfig& config = (*model)->config;
  const int max_batch = *std::max_element(arguments.batches.begin(), arguments.batches.end());
  const int max_context = *std::max_element(arguments.contexts.begin(), arguments.contexts.end());
  Bench bench(**backend, config, max_batch, max_context);
  bench.json() = {{"model", arguments.model},
                  {"backend", info.name},
                  {"numerics", info.numerics},
                  {"threads", arguments.options.num_threads}};
  for (const int tokens : {100, 400, 512}) {
    if (tokens <= config.context_length) bench.Prefill(tokens, 256, 3);
  }
  for (const int context : arguments.contexts) {
    for (const int batch : arguments.batches) bench.Decode(batch, context);
  }
  if (!arguments.json.empty()) std::ofstream(arguments.json) << bench.json().dump(2) << "\n";
  return 0;
}

}  // namespace
}  // namespace luna::backend

int main(int argc, char** argv) { return luna::backend::Main(argc, argv); }
