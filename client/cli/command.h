// What every command of `luna` is made of. A command registers itself with an Add... function: its
// options, and what to run when it is the one that was named.
#ifndef LUNA_CLIENT_CLI_COMMAND_H_
#define LUNA_CLIENT_CLI_COMMAND_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/channel.h"

namespace luna::cli {

struct Registry {
  CLI::App& app;
  // Of the command that was named; an error is printed and becomes exit code 1.
  std::function<absl::Status()> run;

  // Options live until the program ends, so they are kept by the callback. `run` gets them parsed.
  template <typename Options>
  void OnParsed(CLI::App* command, std::shared_ptr<Options> options,
                absl::Status (*function)(const Options&)) {
    command->callback(
        [this, options, function] { run = [options, function] { return function(*options); }; });
  }
};

// --server HOST:PORT, checked, else LUNA_SERVER, else the default.
void AddServerOption(CLI::App* command, std::string* server);

void AddAdmin(Registry& registry);
void AddBench(Registry& registry);
void AddChat(Registry& registry);
void AddClassroom(Registry& registry);
void AddGenerate(Registry& registry);
void AddHealth(Registry& registry);
void AddModel(Registry& registry);
void AddSessions(Registry& registry);
void AddTop(Registry& registry);

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_COMMAND_H_
