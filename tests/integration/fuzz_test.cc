// Every method of every service, sent what reflection can make of its request.
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/temp_dir.h"
#include "tests/integration/chat_model.h"
#include "tests/integration/test_server.h"
#include "tests/integration/wild_messages.h"

namespace luna::integration {
namespace {

using Code = grpc::StatusCode;
using google::protobuf::MethodDescriptor;

constexpr int kThreads = 4;
constexpr int kRounds = 30;  // of every method, in each thread

struct Outcome {
  grpc::Status status;
  std::vector<std::string> answers;
};

std::string ToString(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// Sends `bytes` as the one request of a call and takes at most `most_answers`.
Outcome CallRaw(Client& client, const std::string& path, const std::string& bytes,
                size_t most_answers) {
  grpc::GenericStub stub(client.channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  grpc::CompletionQueue queue;
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, path, &queue);
  call->StartCall(nullptr);
  wait();
  const grpc::Slice slice(bytes);
  call->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
  wait();  // not if it was refused before
  Outcome outcome;
  grpc::ByteBuffer answer;
  for (call->Read(&answer, nullptr); wait(); call->Read(&answer, nullptr)) {
    outcome.answers.push_back(ToString(answer));
    if (outcome.answers.size() == most_answers) context.TryCancel();
  }
  call->Finish(&outcome.status, nullptr);
  wait();
  queue.Shutdown();
  return outcome;
}

bool Parses(const MethodDescriptor* method, const std::string& bytes) {
  const std::unique_ptr<google::protobuf::Message> message(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(method->input_type())
          ->New());
  return message->ParseFromString(bytes);
}

std::vector<const MethodDescriptor*> Methods() {
  std::vector<const MethodDescriptor*> methods;
  for (const auto* any : {v1::GenerateRequest::descriptor(), v1::Session::descriptor(),
                          v1::PoolMemory::descriptor(), v1::DrainRequest::descriptor()}) {
    for (int s = 0; s < any->file()->service_count(); ++s) {
      const google::protobuf::ServiceDescriptor* service = any->file()->service(s);
      for (int m = 0; m < service->method_count(); ++m) methods.push_back(service->method(m));
    }
  }
  return methods;
}

std::string PathOf(const MethodDescriptor* method) {
  return "/" + method->service()->full_name() + "/" + method->name();
}

void ExpectDocumented(const MethodDescriptor* method, const std::string& bytes,
                      const grpc::Status& status) {
  const Code code = status.error_code();
  // gRPC's own words, before anybody of ours is asked.
  if (bytes.size() > size_t{4} << 20) {
    EXPECT_EQ(code, Code::RESOURCE_EXHAUSTED) << PathOf(method);
    return;
  }
  if (!Parses(method, bytes)) {
    // To who reads a stream it is the stream's end.
    const bool ended = method->client_streaming() && code == Code::INVALID_ARGUMENT;
    EXPECT_TRUE(code == Code::INTERNAL || code == Code::UNIMPLEMENTED || ended)
        << PathOf(method) << ": " << code << " " << status.error_message();
    return;
  }
  static const std::set<Code> kDocumented = {
      Code::OK,        Code::INVALID_ARGUMENT,   Code::OUT_OF_RANGE,
      Code::NOT_FOUND, Code::ALREADY_EXISTS,     Code::FAILED_PRECONDITION,
      Code::ABORTED,   Code::RESOURCE_EXHAUSTED, Code::UNIMPLEMENTED,
      Code::DATA_LOSS};
  const bool watched = method->name() == "WatchMemory" && code == Code::CANCELLED;
  EXPECT_TRUE(watched || kDocumented.contains(code))
      << PathOf(method) << ": " << code << " " << status.error_message();
  if (!status.ok() && !watched) ExpectDetails(status);
}

// One client, with sessions of its own.
class Fuzzer {
 public:
  Fuzzer(const std::string& address, const WildContract* contract, uint32_t seed)
      : client_(address), messages_(contract, seed) {}

  void Run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (const MethodDescriptor* method : Methods()) {
        if (method->name() != "Drain") Send(method);
      }
    }
    for (const std::string& id : messages_.known("session_id")) {
      v1::CloseSessionRequest close;
      close.set_session_id(id);
      v1::CloseSessionResponse closed;
      Call(client_.sessions, &v1::SessionService::Stub::CloseSession, close, closed);
    }
  }

