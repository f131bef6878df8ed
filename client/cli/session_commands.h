// The parts of `luna sessions` that have files of their own.
#ifndef LUNA_CLIENT_CLI_SESSION_COMMANDS_H_
#define LUNA_CLIENT_CLI_SESSION_COMMANDS_H_

#include "client/cli/command.h"

namespace luna::cli {

void AddSessionFiles(Registry& registry, CLI::App* sessions);   // save, restore
void AddSessionLimits(Registry& registry, CLI::App* sessions);  // quota, evict

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_SESSION_COMMANDS_H_
