// luna top: what every session holds, live.
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "client/cli/command.h"
#include "client/cli/interrupts.h"
#include "client/cli/top_frame.h"
#include "client/client.h"
#include "client/json.h"
#include "client/term/keyboard.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

// Larger than any table: for output that nobody's terminal limits.
constexpr int kNoLimit = 1'000'000;

struct Options {
  std::string server;
  bool once = false;
  bool json = false;
  double interval_s = 1;
};

void PrintPlain(const v1::MemorySnapshot& snapshot, bool to_terminal, const term::Style& style) {
  const int columns = to_terminal ? term::TerminalSize().columns : kNoLimit;
  for (const auto& line : RenderTop(snapshot, {columns, kNoLimit}, style)) {
    std::cout << line << "\n";
  }
  std::cout << std::flush;
}

absl::Status Run(const Options& options) {
  Interrupts interrupts({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  client::Client client(client::Connect({options.server}));
  client::Cancellation cancellation;
  term::Screen screen;
  interrupts.Handle([&cancellation, &screen](int, int times) {
    cancellation.Cancel();
    if (times < 2) return;
    screen.GiveBack();
    _exit(1);
  });
  const bool to_terminal = isatty(STDOUT_FILENO) == 1;
  const bool live = to_terminal && !options.once && !options.json;
  std::optional<term::Keys> keys;
  if (live) {
    keys.emplace([&cancellation](char key) {
      if (key == 'q') cancellation.Cancel();
    });
  }
  const term::Style style(term::TerminalHasColors());
  const absl::Status status = client.WatchMemory(
      absl::Seconds(options.interval_s),
      [&](const v1::MemorySnapshot& snapshot) {
        if (options.json) {
          std::cout << client::Dump(client::ToJson(snapshot)) << std::flush;
        } else if (live) {
          screen.Draw(RenderTop(snapshot, term::TerminalSize(), style));
        } else {
          PrintPlain(snapshot, to_terminal, style);
          if (!options.once) std::cout << "\n";
        }
        return !options.once && std::cout.good();
      },
      &cancellation);
  interrupts.Handle(nullptr);
  return cancellation.cancelled() ? absl::OkStatus() : status;
}

}  // namespace

void AddTop(Registry& registry) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      registry.app.add_subcommand("top", "Sessions, cache and load, live; q ends it");
  AddServerOption(command, &options->server);
  command->add_flag("--once", options->once, "One table, then the end");
  command->add_flag("--json", options->json, "JSON instead of a table");
  command->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  registry.OnParsed(command, options, Run);
}

}  // namespace luna::cli
