// The luna command line: parses it and runs the one command it names.
#ifndef LUNA_CLIENT_CLI_CLI_H_
#define LUNA_CLIENT_CLI_CLI_H_

namespace luna::cli {

// 0: done; 1: failed, with the reason on standard error; 2: wrong usage.
int RunCli(int argc, char** argv);

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_CLI_H_
