// What it is worth that sessions which begin alike share: N sessions with a prompt in common and a
// question of 16 tokens each, at once and one after another, with sharing and without; and the
// first token of a second turn against that of a first one as long as both. Through the engine with
// the cpu backend; no server, no wire.
//   luna-sharing-bench MODEL [SESSIONS [PROMPT_TOKENS [MAX_TOKENS]]]
// Defaults: 30, 400, 50. Memory is what the pool has charged when all have their answers.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "server/instance.h"
#include "server/options.h"

namespace luna {
namespace {

constexpr int kQuestionTokens = 16;

using Clock = std::chrono::steady_clock;

struct Arguments {
  std::string model;
  int sessions = 30, prompt_tokens = 400, max_tokens = 50;
};

struct Run {
  std::vector<double> ttft_ms;  // sorted
  double seconds = 0;
  double charged_mib = 0;
  uint64_t cached_tokens = 0;

  double Percentile(double p) const {
    return ttft_ms[std::min(ttft_ms.size() - 1, static_cast<size_t>(p * ttft_ms.size()))];
  }
};

class Bench {
 public:
  Bench(const Arguments& arguments, engine::PrefixSharing sharing) : arguments_(arguments) {
    server::Options options;
    options.model = arguments.model;
    options.prefix_sharing = sharing;
    options.seed = 1;
    auto instance = server::Instance::Load(options, {});
    LUNA_CHECK(instance.ok()) << instance.status();
    instance_ = *std::move(instance);
  }

  // A prompt that no run before had.
  std::vector<TokenId> NewPrompt(int tokens) {
    std::vector<TokenId> prompt(tokens);
    const int vocab = instance_->serving().model->config.vocab_size;
    for (TokenId& token : prompt) token = static_cast<TokenId>(random_() % vocab);
    return prompt;
  }

  // A lesson in common, and a question of each one's own.
  std::vector<std::vector<TokenId>> ClassPrompts() {
    const std::vector<TokenId> lesson = NewPrompt(arguments_.prompt_tokens);
    std::vector<std::vector<TokenId>> prompts;
    for (int i = 0; i < arguments_.sessions; ++i) {
      prompts.push_back(lesson);
      const std::vector<TokenId> question = NewPrompt(kQuestionTokens);
      prompts.back().insert(prompts.back().end(), question.begin(), question.end());
    }
    return prompts;
  }

  Run Ask(const std::vector<std::vector<TokenId>>& prompts, bool at_once) {
    Run run;
    const auto begin = Clock::now();
    std::vector<std::shared_ptr<engine::TokenStream>> streams;
    std::vector<std::string> keys;
    for (size_t i = 0; i < prompts.size(); ++i) keys.push_back(NewSession());
    for (size_t i = 0; i < prompts.size(); ++i) {
      streams.push_back(Submit(prompts[i], keys[i]));
      if (!at_once) Collect({streams.back()}, run);
    }
    if (at_once) Collect(streams, run);
    run.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    const engine::Snapshot snapshot = TakeSnapshot();
    run.charged_mib =
        static_cast<double>(snapshot.pool.charged_blocks * snapshot.pool.block_bytes) / (1 << 20);
    for (const std::string& key : keys) Close(key);
    std::sort(run.ttft_ms.begin(), run.ttft_ms.end());
    return run;
  }

  // Milliseconds to the first token of a second turn, and of a first one of the same length.
  std::pair<double, double> SecondTurn() {
    const std::string warm = NewSession(), cold = NewSession();
    const int first_turn = arguments_.prompt_tokens + arguments_.max_tokens;
    Run first, second, whole;
    Collect({Submit(NewPrompt(arguments_.prompt_tokens), warm)}, first);
    Collect({Submit(NewPrompt(kQuestionTokens), warm)}, second);
    Collect({Submit(NewPrompt(first_turn + kQuestionTokens), cold)}, whole);
    Close(warm);
    Close(cold);
    return {second.ttft_ms.front(), whole.ttft_ms.front()};
  }

