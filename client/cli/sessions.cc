// luna sessions list | show | fork | close; the others are added from files of their own.
#include <iostream>
#include <memory>
#include <optional>

#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/number.h"
#include "client/cli/session_commands.h"
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
  std::optional<uint32_t> at_turn;
  std::string label;
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
  if (session.other_numerics()) {
    row("numerics", "others than those it was saved under: its next words may differ");
  }
  row("cache", absl::StrFormat("%d blocks (%d shared), %s charged, %s used, peak %s",
                               memory.private_blocks() + memory.shared_blocks(),
                               memory.shared_blocks(), term::Bytes(memory.charged_bytes()),
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

absl::Status Fork(const Options& options) {
  client::Client client(client::Connect({options.server}));
  v1::ForkSessionRequest request;
  request.set_session_id(options.id);
  if (options.at_turn) request.set_at_turn(*options.at_turn);
  request.set_label(options.label);
  LUNA_ASSIGN_OR_RETURN(const v1::Session session, client.ForkSession(request));
  std::cout << (options.json ? client::Dump(client::ToJson(session)) : session.id() + "\n");
  return absl::OkStatus();
}

absl::Status Close(const Options& options) {
  client::Client client(client::Connect({options.server}));
  return client.CloseSession(options.id);
}

}  // namespace

void AddSessions(Registry& registry) {
  CLI::App* const sessions =
      registry.app.add_subcommand("sessions", "Sessions: what they hold, forks, snapshots, limits");
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

  auto fork_options = std::make_shared<Options>();
  CLI::App* const fork =
      sessions->add_subcommand("fork", "A new session that goes on from this one; prints its id");
  AddServerOption(fork, &fork_options->server);
  fork->add_option("ID", fork_options->id, "The session's id")->required();
  fork->add_option("--at-turn", fork_options->at_turn,
                   "After its first N turns; unset: all of them")
      ->transform(Whole<uint32_t>())
      ->type_name("N");
  fork->add_option("--label", fork_options->label, "Of the new session; unset: the old one's");
  fork->add_flag("--json", fork_options->json, "The new session as JSON instead of its id");
  registry.OnParsed(fork, fork_options, Fork);

  AddSessionFiles(registry, sessions);
  AddSessionLimits(registry, sessions);

  auto close_options = std::make_shared<Options>();
  CLI::App* const close =
      sessions->add_subcommand("close", "Ends what is live in it and frees everything");
  AddServerOption(close, &close_options->server);
  close->add_option("ID", close_options->id, "The session's id")->required();
  registry.OnParsed(close, close_options, Close);
}

}  // namespace luna::cli
