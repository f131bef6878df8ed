// What one client's flood costs another's answer: counted in calls that went before it, not in
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

// Keeps `in_flight` calls of one method open on a connection of its own, until it is destroyed.
template <typename Response>
class Flood {
 public:
  using Reader = grpc::ClientAsyncResponseReader<Response>;
  using Start =
      std::function<std::unique_ptr<Reader>(Client&, grpc::ClientContext*, grpc::CompletionQueue*)>;

  Flood(const std::string& address, int in_flight, Start start)
      : client_(address), start_(std::move(start)), calls_(in_flight) {
    for (Call& call : calls_) Send(call);
    thread_ = std::thread([this] { Run(); });
  }
  ~Flood() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    thread_.join();
  }

  // How many were answered so far, once there are at least as many.
  int Answered(int at_least = 0) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return answered_ >= at_least; });
    return answered_;
  }

 private:
  struct Call {
    std::unique_ptr<grpc::ClientContext> context;
    std::unique_ptr<Reader> reader;
    Response response;
    grpc::Status status;
  };

  void Send(Call& call) {
    call.context = std::make_unique<grpc::ClientContext>();
    call.reader = start_(client_, call.context.get(), &queue_);
    call.reader->Finish(&call.response, &call.status, &call);
  }

  void Run() {
    size_t live = calls_.size();
    void* tag = nullptr;
    bool ok = false;
    while (live > 0 && queue_.Next(&tag, &ok)) {
      Call& call = *static_cast<Call*>(tag);
      EXPECT_TRUE(call.status.ok()) << call.status.error_message();
      std::lock_guard lock(mutex_);
      ++answered_;
      changed_.notify_all();
      if (stopping_) {
        --live;
      } else {
        Send(call);
      }
    }
    queue_.Shutdown();
    while (queue_.Next(&tag, &ok)) {
    }
  }

  Client client_;
  const Start start_;
  grpc::CompletionQueue queue_;
  std::vector<Call> calls_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int answered_ = 0;       // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

// The most calls of the flood that were answered between a request and its first token, of a few.
template <typename Response>
int MostBefore(TestServer& server, Flood<Response>& flood, int in_flight) {
  int most = 0;
  for (int round = 0; round < 3; ++round) {
    // All of them wait, or are being answered.
    const int before = flood.Answered((round + 1) * in_flight);
    Stream stream(server.client(), TextRequest("Once upon a time", 1));
    EXPECT_TRUE(stream.ReadUntil(v1::GenerateEvent::kDelta));
    most = std::max(most, flood.Answered() - before);
    EXPECT_TRUE(stream.Finish().ok());
  }
  return most;
}

// Texts of the largest size. In one line they would all be answered first.
TEST(FairnessTest, AFloodOfTextsDoesNotHoldUpAnAnswer) {
  constexpr int kInFlight = 64;
  TestServer server(OptionsFor(kTinyModel));
  v1::TokenizeRequest request;
  while (request.text().size() < 128 * 1024 - 16) *request.mutable_text() += "Once upon a time";
  Flood<v1::TokenizeResponse> flood(
      server.AddressAt("127.0.0.1"), kInFlight, [&](Client& client, auto* context, auto* queue) {
        return client.inference->AsyncTokenize(context, request, queue);
      });
  const int most = MostBefore(server, flood, kInFlight);
  RecordProperty("most", most);
  EXPECT_LT(most, kInFlight / 2);
}

// An answer passes the writer several times, each time behind one list at most.
TEST(FairnessTest, AFloodOfListsDoesNotHoldUpAnAnswer) {
  constexpr int kInFlight = 256;
  constexpr int kSessions = 64;
  TestServer server(OptionsFor(kTinyModel));
  v1::CreateSessionRequest create;
  for (int i = 0; i < 1000; ++i) create.mutable_default_sampling()->add_logit_bias()->set_bias(1);
  std::string id;
  for (int i = 0; i < kSessions; ++i) id = CreateSession(server.client(), create);
  EXPECT_EQ(GetSession(server.client(), id).default_sampling().logit_bias_size(), 1000);
  v1::ListSessionsResponse list;
  ASSERT_TRUE(Call(server.client().sessions, &v1::SessionService::Stub::ListSessions,
                   v1::ListSessionsRequest(), list)
                  .ok());
  EXPECT_EQ(list.sessions_size(), kSessions);
  EXPECT_LT(list.ByteSizeLong(), 64u * 1024);  // 64 times 1000 of anything would be more
  Flood<v1::ListSessionsResponse> flood(
      server.AddressAt("127.0.0.1"), kInFlight, [&](Client& client, auto* context, auto* queue) {
        return client.sessions->AsyncListSessions(context, v1::ListSessionsRequest(), queue);
      });
  const int most = MostBefore(server, flood, kInFlight);
  RecordProperty("most", most);
  EXPECT_LT(most, kInFlight / 2);
}

}  // namespace
}  // namespace luna::integration
