// What it costs to decide, beside what it costs to compute: the time of Scheduler::Plan and Commit
// and that of the backend's step between them, in a loop like the engine's. Four loads, each with
// 10, 100 and 1,000 sessions:
//   all speak     every session has a generation; what the batch has no place for stands in line
//   all callers   the same, every session of a caller of its own
//   one lesson    the same of one caller, and their prompts begin with the same 256 tokens
//   a few speak   at most 30; the others are silent, and the pool is so full that every block of
//                 growth is taken from one of their caches
//   luna-scheduler-bench [MODEL]
// Default: dummy:luna. Plan, commit and step are medians of ticks in which all that have a place
// decode; "worst" is the longest that deciding took in any tick, those of the prompts included;
// "arrival" is what Scheduler::Enqueue took, with the requests of those before it there already.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/backend/factory/factory.h"
#include "core/base/check.h"
#include "core/kv/prefix_index.h"
#include "core/model/model.h"
#include "core/sched/batch_builder.h"
#include "core/sched/scheduler.h"
#include "core/text/tokenizer.h"

namespace luna::sched {
namespace {

constexpr int kBlockTokens = 16;
constexpr int kPromptTokens = 40;
constexpr int kTicks = 100;
constexpr int kAnswerTokens = kTicks + 100;  // nobody ends while it is measured
constexpr int kLessonTokens = 256;
constexpr int kFew = 30;

struct Load {
  const char* name = "";
  int sessions = 0;
  int speaking = 0;
  bool own_callers = false;  // a caller for each session
  int lesson_tokens = 0;     // that all prompts begin with
  bool full = false;         // the pool

  int prompt_tokens() const { return lesson_tokens + kPromptTokens; }
};

struct Times {
  std::vector<double> arrival, plan, commit, step;  // microseconds
};

double At(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(part * values.size()))];
}

class Stopwatch {
 public:
  double Lap() {
    const auto now = std::chrono::steady_clock::now();
    const double us = std::chrono::duration<double, std::micro>(now - last_).count();
    last_ = now;
    return us;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

int NumBlocks(const kv::KvLayout& layout, const Load& load) {
  const auto blocks = [&](int tokens) {
    return static_cast<int>(layout.BlocksForTokens(tokens, layout.block_tokens));
  };
  const int silent = load.sessions - load.speaking;
  return load.speaking * blocks(load.prompt_tokens() + (load.full ? 64 : kAnswerTokens)) +
         silent * blocks(load.prompt_tokens());
}

// One load from its first session to its last tick.
class Bench {
 public:
  Bench(const model::Model& model, const text::Tokenizer& tokenizer, const Load& load)
      : model_(model),
        tokenizer_(tokenizer),
        load_(load),
        backend_(MakeBackend(model)),
        layout_(LayoutOf(model, *backend_)),
        pool_(NumBlocks(layout_, load)),
        index_(&layout_, &pool_),
        scheduler_(SchedulerOptions(), &layout_, &pool_) {
    LUNA_CHECK(backend_->AllocateKv(layout_, pool_.total_blocks()).ok());
    lesson_ = RandomTokens(load.lesson_tokens);
  }

  Times Run() {
    for (int i = 0; i < load_.sessions; ++i) AddSession();
    for (int i = load_.speaking; i < load_.sessions; ++i) Enqueue(i, /*max_tokens=*/1);
    while (!scheduler_.running().empty()) Tick();
    for (int i = 0; i < load_.speaking; ++i) Enqueue(i, kAnswerTokens);
    const auto decodes = [](const Sequence* one) { return one->remaining_tokens() == 1; };
    do {
      Tick();
    } while (!std::ranges::all_of(scheduler_.running(), decodes));
    times_.plan.clear(), times_.commit.clear(), times_.step.clear();
    for (int i = 0; i < kTicks; ++i) Tick();
    LUNA_CHECK(!scheduler_.running().empty());
    return times_;
  }

  size_t batch() const { return scheduler_.running().size(); }
  size_t line() const { return scheduler_.waiting().size(); }
  double worst_us() const { return worst_us_; }

  ~Bench() {
    for (const auto& sequence : sequences_) {
      if (sequence->schedule.running || std::ranges::count(scheduler_.waiting(), sequence.get())) {
        scheduler_.Remove(sequence.get());
      }
    }
    for (const auto& cache : caches_) scheduler_.RemoveCache(cache.get());
  }

 private:
  static std::unique_ptr<backend::Backend> MakeBackend(const model::Model& model) {
    auto shared = std::make_shared<const model::Model>(model);
    auto backend = backend::MakeBackend("cpu", std::move(shared), backend::BackendOptions());
    LUNA_CHECK(backend.ok()) << backend.status();
    return *std::move(backend);
  }
  static kv::KvLayout LayoutOf(const model::Model& model, const backend::Backend& backend) {
    std::vector<int> windows;
    for (const auto& layer : model.config.layers) windows.push_back(layer.sliding_window);
    return kv::MakeLayout(windows, kBlockTokens, backend.token_layer_bytes());
  }

  void AddSession() {
    caches_.push_back(std::make_unique<SessionCache>(
        SessionId(caches_.size() + 1), &layout_, &pool_, pool_.total_blocks(), &index_, "server"));
    scheduler_.AddCache(caches_.back().get());
  }

  void Enqueue(int session, int max_tokens) {
    SequenceSpec spec;
    spec.id = SequenceId(sequences_.size() + 1);
    spec.caller = load_.own_callers ? static_cast<uint64_t>(session) : 0;
    spec.prompt = lesson_;
    for (const TokenId token : RandomTokens(kPromptTokens)) spec.prompt.push_back(token);
    spec.sampling.temperature = 0.0f;
    spec.stopping.max_tokens = max_tokens;
    spec.stopping.ignore_eos = true;
    sequences_.push_back(
        std::make_unique<Sequence>(std::move(spec), caches_[session].get(), &tokenizer_));
    Stopwatch watch;
    scheduler_.Enqueue(sequences_.back().get());
    times_.arrival.push_back(watch.Lap());
  }

  std::vector<TokenId> RandomTokens(int count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random_() % model_.config.vocab_size);
    }
    return tokens;
  }