  // How often each method came to each code.
  std::map<std::string, std::map<Code, int>> codes;

 private:
  void Send(const MethodDescriptor* method) {
    const std::string bytes = messages_.Next(method->input_type()->full_name());
    const Outcome outcome =
        CallRaw(client_, PathOf(method), bytes, method->name() == "WatchMemory" ? 1 : 10'000);
    ExpectDocumented(method, bytes, outcome.status);
    ++codes[method->name()][outcome.status.error_code()];
    if (outcome.answers.empty()) return;
    static const std::set<std::string> kOpening = {"CreateSession", "ForkSession",
                                                   "RestoreSession"};
    if (kOpening.contains(method->name())) {
      v1::Session session;
      EXPECT_TRUE(session.ParseFromString(outcome.answers.front()));
      messages_.Remember("session_id", session.id());
    } else if (method->name() == "SaveSession") {
      v1::SessionChunk chunk;
      EXPECT_TRUE(chunk.ParseFromString(outcome.answers.front()));
      if (!chunk.data().empty()) messages_.Remember("data", chunk.data());
    } else if (method->name() == "Generate") {
      v1::GenerateEvent event;
      EXPECT_TRUE(event.ParseFromString(outcome.answers.front()));
      messages_.Remember("generation_id", event.accepted().generation_id());
    }
  }

  Client client_;
  WildMessages messages_;
};

TEST(FuzzTest, EveryMethodTakesWhateverComes) {
  const google::protobuf::LogSilencer of_what_does_not_parse;
  const TempDir directory;
  WriteChatModel(directory.path());
  server::Options options = OptionsFor(directory.path());
  options.state_dir = directory.path() + "/state";
  options.autosave = true;
  TestServer server(options);
  const WildContract contract;
  std::vector<std::unique_ptr<Fuzzer>> fuzzers;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    fuzzers.push_back(std::make_unique<Fuzzer>(server.AddressAt("127.0.0.1"), &contract, i));
    threads.emplace_back([fuzzer = fuzzers.back().get()] { fuzzer->Run(kRounds); });
  }
  for (std::thread& thread : threads) thread.join();

  // Nothing was tried where nothing got through, or everything did.
  std::map<std::string, std::map<Code, int>> codes;
  for (const auto& fuzzer : fuzzers) {
    for (const auto& [method, counts] : fuzzer->codes) {
      for (const auto& [code, count] : counts) codes[method][code] += count;
    }
  }
  EXPECT_EQ(codes.size(), Methods().size() - 1);
  for (const char* method : {"Generate", "GenerateUnary", "CreateSession", "Tokenize"}) {
    EXPECT_GT(codes[method][Code::OK], kRounds / 4) << method;
    EXPECT_GT(codes[method][Code::INVALID_ARGUMENT] + codes[method][Code::INTERNAL], 2) << method;
  }
  for (const char* method : {"UpdateSession", "GetSession", "CloseSession", "ResetSession",
                             "ForkSession", "SaveSession", "RestoreSession"}) {
    EXPECT_GT(codes[method][Code::OK], 0) << method;
    EXPECT_GT(codes[method][Code::NOT_FOUND], 0) << method;
  }

  Client& client = server.client();
  EXPECT_EQ(Health(client), grpc::health::v1::HealthCheckResponse::SERVING);
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client, TextRequest("a", 4), response).ok());
  const v1::MemorySnapshot idle = WaitFor(client, IsIdle);
  EXPECT_EQ(idle.sessions_size(), 0);
  EXPECT_EQ(idle.pool().charged_blocks(), 0u);
  ExpectInvariants(client);
  EXPECT_TRUE(CallRaw(client, "/luna.v1.AdminService/Drain", "\x0A\x01x", 2).status.ok());
}

}  // namespace
}  // namespace luna::integration
