// Speed of a backend alone, without scheduler or server: prefill of one prompt, then greedy
// decoding of batches at a given context. Wall time, and CPU time of all threads: on a machine that
// is shared, only the second says something, and with one thread the most.
//   luna-backend-bench MODEL [--backend NAME] [--path NAME] [--weights f32|bf16|int8]
//     [--threads N] [--context N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "core/backend/factory/factory.h"
#include "core/base/check.h"
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
  int context = 250;  // tokens of every sequence before decoding begins
};

class Bench {
 public:
  Bench(Backend& backend, const model::ModelConfig& config, int context)
      : config_(config),
        context_(context),
        driver_(backend, config, /*block_tokens=*/16, NumBlocks(backend)) {
    greedy_.temperature = 0.0f;
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
  }

  void Decode(int batch, int steps) {
    std::vector<TestSequence> sequences;
    for (int i = 0; i < batch; ++i) {
      sequences.push_back(driver_.NewSequence(context_ + steps, i));
      Compute(sequences.back(), context_, 256);
    }
    std::vector<Chunk> chunks;
    for (TestSequence& sequence : sequences) chunks.push_back({&sequence, 1});
    const Stopwatch watch;
    for (int i = 0; i < steps; ++i) LUNA_CHECK(driver_.Step(chunks, greedy_).ok());
    const double wall = watch.wall_seconds(), cpu = watch.cpu_seconds();
    std::printf("decode batch %3d:    %8.2f ms a step, %8.0f tok/s; %8.2f ms CPU\n", batch,
                wall / steps * 1e3, batch * steps / wall, cpu / steps * 1e3);
    for (TestSequence& sequence : sequences) driver_.Release(sequence);
  }

 private:
  static constexpr int kMaxBatch = 64;

  int NumBlocks(const Backend& backend) const {
    const kv::KvLayout layout = TestLayout(config_, 16, backend);
    return kMaxBatch * layout.num_groups() * (context_ / 16 + 8);
  }

  void Compute(TestSequence& sequence, int tokens, int chunk) {
    while (sequence.computed < tokens) {
      const Chunk chunks[] = {{&sequence, std::min(chunk, tokens - sequence.computed)}};
      const auto last = [&](int position) { return position == tokens - 1; };
      LUNA_CHECK(driver_.Step(chunks, greedy_, last).ok());
    }
  }

  const model::ModelConfig& config_;
  const int context_;
  sample::SamplingParams greedy_;
  SequenceDriver driver_;
};

Arguments Parse(int argc, char** argv) {
  LUNA_CHECK(argc >= 2) << "usage: luna-backend-bench MODEL [--backend NAME] [--path NAME] "
                           "[--threads N] [--context N]";
  Arguments arguments{.model = argv[1], .options = {}};
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i], value = argv[i + 1];
    if (flag == "--backend") arguments.backend = value;
    if (flag == "--weights") {
      arguments.options.weights = value == "int8"   ? WeightsFormat::kInt8
                                  : value == "bf16" ? WeightsFormat::kBf16
                                                    : WeightsFormat::kF32;
    }
    if (flag == "--path") arguments.options.code_path = value;
    if (flag == "--threads") arguments.options.num_threads = std::stoi(value);
    if (flag == "--context") arguments.context = std::stoi(value);
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
  Bench bench(**backend, (*model)->config, arguments.context);
  bench.Prefill(100, 100, 3);
  bench.Prefill(400, 256, 2);
  for (const int batch : {1, 8, 30, 64}) bench.Decode(batch, batch == 1 ? 40 : 15);
  return 0;
}

}  // namespace
}  // namespace luna::backend

int main(int argc, char** argv) { return luna::backend::Main(argc, argv); }
