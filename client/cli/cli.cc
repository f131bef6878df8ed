#include "client/cli/cli.h"

#include <charconv>
#include <iostream>
#include <string>

#include "client/cli/command.h"
#include "client/status.h"

namespace luna::cli {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

// Empty if `address` is HOST:PORT, else what is wrong with it.
std::string CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  const char* const end = address.data() + address.size();
  const bool number = colon != std::string::npos &&
                      std::from_chars(address.data() + colon + 1, end, port).ptr == end &&
                      colon + 1 < address.size();
  if (!number || colon == 0 || port < 1 || port > 65535) {
    return "'" + address + "' is not HOST:PORT with a port from 1 to 65535";
  }
  return "";
}

}  // namespace

void AddServerOption(CLI::App* command, std::string* server) {
  *server = client::kDefaultServer;
  command->add_option("--server", *server, "Address of the server")
      ->envname("LUNA_SERVER")
      ->type_name("HOST:PORT")
      ->capture_default_str()
      ->check(CheckAddress, "");
}

int RunCli(int argc, char** argv) {
  CLI::App app("Talks to a Luna server: write, chat, watch its memory, run a class, measure.",
               "luna");
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
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
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kDone : kWrongUsage;
  }
  const absl::Status status = registry.run();
  if (status.ok()) return kDone;
  std::cerr << "luna: " << client::Describe(status) << "\n";
  if (absl::IsUnavailable(status)) {
    std::cerr << "  (--server HOST:PORT or LUNA_SERVER says where the server is)\n";
  }
  return kFailed;
}

}  // namespace luna::cli
