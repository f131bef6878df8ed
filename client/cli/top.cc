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
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

// More rows than there can be sessions: for output that scrolls.
constexpr int kAllRows = 1'000'000;

struct Options {
  std::string server;
  bool once = false;
  bool json = false;
  double interval_s = 1;
};

void PrintPlain(const v1::MemorySnapshot& snapshot, const term::Style& style) {
  for (const auto& line : RenderTop(snapshot, {term::TerminalSize().columns, kAllRows}, style)) {
    std::cout << line << "\n";
  }
  std::cout << std::flush;
}

absl::Status Run(const Options& options) {
  Interrupts interrupts({SIGINT, SIGTERM});
  client::Client client(client::Connect({options.server}));
  client::Cancellation cancellation;
  interrupts.Handle([&cancellation](int times) {
    if (times > 1) _exit(1);
    cancellation.Cancel();
  });
  const bool live = isatty(STDOUT_FILENO) == 1 && !options.once && !options.json;
  const term::Style style(term::TerminalHasColors());
  std::optional<term::Screen> screen;
  const absl::Status status = client.WatchMemory(
      absl::Seconds(options.interval_s),
      [&](const v1::MemorySnapshot& snapshot) {
        if (options.json) {
          std::cout << client::Dump(client::ToJson(snapshot)) << std::flush;
        } else if (live) {
          if (!screen.has_value()) screen.emplace();
          screen->Draw(RenderTop(snapshot, term::TerminalSize(), style));
        } else {
          PrintPlain(snapshot, style);
          if (!options.once) std::cout << "\n";
        }
        return !options.once;
      },
      &cancellation);
  interrupts.Handle(nullptr);
  screen.reset();
  return cancellation.cancelled() ? absl::OkStatus() : status;
}

}  // namespace

void AddTop(Registry& registry) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      registry.app.add_subcommand("top", "Sessions, cache and load, live; Ctrl-C ends it");
  AddServerOption(command, &options->server);
  command->add_flag("--once", options->once, "One table, then the end");
  command->add_flag("--json", options->json, "JSON instead of a table");
  command->add_option("--interval", options->interval_s, "Seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  registry.OnParsed(command, options, Run);
}

}  // namespace luna::cli
