#include "server/rpc/inference_service.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "server/rpc/convert.h"
#include "server/rpc/generate_call.h"
#include "server/rpc/unary_call.h"

namespace luna::rpc {
namespace {

absl::StatusOr<v1::TokenizeResponse> Tokenize(const Serving& serving,
                                              const v1::TokenizeRequest& request) {
  LUNA_RETURN_IF_ERROR(CheckLength("text", request.text(), kMaxTokenizeBytes));
  const text::EncodeOptions options{.parse_special = request.parse_special(),
                                    .add_special = request.add_special()};
  const absl::StatusOr<std::vector<TokenId>> ids =
      serving.tokenizer->Encode(request.text(), options);
  if (!ids.ok()) return WithField(ids.status(), "text");
  v1::TokenizeResponse response;
  response.mutable_ids()->Assign(ids->begin(), ids->end());
  for (const TokenId id : *ids) {
    response.add_pieces(std::string(serving.tokenizer->TokenBytes(id, /*show_special=*/true)));
  }
  return response;
}

absl::StatusOr<v1::DetokenizeResponse> Detokenize(const Serving& serving,
                                                  const v1::DetokenizeRequest& request) {
  if (request.ids_size() > kMaxDetokenizeIds) {
    return InvalidField("ids",
                        absl::StrCat(request.ids_size(), " ids; the limit is ", kMaxDetokenizeIds));
  }
  LUNA_ASSIGN_OR_RETURN(const std::vector<TokenId> ids,
                        ToTokenIds(request.ids(), "ids", serving.tokenizer->vocab_size()));
  size_t bytes = 0;
  for (const TokenId id : ids) bytes += serving.tokenizer->TokenBytes(id, true).size();
  if (bytes > kMaxDetokenizedBytes) {
    return InvalidField(
        "ids", absl::StrCat("they spell ", bytes, " bytes; the limit is ", kMaxDetokenizedBytes));
  }
  v1::DetokenizeResponse response;
  response.set_text(serving.tokenizer->Decode(ids, /*show_special=*/true));
  return response;
}

// Answers on a worker with what `work` makes of the request.
template <typename Request, typename Response>
auto OnWorker(Host* host,
              absl::StatusOr<Response> (*work)(const Serving& serving, const Request& request)) {
  return [host, work](const Serving& serving, const Caller& caller, const Request& request,
                      Reply<Response> reply) {
    // Beside the caller's generations, not before them. The reply keeps the request alive.
    const bool queued = host->workers().Run(
        caller.name + " texts", request.ByteSizeLong(), [work, &serving, &request, reply] {
          if (reply.gone()) return reply(absl::CancelledError("the caller left"));
          reply(work(serving, request));
        });
    if (queued) return;
    reply(Host::WorkersAreBusy("texts wait for being tokenized"));
  };
}

void Abort(const Serving& serving, const Caller&, const v1::AbortRequest& request,
           Reply<v1::AbortResponse> reply) {
  serving.engine->Abort(request.generation_id(), request.keep_partial(),
                        reply.With<bool>([](bool was_live) {
                          v1::AbortResponse response;
                          response.set_was_live(was_live);
                          return response;
                        }));
}

void GetModel(const Serving& serving, const Caller&, const v1::GetModelRequest&,
              Reply<v1::GetModelResponse> reply) {
  reply(ToModelResponse(serving));
}

}  // namespace

void InferenceService::Listen() {
  using Service = v1::InferenceService::AsyncService;
  GenerateCall::Listen(host_, &service_);
  GenerateUnaryCall::Listen(host_, &service_);
  methods_ = {
      ServeUnary(host_, &service_, &Service::RequestAbort, Abort),
      ServeUnary(host_, &service_, &Service::RequestTokenize, OnWorker(host_, Tokenize)),
      ServeUnary(host_, &service_, &Service::RequestDetokenize, OnWorker(host_, Detokenize)),
      ServeUnary(host_, &service_, &Service::RequestGetModel, GetModel),
  };
}

}  // namespace luna::rpc