  void Tick() {
    Stopwatch watch;
    const StepPlan& plan = scheduler_.Plan();
    times_.plan.push_back(watch.Lap());
    LUNA_CHECK(plan.failed.empty() && !plan.rows.empty());
    LUNA_CHECK(plan.copies.empty() || backend_->CopyBlocks(plan.copies).ok());
    BuildBatch(plan, layout_, ++step_, batch_);
    LUNA_CHECK(backend_->Launch(batch_).ok() && backend_->Collect(result_).ok());
    times_.step.push_back(watch.Lap());
    scheduler_.Commit(result_);
    times_.commit.push_back(watch.Lap());
    worst_us_ = std::max(worst_us_, times_.plan.back() + times_.commit.back());
  }

  const model::Model& model_;
  const text::Tokenizer& tokenizer_;
  const Load load_;
  const std::unique_ptr<backend::Backend> backend_;
  const kv::KvLayout layout_;
  kv::BlockPool pool_;
  kv::PrefixIndex index_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<SessionCache>> caches_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
  batch::Batch batch_;
  batch::StepResult result_;
  uint64_t step_ = 0;
  Times times_;
  double worst_us_ = 0;
  std::vector<TokenId> lesson_;
  std::mt19937 random_{1};
};

void Measure(const model::Model& model, const text::Tokenizer& tokenizer, const Load& load) {
  Bench bench(model, tokenizer, load);
  const Times times = bench.Run();
  std::vector<double> deciding;
  for (size_t i = 0; i < times.plan.size(); ++i) {
    deciding.push_back(times.plan[i] + times.commit[i]);
  }
  const double step = At(times.step, 0.5);
  std::printf("| %s | %d | %zu | %zu | %.1f | %.1f | %.2f | %.2f %% | %.0f | %.1f |\n", load.name,
              load.sessions, bench.batch(), bench.line(), At(times.plan, 0.5),
              At(times.commit, 0.5), step / 1e3, 100 * At(deciding, 0.5) / step, bench.worst_us(),
              At(times.arrival, 0.99));
  std::fflush(stdout);
}

int Main(const std::string& name) {
  const auto model = model::LoadModel(name);
  LUNA_CHECK(model.ok()) << model.status();
  const auto tokenizer = text::Tokenizer::Create((*model)->tokenizer);
  LUNA_CHECK(tokenizer.ok()) << tokenizer.status();
  std::printf(
      "| load | sessions | batch | line | plan, us | commit, us | step, ms | both / step | "
      "worst, us | arrival p99, us |\n|---|---|---|---|---|---|---|---|---|---|\n");
  for (const int sessions : {10, 100, 1000}) {
    const auto measure = [&](const Load& load) { Measure(**model, **tokenizer, load); };
    measure({.name = "all speak", .sessions = sessions, .speaking = sessions});
    measure(
        {.name = "all callers", .sessions = sessions, .speaking = sessions, .own_callers = true});
    measure({.name = "one lesson",
             .sessions = sessions,
             .speaking = sessions,
             .lesson_tokens = kLessonTokens});
    measure({.name = "a few speak",
             .sessions = sessions,
             .speaking = std::min(sessions / 2, kFew),
             .full = true});
  }
  return 0;
}

}  // namespace
}  // namespace luna::sched

int main(int argc, char** argv) {
  if (argc > 2) {
    std::fprintf(stderr, "usage: luna-scheduler-bench [MODEL]\n");
    return 2;
  }
  return luna::sched::Main(argc == 2 ? argv[1] : "dummy:luna");
}
