// luna sessions list | show | close.
#include <iostream>
#include <memory>

#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/top_frame.h"
#include "client/client.h"
#include "client/json.h"
#include "client/term/style.h"
#include "client/term/width.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

struct Options {
  std::string server;
  std::string id;
  bool json = false;
};

absl::Status List(const Options& options) {
  client::Client client(client::Connect({options.server}));
  LUNA_ASSIGN_OR_RETURN(const auto sessions, client.ListSessions());
  if (options.json) {
    client::Json json = client::Json::array();
    for (const v1::Session& session : sessions) json.push_back(client::ToJson(session));
    std::cout << client::Dump({{"sessions", json}});
    return absl::OkStatus();
  }
  const term::Style style(term::TerminalHasColors());
  // Ids are there to be copied: lines are never cut for a narrow terminal.
  for (const auto& line : RenderSessions(sessions, 80, style)) std::cout << line << "\n";
  return absl::OkStatus();
}

void Print(const v1::Session& session, const v1::SessionMemory& memory) {
  const auto row = [](const char* name, const std::string& value) {
    std::cout << term::Fit(name, 14) << value << "\n";
  };
  row("id", session.id());
  row("label", term::OneLine(session.label()));
  row("state", std::string(client::Name(session.state())));
  row("turn", absl::StrFormat("%d (%d dropped)", session.turn(), session.dropped_turns()));
  row("tokens",
      absl::StrFormat("%d, %d left of the context", session.tokens(), session.context_left()));
  row("policy", std::string(client::Name(session.context_policy())));
  if (!session.system().empty()) row("system", term::OneLine(session.system()));
  row("cache", absl::StrFormat("%d blocks, %s charged, %s used, peak %s",
                               memory.private_blocks() + memory.shared_blocks(),
                               term::Bytes(memory.charged_bytes()),
                               term::Bytes(memory.used_bytes()), term::Bytes(memory.peak_bytes())));
  row("limits", absl::StrFormat("guarantee %s, quota %s", term::Bytes(session.guarantee_bytes()),
                                term::Bytes(session.quota_bytes())));
  row("evicted", absl::StrFormat("%d times, %d tokens recomputed", memory.evictions(),
                                 memory.recomputed_tokens()));
  if (!session.last_text().empty()) {
    std::cout << "last text\n" << term::WithoutControls(session.last_text()) << "\n";
  }
}

absl::Status Show(const Options& options) {
  client::Client client(client::Connect({options.server}));
  LUNA_ASSIGN_OR_RETURN(const v1::Session session, client.GetSession(options.id));
  LUNA_ASSIGN_OR_RETURN(const v1::SessionMemory memory, client.GetSessionMemory(options.id));
  if (options.json) {
    client::Json json = client::ToJson(session);
    json["memory"] = client::ToJson(memory);
    std::cout << client::Dump(json);
  } else {
    Print(session, memory);
  }
  return absl::OkStatus();
}

absl::Status Close(const Options& options) {
  client::Client client(client::Connect({options.server}));
  return client.CloseSession(options.id);
}

}  // namespace

void AddSessions(Registry& registry) {
  CLI::App* const sessions =
      registry.app.add_subcommand("sessions", "Lists, shows and closes sessions of yours");
  sessions->require_subcommand(1);

  auto list_options = std::make_shared<Options>();
  CLI::App* const list = sessions->add_subcommand("list", "Sessions made from this machine");
  AddServerOption(list, &list_options->server);
  list->add_flag("--json", list_options->json, "JSON instead of a table");
  registry.OnParsed(list, list_options, List);

  auto show_options = std::make_shared<Options>();
  CLI::App* const show = sessions->add_subcommand("show", "One session and what it holds");
  AddServerOption(show, &show_options->server);
  show->add_option("ID", show_options->id, "The session's id")->required();
  show->add_flag("--json", show_options->json, "JSON instead of lines");
  registry.OnParsed(show, show_options, Show);

  auto close_options = std::make_shared<Options>();
  CLI::App* const close =
      sessions->add_subcommand("close", "Ends what is live in it and frees everything");
  AddServerOption(close, &close_options->server);
  close->add_option("ID", close_options->id, "The session's id")->required();
  registry.OnParsed(close, close_options, Close);
}

}  // namespace luna::cli
