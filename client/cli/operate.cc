// luna model, health and admin: what is served, whether it is well, and its operator's two buttons.
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/client.h"
#include "client/json.h"
#include "client/term/style.h"
#include "client/term/width.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

struct Options {
  std::string server;
  std::string service;
  bool json = false;
};

absl::Status Model(const Options& options) {
  client::Client client(client::Connect({options.server}));
  LUNA_ASSIGN_OR_RETURN(const v1::GetModelResponse model, client.GetModel());
  if (options.json) {
    std::cout << client::Dump(client::ToJson(model));
    return absl::OkStatus();
  }
  const auto row = [](const char* name, const std::string& value) {
    std::cout << term::Fit(name, 14) << term::OneLine(value) << "\n";
  };
  row("name", model.name());
  row("architecture", absl::StrFormat("%s, %d layers, width %d, %d heads over %d KV heads",
                                      model.architecture(), model.num_layers(), model.hidden_size(),
                                      model.num_heads(), model.num_kv_heads()));
  row("source", model.source());
  row("weights", term::Bytes(model.weights_bytes()));
  row("vocabulary", absl::StrCat(term::WithCommas(model.vocab_size()), ", ends at ",
                                 absl::StrJoin(model.end_ids(), ", ")));
  row("context", absl::StrCat(term::WithCommas(model.context_length()), " tokens, ",
                              term::WithCommas(model.kv_bytes_per_token()), " B of cache each"));
  row("chat", model.has_chat_template() ? model.chat_family() : "no template: continues text");
  if (!model.default_system().empty()) row("system", model.default_system());
  row("backend", absl::StrCat(model.backend(), ", ", model.numerics()));
  row("digest", model.digest());
  row("server", model.server_version());
  return absl::OkStatus();
}

absl::Status Health(const Options& options) {
  client::Client client(client::Connect({options.server}));
  LUNA_RETURN_IF_ERROR(client.CheckHealth(options.service));
  std::cout << "SERVING\n";
  return absl::OkStatus();
}

absl::Status Check(const Options& options) {
  client::Client client(client::Connect({options.server}));
  LUNA_ASSIGN_OR_RETURN(const auto check, client.CheckInvariants());
  if (options.json) {
    client::Json differences = client::Json::array();
    for (const auto& difference : check.differences()) differences.push_back(difference);
    std::cout << client::Dump(
        {{"ok", check.ok()}, {"tick", check.tick()}, {"differences", differences}});
  } else {
    std::cout << (check.ok() ? "every block is accounted for" : "the ledger is wrong")
              << " at tick " << check.tick() << "\n";
    for (const auto& difference : check.differences()) std::cout << "  " << difference << "\n";
  }
  if (check.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(check.differences_size(), " differences in the ledger"));
}

absl::Status Drain(const Options& options) {
  client::Client client(client::Connect({options.server}));
  LUNA_ASSIGN_OR_RETURN(const uint32_t live, client.Drain());
  if (options.json) {
    std::cout << client::Dump({{"live_generations", live}});
  } else {
    std::cout << "draining; " << live << " live\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddModel(Registry& registry) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = registry.app.add_subcommand("model", "What the server serves");
  AddServerOption(command, &options->server);
  command->add_flag("--json", options->json, "JSON instead of lines");
  registry.OnParsed(command, options, Model);
}

void AddHealth(Registry& registry) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      registry.app.add_subcommand("health", "Exit code 0 when the server is serving");
  AddServerOption(command, &options->server);
  command->add_option("--service", options->service,
                      "Full name of one service, as luna.v1.InferenceService");
  registry.OnParsed(command, options, Health);
}

void AddAdmin(Registry& registry) {
  CLI::App* const admin = registry.app.add_subcommand("admin", "For the server's operator");
  admin->require_subcommand(1);

  auto check_options = std::make_shared<Options>();
  CLI::App* const check =
      admin->add_subcommand("check", "Recounts every block; exit code 1 where something differs");
  AddServerOption(check, &check_options->server);
  check->add_flag("--json", check_options->json, "JSON instead of lines");
  registry.OnParsed(check, check_options, Check);

  auto drain_options = std::make_shared<Options>();
  CLI::App* const drain =
      admin->add_subcommand("drain", "Nothing new is taken; what is live finishes");
  AddServerOption(drain, &drain_options->server);
  drain->add_flag("--json", drain_options->json, "JSON instead of a line");
  registry.OnParsed(drain, drain_options, Drain);
}

}  // namespace luna::cli
