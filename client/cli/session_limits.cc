// luna sessions quota | evict: an operator's hand on what a session may hold, and on what it holds.
#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>

#include "client/cli/number.h"
#include "client/cli/session_commands.h"
#include "client/client.h"
#include "client/json.h"
#include "client/term/style.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

struct Options {
  std::string server;
  std::string id;
  std::optional<uint64_t> quota_bytes, guarantee_bytes;
  bool force = false;
  bool json = false;
};

absl::Status Quota(const Options& options) {
  client::Client client(client::Connect({options.server}));
  v1::SetQuotaRequest request;
  request.set_session_id(options.id);
  if (options.quota_bytes) request.set_quota_bytes(*options.quota_bytes);
  if (options.guarantee_bytes) request.set_guarantee_bytes(*options.guarantee_bytes);
  LUNA_ASSIGN_OR_RETURN(const v1::SetQuotaResponse now, client.SetQuota(request));
  if (options.json) {
    std::cout << client::Dump(
        {{"quota_bytes", now.quota_bytes()}, {"guarantee_bytes", now.guarantee_bytes()}});
  } else {
    std::cout << "guarantee " << term::Bytes(now.guarantee_bytes()) << ", quota "
              << term::Bytes(now.quota_bytes()) << "\n";
  }
  return absl::OkStatus();
}

absl::Status Evict(const Options& options) {
  client::Client client(client::Connect({options.server}));
  LUNA_ASSIGN_OR_RETURN(const v1::EvictSessionResponse now,
                        client.EvictSession(options.id, options.force));
  if (options.json) {
    std::cout << client::Dump(
        {{"evicted_bytes", now.evicted_bytes()}, {"charged_bytes", now.charged_bytes()}});
  } else {
    std::cout << term::Bytes(now.evicted_bytes()) << " evicted, "
              << term::Bytes(now.charged_bytes()) << " still held\n";
  }
  return absl::OkStatus();
}

}  // namespace

void AddSessionLimits(Registry& registry, CLI::App* sessions) {
  auto quota_options = std::make_shared<Options>();
  CLI::App* const quota =
      sessions->add_subcommand("quota", "For the operator: sets what a session may hold");
  AddServerOption(quota, &quota_options->server);
  quota->add_option("ID", quota_options->id, "The session's id, or its handle")->required();
  CLI::Option_group* const limits = quota->add_option_group("Limits");
  limits->add_option("--quota", quota_options->quota_bytes, "The most it may hold; as in 64M")
      ->transform(Bytes())
      ->type_name("BYTES");
  limits
      ->add_option("--guarantee", quota_options->guarantee_bytes,
                   "What is kept for it whatever others need; 0: nothing")
      ->transform(Bytes())
      ->type_name("BYTES");
  limits->require_option(1, 0);  // at least one
  quota->add_flag("--json", quota_options->json, "JSON instead of a line");
  registry.OnParsed(quota, quota_options, Quota);

  auto evict_options = std::make_shared<Options>();
  CLI::App* const evict = sessions->add_subcommand(
      "evict", "For the operator: drops a session's cache down to its guarantee; its words stay");
  AddServerOption(evict, &evict_options->server);
  evict->add_option("ID", evict_options->id, "The session's id, or its handle")->required();
  evict->add_flag("--force", evict_options->force, "What is guaranteed to it, too");
  evict->add_flag("--json", evict_options->json, "JSON instead of a line");
  registry.OnParsed(evict, evict_options, Evict);
}

}  // namespace luna::cli
