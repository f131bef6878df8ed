// luna-server: parses its flags, listens, loads the model, serves until it is told to stop.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdio>
#include <string>
#include <variant>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "server/instance.h"
#include "server/listen_address.h"
#include "server/options.h"
#include "server/rpc/rpc_server.h"
#include "server/signals.h"

namespace luna::server {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

void SetUpLog(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("luna");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
  logger->set_level(spdlog::level::from_str(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

int Complain(const absl::Status& status, int code) {
  std::fprintf(stderr, "luna-server: %s\n", std::string(status.message()).c_str());
  return code;
}

// Tells the teacher what to write on the board.
void LogReachableAddresses(const ListenAddress& listen) {
  if (listen.IsLoopback()) return;
  if (!listen.IsAny()) {
    spdlog::info("a class reaches it at {}", listen.ToString());
    return;
  }
  for (const std::string& host : ReachableHosts()) {
    spdlog::info("a class reaches it at {}",
                 ListenAddress{.host = host, .port = listen.port}.ToString());
  }
}

void Drain(rpc::RpcServer& rpc, Instance& instance, absl::Duration timeout) {
  rpc.BeginDrain();
  instance.engine().Drain([](absl::StatusOr<uint32_t> live) {
    if (live.ok()) spdlog::info("draining: {} generations are live", *live);
  });
  if (!rpc.WaitUntilDrained(absl::Now() + timeout)) {
    spdlog::warn("some generations are still live after {}; they end now",
                 absl::FormatDuration(timeout));
  }
}

int Serve(const Options& options) {
  StopSignals signals;
  auto rpc = rpc::RpcServer::Start(options.listen.ToString());
  if (!rpc.ok()) return Complain(rpc.status(), kFailed);
  ListenAddress listen = options.listen;
  listen.port = (*rpc)->port();

  auto instance = Instance::Load(options, [server = rpc->get()] { server->OnPublished(); });
  if (!instance.ok()) {
    // A flag whose limit only the model knows begins the message; anything else is the model's
    // fault.
    const bool names_flag = absl::StartsWith(instance.status().message(), "--");
    return Complain(instance.status(), names_flag ? kWrongUsage : kFailed);
  }
  (*rpc)->Serve(&(*instance)->serving());
  LogReachableAddresses(listen);
  signals.Arm();
  std::printf("ready grpc=%s model=%s\n", listen.ToString().c_str(),
              (*instance)->serving().name.c_str());
  std::fflush(stdout);

  const int signal = signals.Wait();
  spdlog::info("signal {}: draining; a second one ends at once", signal);
  Drain(**rpc, **instance, options.drain_timeout);
  (*instance)->Stop();
  (*rpc)->Stop();
  spdlog::info("stopped");
  return 0;
}

int Main(int argc, char** argv) {
  const absl::StatusOr<Parsed> parsed = ParseOptions(argc, argv);
  if (!parsed.ok()) return Complain(parsed.status(), kWrongUsage);
  if (const std::string* text = std::get_if<std::string>(&*parsed)) {
    std::fputs(text->c_str(), stdout);
    return 0;
  }
  const Options& options = std::get<Options>(*parsed);
  SetUpLog(options.log_level);
  return Serve(options);
}

}  // namespace
}  // namespace luna::server

int main(int argc, char** argv) { return luna::server::Main(argc, argv); }
