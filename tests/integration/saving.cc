#include "tests/integration/saving.h"

#include <gtest/gtest.h>

#include <chrono>

#include "absl/strings/str_cat.h"

namespace luna::integration {
namespace {

constexpr std::chrono::seconds kPatience(60);
constexpr size_t kMaxChunkBytes = 1 << 20;

std::vector<v1::SessionChunk> ReadChunks(Client& client, const v1::SaveSessionRequest& request,
                                         grpc::Status& status) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto reader = client.sessions->SaveSession(&context, request);
  std::vector<v1::SessionChunk> chunks;
  for (v1::SessionChunk chunk; reader->Read(&chunk);) chunks.push_back(chunk);
  status = reader->Finish();
  return chunks;
}

}  // namespace

grpc::Status Save(Client& client, const std::string& id, std::string& snapshot) {
  v1::SaveSessionRequest request;
  request.set_session_id(id);
  grpc::Status status;
  snapshot.clear();
  for (const v1::SessionChunk& chunk : ReadChunks(client, request, status)) {
    EXPECT_LT(chunk.data().size(), kMaxChunkBytes);
    EXPECT_EQ(chunk.name(), "");
    snapshot += chunk.data();
  }
  return status;
}

grpc::Status SaveAs(Client& client, const std::string& id, const std::string& name) {
  v1::SaveSessionRequest request;
  request.set_session_id(id);
  request.set_name(name);
  grpc::Status status;
  const std::vector<v1::SessionChunk> chunks = ReadChunks(client, request, status);
  EXPECT_EQ(chunks.size(), status.ok() ? 1u : 0u);
  for (const v1::SessionChunk& chunk : chunks) {
    EXPECT_EQ(chunk.name(), name);
    EXPECT_EQ(chunk.data(), "");
  }
  return status;
}

grpc::Status Restore(Client& client, const std::vector<v1::SessionChunk>& chunks,
                     v1::Session& session) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  const auto writer = client.sessions->RestoreSession(&context, &session);
  for (const v1::SessionChunk& chunk : chunks) {
    if (!writer->Write(chunk)) break;  // refused; the status says why
  }
  writer->WritesDone();
  return writer->Finish();
}

grpc::Status Restore(Client& client, const std::string& snapshot, v1::Session& session) {
  constexpr size_t kStep = 100;  // several of them
  std::vector<v1::SessionChunk> chunks;
  for (size_t at = 0; at < snapshot.size(); at += kStep) {
    chunks.emplace_back().set_data(snapshot.substr(at, kStep));
  }
  return Restore(client, chunks, session);
}

grpc::Status RestoreFrom(Client& client, const std::string& name, v1::Session& session) {
  v1::SessionChunk chunk;
  chunk.set_name(name);
  return Restore(client, std::vector<v1::SessionChunk>{chunk}, session);
}

v1::GenerateRequest SampledTurn(const std::string& id, const std::string& text, int max_tokens) {
  v1::GenerateRequest request = TextRequest(text, max_tokens);
  request.set_session_id(id);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_response_options()->set_logprobs(2);
  return request;
}

v1::GenerateResponse Speak(Client& client, const std::string& id, const std::string& text,
                           int max_tokens) {
  v1::GenerateResponse response;
  const grpc::Status status = Unary(client, SampledTurn(id, text, max_tokens), response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

std::string Words(const v1::GenerateResponse& response) {
  std::string words = absl::StrCat(response.seed(), " ", response.text());
  for (const uint32_t id : response.token_ids()) absl::StrAppend(&words, " ", id);
  for (const v1::TokenLogprobs& one : response.logprobs()) words += one.SerializeAsString();
  return words;
}

}  // namespace luna::integration
