// What tests do with saved sessions.
#ifndef LUNA_TESTS_INTEGRATION_SAVING_H_
#define LUNA_TESTS_INTEGRATION_SAVING_H_

#include <string>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {

// Streamed to the client; every chunk stays below 1 MiB.
grpc::Status Save(Client& client, const std::string& id, std::string& snapshot);
grpc::Status SaveAs(Client& client, const std::string& id, const std::string& name);
grpc::Status Restore(Client& client, const std::vector<v1::SessionChunk>& chunks,
                     v1::Session& session);
grpc::Status Restore(Client& client, const std::string& snapshot, v1::Session& session);
grpc::Status RestoreFrom(Client& client, const std::string& name, v1::Session& session);

// One turn, with log-probabilities; the seed is the session's own.
v1::GenerateRequest SampledTurn(const std::string& id, const std::string& text,
                                int max_tokens = 24);
v1::GenerateResponse Speak(Client& client, const std::string& id, const std::string& text,
                           int max_tokens = 24);
// Everything that the model said, and the seed of it, as bytes.
std::string Words(const v1::GenerateResponse& response);

}  // namespace luna::integration

#endif  // LUNA_TESTS_INTEGRATION_SAVING_H_
