// Speed of a backend alone, without scheduler or server: prefill of one prompt, then decoding of
// batches at given numbers of cached tokens. Wall time, and CPU time of all threads: on a machine
// that is shared, only the second says something, and with one thread the most.
//   luna-backend-bench MODEL [--backend NAME] [--path NAME] [--weights FORMAT] [--kv-dtype DTYPE]
//     [--threads N] [--prefills N,N...] [--chunk N] [--batches N,N...] [--contexts N,N...]
//     [--steps N] [--rounds N] [--temperature T] [--top-p P] [--json FILE]
// Each batch is measured at each context, greedily unless there is a temperature, `rounds` times
// `steps` steps; --context N is a list of one. Where a backend may have two steps in flight, it is
// measured both ways: each step collected before the next is launched, and after.
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
  std::vector<int> prefills = {100, 400, 512};  // those that the context has room for
  int chunk = 256;                              // tokens of a step of a prefill
  std::vector<int> batches = {1, 8, 30, 64};
  std::vector<int> contexts = {250};  // tokens of every sequence before decoding begins
  int steps = 0;                      // 0: kSteps, or kStepsAlone
  int rounds = 1;
  sample::SamplingParams params;
  std::string json = "";  // empty: none

  int max_batch() const { return *std::max_element(batches.begin(), batches.end()); }
  int max_context() const { return *std::max_element(contexts.begin(), contexts.end()); }
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(Backend& backend, const model::ModelConfig& config, const Arguments& arguments)
      : backend_(backend),
        config_(config),
        arguments_(arguments),
        driver_(backend, config, /*block_tokens=*/16, NumBlocks(backend)) {
    for (const auto& layer : config.layers) has_window_ |= layer.sliding_window > 0;
  }

  // Best of three; one row is sampled.
  void Prefill(int tokens) {
    double best = 1e30, best_cpu = 1e30;
    for (int i = 0; i < 3; ++i) {
      TestSequence sequence = driver_.NewSequence(tokens, 1);
      const Stopwatch watch;
      Compute(sequence, tokens, arguments_.chunk);
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
    const int steps = arguments_.steps > 0 ? arguments_.steps : batch == 1 ? kStepsAlone : kSteps;
    context = std::min(context, config_.context_length - steps);
    for (int in_flight = 1; in_flight <= std::min(2, backend_.depth()); ++in_flight) {
      Times times;
      for (int round = 0; round < arguments_.rounds; ++round) {
        Prepare(batch, context);
        Run(batch, steps, in_flight, times);
        Rewind(context);
      }
      Report(batch, context, steps, in_flight, times);
    }
  }

  nlohmann::ordered_json& json() { return json_; }

 private:
  static constexpr int kSteps = 15;
  static constexpr int kStepsAlone = 40;

  struct Times {
    std::vector<double> step_ms, launch_ms;  // of each step; the host's part of it
    double wall_s = 0, cpu_s = 0;            // of all
  };

  int NumBlocks(const Backend& backend) const {
    const kv::KvLayout layout = TestLayout(config_, 16, backend);
    const int steps = std::max(arguments_.steps, kStepsAlone);
    const int blocks = (arguments_.max_context() + steps) / 16 + 6;
    return std::max(arguments_.max_batch(), 4) * layout.num_groups() * blocks;
  }

  // A step lasts from the end of the one before to its own. With two in flight, the first launch is
  // not among them: it meets a device that has nothing to do.
  void Run(int batch, int steps, int in_flight, Times& times) {
    std::vector<TestSequence*> sequences;
    for (int i = 0; i < batch; ++i) sequences.push_back(&sequences_[i]);
    const auto launch = [&](int step) {
      const bool follows = in_flight > 1 && step > 0;
      const absl::Status status = driver_.Launch(sequences, arguments_.params, follows);
      LUNA_CHECK(status.ok()) << status;
    };
    int launched = 0;
    for (; launched < in_flight - 1; ++launched) launch(launched);
    const Stopwatch watch;
    for (; launched < steps; ++launched) {
      const Stopwatch step;
      launch(launched);
      times.launch_ms.push_back(step.wall_seconds() * 1e3);
      Collect();
      times.step_ms.push_back(step.wall_seconds() * 1e3);
    }
    times.wall_s += watch.wall_seconds();
    times.cpu_s += watch.cpu_seconds();
    for (int i = 1; i < in_flight; ++i) Collect();
  }

  void Collect() {
    const auto result = driver_.Collect();
    LUNA_CHECK(result.ok()) << result.status();
  }

  void Report(int batch, int context, int steps, int in_flight, const Times& times) {
    const double count = static_cast<double>(times.step_ms.size());
    const double median = Median(times.step_ms), launch = Median(times.launch_ms);
    const double mean = times.wall_s / count * 1e3, cpu = times.cpu_s / count * 1e3;
    std::printf(
        "decode batch %3d at %4d, %d in flight: %8.3f ms a step (median %.3f, launch %.3f), "
        "%8.0f tok/s; %8.2f ms CPU\n",
        batch, context, in_flight, mean, median, launch, batch / mean * 1e3, cpu);
    json_["decode"].push_back({{"batch", batch},
                               {"context", context},
                               {"mean_cached", context + (steps + 1) / 2.0},
                               {"in_flight", in_flight},
                               {"steps", times.step_ms.size()},
                               {"step_ms", mean},
                               {"median_step_ms", median},
                               {"median_launch_ms", launch},
                               {"tokens_per_s", batch / median * 1e3},
                               {"cpu_ms", cpu}});
  }

  void Compute(TestSequence& sequence, int tokens, int chunk) {
    while (sequence.computed < tokens) {
      const Chunk chunks[] = {{&sequence, std::min(chunk, tokens - sequence.computed)}};
      const auto last = [&](int position) { return position == tokens - 1; };
      const absl::Status status = driver_.Step(chunks, arguments_.params, last);
      LUNA_CHECK(status.ok()) << status;
    }
  }

  // The first `batch` sequences have `context` tokens computed. Only the first computes them; the
  // others get a copy of its blocks, which costs a step as much to read.
  void Prepare(int batch, int context) {
    if (!sequences_.empty() && sequences_[0].computed > context) Drop();
    if (sequences_.empty()) sequences_.push_back(NewSequence());
    Compute(sequences_[0], context, arguments_.chunk);
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
  const Arguments& arguments_;
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

// False if `flag` is none.
bool SetFlag(const std::string& flag, const std::string& value, Arguments& arguments) {
  BackendOptions& options = arguments.options;
  if (flag == "--weights") {
    for (const WeightsFormat format : kWeightsFormats) {
      if (value == WeightsFormatName(format)) options.weights = format;
    }
    LUNA_CHECK(options.weights.has_value()) << flag << " " << value;
  } else if (flag == "--kv-dtype") {
    for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kBf16, KvDtype::kInt8}) {
      if (value == KvDtypeName(dtype)) options.kv_dtype = dtype;
    }
    LUNA_CHECK(options.kv_dtype.has_value()) << flag << " " << value;
  } else if (flag == "--backend") {
    arguments.backend = value;
  } else if (flag == "--path") {
    options.code_path = value;
  } else if (flag == "--threads") {
    options.num_threads = std::stoi(value);
  } else if (flag == "--prefills") {
    arguments.prefills = ParseList(value);
  } else if (flag == "--chunk") {
    arguments.chunk = std::stoi(value);
  } else if (flag == "--batches") {
    arguments.batches = ParseList(value);
  } else if (flag == "--context" || flag == "--contexts") {
    arguments.contexts = ParseList(value);
  } else if (flag == "--steps") {
    arguments.steps = std::stoi(value);
  } else if (flag == "--rounds") {
    arguments.rounds = std::stoi(value);
  } else if (flag == "--temperature") {
    arguments.params.temperature = std::stof(value);
  } else if (flag == "--top-p") {
    arguments.params.top_p = std::stof(value);
  } else if (flag == "--json") {
    arguments.json = value;
  } else {
    return false;
  }
  return true;
}

