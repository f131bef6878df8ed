#include "server/rpc/monitor_service.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/status_details.h"
#include "server/rpc/convert.h"
#include "server/rpc/status.h"
#include "server/rpc/unary_call.h"

namespace luna::rpc {
namespace {

using engine::Snapshot;

void GetPool(const Serving& serving, const Caller&, const v1::GetPoolRequest&,
             Reply<v1::PoolMemory> reply) {
  serving.engine->TakeSnapshot(reply.With<Snapshot>(ToPool));
}

void GetLoad(const Serving& serving, const Caller&, const v1::GetLoadRequest&,
             Reply<v1::Load> reply) {
  serving.engine->TakeSnapshot(reply.With<Snapshot>(ToLoad));
}

void GetSessionMemory(const Serving& serving, const Caller& caller,
                      const v1::GetSessionMemoryRequest& request, Reply<v1::SessionMemory> reply) {
  serving.engine->TakeSnapshot(
      reply.With<Snapshot>([caller = caller.name, id = request.session_id()](
                               const Snapshot& snapshot) -> absl::StatusOr<v1::SessionMemory> {
        for (const engine::SessionMemory& memory : snapshot.sessions) {
          if (memory.key == id || Handle(memory.id) == id) return ToProto(memory, caller);
        }
        return WithField(absl::NotFoundError("no session has this id or handle"), "session_id");
      }));
}

}  // namespace

grpc::Status MonitorService::Service::EstimateCapacity(grpc::ServerContext*,
                                                       const v1::EstimateCapacityRequest*,
                                                       v1::EstimateCapacityResponse*) {
  return ToGrpc(absl::UnimplementedError("EstimateCapacity is not offered by this server"));
}

void MonitorService::Listen() {
  watch_.snapshots = &snapshots_;
  methods_ = {
      ServeUnary(host_, &service_, &Service::RequestGetPool, GetPool),
      ServeUnary(host_, &service_, &Service::RequestGetSessionMemory, GetSessionMemory),
      ServeUnary(host_, &service_, &Service::RequestGetLoad, GetLoad),
  };
  watch_.next = [this](grpc::ServerContext* context, v1::WatchMemoryRequest* request,
                       grpc::ServerAsyncWriter<v1::MemorySnapshot>* writer, void* tag) {
    grpc::ServerCompletionQueue* queue = host_->loop().queue();
    service_.RequestWatchMemory(context, request, writer, queue, queue, tag);
  };
  watch_.began = [this](std::shared_ptr<WatchCall> call) {
    std::erase_if(watches_, [](const auto& watch) { return watch.expired(); });
    watches_.push_back(std::move(call));
  };
  WatchCall::Listen(host_, &watch_);
}

void MonitorService::StopWatches() {
  for (const std::weak_ptr<WatchCall>& watch : watches_) {
    if (const std::shared_ptr<WatchCall> call = watch.lock()) call->Stop();
  }
  watches_.clear();
}

}  // namespace luna::rpc