 private:
  std::string NewSession() {
    std::promise<std::string> key;
    instance_->engine().CreateSession({.caller = "bench"}, [&](auto info) {
      LUNA_CHECK(info.ok()) << info.status();
      key.set_value(info->key);
    });
    return key.get_future().get();
  }
  void Close(const std::string& key) {
    std::promise<void> done;
    instance_->engine().CloseSession(key, [&](auto) { done.set_value(); });
    done.get_future().wait();
  }
  engine::Snapshot TakeSnapshot() {
    std::promise<engine::Snapshot> snapshot;
    instance_->engine().TakeSnapshot([&](auto taken) { snapshot.set_value(*std::move(taken)); });
    return snapshot.get_future().get();
  }

  std::shared_ptr<engine::TokenStream> Submit(std::vector<TokenId> prompt, const std::string& key) {
    engine::Request request;
    request.caller = "bench";
    request.session_key = key;
    request.input = {.tokens = std::move(prompt), .opening = {}, .after_system = {}, .raw = true};
    request.sampling.temperature = 0.0f;
    request.stopping.max_tokens = arguments_.max_tokens;
    request.stopping.ignore_eos = true;
    auto stream = std::make_shared<engine::TokenStream>();
    instance_->engine().Submit(std::move(request), stream);
    return stream;
  }

  static void Collect(std::vector<std::shared_ptr<engine::TokenStream>> streams, Run& run) {
    engine::TokenStream::Taken taken;
    while (!streams.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::erase_if(streams, [&](const auto& stream) {
        stream->TakeAll(taken);
        LUNA_CHECK(!taken.rejected.has_value()) << *taken.rejected;
        if (!taken.finished.has_value()) return false;
        run.ttft_ms.push_back(taken.finished->usage.ttft_ms);
        run.cached_tokens += taken.finished->usage.cached_tokens;
        return true;
      });
    }
  }

  const Arguments arguments_;
  std::unique_ptr<server::Instance> instance_;
  std::mt19937 random_{1};
};

void Print(const std::string& what, const Arguments& arguments, const Run& run) {
  const double tokens = static_cast<double>(arguments.sessions) * arguments.max_tokens;
  std::printf("| %s | %.1f | %.0f / %.0f | %.0f | %llu |\n", what.c_str(), run.charged_mib,
              run.Percentile(0.5), run.Percentile(0.99), tokens / run.seconds,
              static_cast<unsigned long long>(run.cached_tokens));
}

void Compare(const Arguments& arguments) {
  Bench shared(arguments, engine::PrefixSharing::kServer);
  Bench apart(arguments, engine::PrefixSharing::kSession);
  std::printf("%d sessions, a prompt of %d tokens in common, %d tokens each\n", arguments.sessions,
              arguments.prompt_tokens, arguments.max_tokens);
  std::printf("| | MiB charged | first token p50 / p99, ms | tokens/s | tokens found |\n");
  std::printf("|---|---|---|---|---|\n");
  for (int round = 0; round < 3; ++round) {
    for (const bool at_once : {true, false}) {
      const std::vector<std::vector<TokenId>> prompts = shared.ClassPrompts();
      const std::string when = at_once ? "at once" : "one after another";
      Print(when + ", shared", arguments, shared.Ask(prompts, at_once));
      Print(when + ", private", arguments, apart.Ask(prompts, at_once));
    }
    const auto [second, whole] = shared.SecondTurn();
    std::printf("| second turn %.1f ms, the same text anew %.1f ms | | | | |\n", second, whole);
  }
}

}  // namespace
}  // namespace luna

int main(int argc, char** argv) {
  if (argc < 2 || argc > 5) {
    std::fprintf(stderr,
                 "usage: luna-sharing-bench MODEL [SESSIONS [PROMPT_TOKENS [MAX_TOKENS]]]\n");
    return 2;
  }
  spdlog::set_level(spdlog::level::warn);
  luna::Arguments arguments;
  arguments.model = argv[1];
  if (argc > 2) arguments.sessions = std::stoi(argv[2]);
  if (argc > 3) arguments.prompt_tokens = std::stoi(argv[3]);
  if (argc > 4) arguments.max_tokens = std::stoi(argv[4]);
  luna::Compare(arguments);
}