Arguments Parse(int argc, char** argv) {
  LUNA_CHECK(argc >= 2 && argc % 2 == 0)
      << "usage: luna-backend-bench MODEL [--FLAG VALUE...]; flags: at the top of "
         "tests/benchmarks/backend_bench.cc";
  Arguments arguments{.model = argv[1], .options = {}, .params = {}};
  arguments.params.temperature = 0.0f;
  for (int i = 2; i + 1 < argc; i += 2) {
    LUNA_CHECK(SetFlag(argv[i], argv[i + 1], arguments)) << "no flag " << argv[i];
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
  const model::ModelConfig& config = (*model)->config;
  Bench bench(**backend, config, arguments);
  const double ready_s = watch.wall_seconds();
  std::printf("%s, %s, %s: %.0f MB of weights, ready in %.2f s\n", arguments.model.c_str(),
              info.name.c_str(), info.numerics.c_str(), info.weights_bytes / 1e6, ready_s);
  bench.json() = {{"model", arguments.model},
                  {"backend", info.name},
                  {"numerics", info.numerics},
                  {"threads", arguments.options.num_threads},
                  {"weights_bytes", info.weights_bytes},
                  {"ready_s", ready_s}};
  for (const int tokens : arguments.prefills) {
    if (tokens <= config.context_length) bench.Prefill(tokens);
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
