#include "server/rpc/rpc_server.h"

#include <grpc/support/log.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server_builder.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace luna::rpc {
namespace {

// How long calls that are nobody's generation (a health watch, a slow list) may take to end.
constexpr absl::Duration kGrace = absl::Milliseconds(500);

constexpr int kMaxStreamsPerConnection = 1024;

// gRPC's own words, such as why a port cannot be had, belong into our log and not between its
// lines.
void Log(gpr_log_func_args* args) {
  const auto level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::debug : spdlog::level::trace;
  spdlog::log(level, "grpc: {}", args->message);
}

void SetArguments(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxReceiveBytes);
  builder.SetMaxSendMessageSize(kMaxSendBytes);
  // A compressed message is inflated before its size is known.
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  // Otherwise a second server on the same port would start and get every other connection.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // A classroom's Wi-Fi drops connections silently; between answers nothing is sent.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 30'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // Clients may ping every 10 s; what a timer or the network takes off that is no strike.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 9'000);
  // The only synchronous methods are reflection and what answers UNIMPLEMENTED.
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 2);
}

}  // namespace

RpcServer::RpcServer(std::unique_ptr<grpc::ServerCompletionQueue> queue)
    : host_(std::move(queue)), load_log_(std::make_shared<LoadLog>(&host_)) {}

RpcServer::~RpcServer() { Stop(); }

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(const std::string& address) {
  gpr_set_log_function(Log);
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  SetArguments(builder);
  std::unique_ptr<RpcServer> rpc(new RpcServer(builder.AddCompletionQueue()));
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &rpc->port_);
  builder.RegisterService(rpc->inference_.service());
  builder.RegisterService(rpc->sessions_.service());
  builder.RegisterService(rpc->monitor_.service());
  builder.RegisterService(rpc->admin_.service());
  rpc->server_ = builder.BuildAndStart();
  if (rpc->server_ == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address,
                                               ": it is in use, or no address of this machine"));
  }
  rpc->SetServing(false);
  rpc->host_.loop().Start();
  rpc->inference_.Listen();
  rpc->sessions_.Listen();
  rpc->monitor_.Listen();
  rpc->admin_.Listen();
  return rpc;
}

void RpcServer::SetServing(bool serving) {
  grpc::HealthCheckServiceInterface* health = server_->GetHealthCheckService();
  health->SetServingStatus("", serving);
  for (const char* service :
       {v1::InferenceService::service_full_name(), v1::SessionService::service_full_name(),
        v1::MonitorService::service_full_name(), v1::AdminService::service_full_name()}) {
    health->SetServingStatus(service, serving);
  }
}

void RpcServer::Serve(const Serving* serving) {
  host_.Serve(serving);
  host_.loop().RunAndWait([this] { load_log_->Start(); });
  SetServing(true);
}

void RpcServer::BeginDrain() {
  host_.SetDraining();
  SetServing(false);
}

void RpcServer::Stop() {
  if (stopped_) return;
  stopped_ = true;
  if (server_ != nullptr) {
    BeginDrain();
    // What the engine ended just now is on its way to the readers.
    host_.generations().WaitUntilNone(absl::Now() + kGrace);
    host_.loop().RunAndWait([this] {
      load_log_->Stop();
      monitor_.StopWatches();
    });
    server_->Shutdown(absl::ToChronoTime(absl::Now() + kGrace));
    // Calls that gRPC matched before that have begun when this has run; then all of them end.
    host_.loop().RunAndWait([] {});
    host_.workers().Stop();
    host_.calls().WaitUntilNone(absl::InfiniteFuture());
  }
  host_.workers().Stop();
  host_.loop().Shutdown();
}

}  // namespace luna::rpc
