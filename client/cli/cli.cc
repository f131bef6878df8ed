#include "client/cli/cli.h"

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "client/cli/command.h"
#include "client/status.h"

namespace luna::cli {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

// False where something that was printed did not get out: a full disk, a reader that has gone.
bool FlushOutput() {
  std::cout.flush();
  return std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
}

// What the parser says where no command was named although something was: the parser itself would
// only ask for one.
std::string WhatIsWrong(const CLI::App& app, const CLI::ParseError& error) {
  const bool incomplete = error.get_name() == "RequiredError";
  const std::vector<std::string> unknown = app.remaining(/*recurse=*/true);
  if (!incomplete || unknown.empty()) return "";
  const bool option = unknown.front().front() == '-';
  return "no " + std::string(option ? "option " : "command ") + unknown.front();
}

int Usage(const CLI::App& app, const CLI::ParseError& error) {
  const std::string wrong = WhatIsWrong(app, error);
  if (wrong.empty()) return app.exit(error) == 0 ? kDone : kWrongUsage;
  std::cerr << wrong << "\nRun with --help for more information.\n";
  return kWrongUsage;
}

int Execute(const Registry& registry) {
  const absl::Status status = registry.run();
  if (status.ok()) return kDone;
  // Where the output is what failed, the rest is only its consequence.
  if (!FlushOutput()) return kFailed;
  std::cerr << "luna: " << client::Describe(status) << "\n";
  if (absl::IsUnavailable(status)) {
    std::cerr << "  (--server HOST:PORT or LUNA_SERVER says where the server is)\n";
  }
  return kFailed;
}

}  // namespace

int RunCli(int argc, char** argv) {
  CLI::App app("Talks to a Luna server: write, chat, watch its memory, run a class, measure.",
               "luna");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  app.set_version_flag("--version", "luna " LUNA_VERSION);
  Registry registry{app, nullptr};
  AddGenerate(registry);
  AddChat(registry);
  AddSessions(registry);
  AddTop(registry);
  AddClassroom(registry);
  AddBench(registry);
  AddModel(registry);
  AddHealth(registry);
  AddAdmin(registry);
  int code = kDone;
  try {
    app.parse(argc, argv);
    code = Execute(registry);
  } catch (const CLI::ParseError& error) {
    code = Usage(app, error);
  }
  if (FlushOutput()) return code;
  std::cerr << "luna: cannot write to standard output\n";
  return kFailed;
}

}  // namespace luna::cli
