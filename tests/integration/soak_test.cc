// Many short lives: what a server leaves behind of each must be nothing.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsOurs = false;  // what was freed is kept for the sanitizer
#else
constexpr bool kMemoryIsOurs = true;
#endif

constexpr int kRoundsInAThird = 60;
// Of the whole process, clients included. 50 KiB lost in each round would be more.
constexpr int64_t kMostGrowthBytes = int64_t{3} << 20;

int64_t ResidentBytes() {
  malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  int64_t pages = 0;
  file >> pages >> pages;
  EXPECT_GT(pages, 0);
  return pages * sysconf(_SC_PAGESIZE);
}

class Soak {
 public:
  explicit Soak(Client& client) : client_(client) {}

  // The least memory that was seen in `rounds` of everything. Each is some 16 calls.
  int64_t Run(int rounds) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int round = 0; round < rounds; ++round) {
      OneOffs();
      Departures();
      Conversation();
      Refusals();
      if (round % 10 == 9) least = std::min(least, ResidentBytes());
    }
    return least;
  }

 private:
  void OneOffs() {
    v1::GenerateRequest request = TextRequest("Once upon a time", 3);
    request.set_request_id("soak");
    request.mutable_response_options()->set_logprobs(2);
    v1::GenerateResponse response;
    EXPECT_TRUE(Unary(client_, request, response).ok());
    EXPECT_TRUE(Stream(client_, request).Finish().ok());
    EXPECT_FALSE(Tokenize(client_, "Once upon a time").empty());
  }

  // Before anything came, after the first token, and by an abort.
  void Departures() {
    const v1::GenerateRequest request = LongRequest();
    Stream early(client_, request);
    early.context.TryCancel();
    EXPECT_FALSE(early.Finish().ok());
    Stream late(client_, request);
    EXPECT_TRUE(late.ReadUntil(v1::GenerateEvent::kDelta));
    late.context.TryCancel();
    // It may have been over.
    late.Finish();
    Stream aborted(client_, request);
    EXPECT_TRUE(aborted.ReadUntil(v1::GenerateEvent::kAccepted));
    v1::AbortRequest abort;
    abort.set_generation_id(aborted.accepted.generation_id());
    v1::AbortResponse was_live;
    EXPECT_TRUE(Call(client_.inference, &v1::InferenceService::Stub::Abort, abort, was_live).ok());
    EXPECT_TRUE(aborted.Finish().ok());
  }

  void Conversation() {
    v1::CreateSessionRequest create;
    create.set_label("학생");
    create.mutable_default_sampling()->add_logit_bias()->set_bias(1);
    v1::GenerateRequest turn = TextRequest("and then", 3);
    turn.set_session_id(CreateSession(client_, create));
    v1::GenerateResponse response;
    EXPECT_TRUE(Unary(client_, turn, response).ok());
    EXPECT_TRUE(Unary(client_, turn, response).ok());
    EXPECT_EQ(GetSession(client_, turn.session_id()).turn(), 2u);
    v1::ResetSessionRequest reset;
    reset.set_session_id(turn.session_id());
    v1::Session session;
    EXPECT_TRUE(
        Call(client_.sessions, &v1::SessionService::Stub::ResetSession, reset, session).ok());
    v1::CloseSessionRequest close;
    close.set_session_id(turn.session_id());
    v1::CloseSessionResponse closed;
    EXPECT_TRUE(
        Call(client_.sessions, &v1::SessionService::Stub::CloseSession, close, closed).ok());
  }

  void Refusals() {
    v1::GenerateRequest request = TextRequest("a", 1);
    request.mutable_sampling()->set_temperature(-1);
    v1::GenerateResponse response;
    EXPECT_FALSE(Unary(client_, request, response).ok());
    request = TextRequest("a", 1);
    request.set_session_id("nobody");
    EXPECT_FALSE(Stream(client_, request).Finish().ok());
  }

  Client& client_;
};

TEST(SoakTest, ThousandsOfCallsLeaveNothingBehind) {
  TestServer server(OptionsFor(kTinyModel));
  Soak soak(server.client());
  soak.Run(kRoundsInAThird);  // caches and arenas find their size
  const int64_t second = soak.Run(kRoundsInAThird);
  const int64_t third = soak.Run(kRoundsInAThird);
  RecordProperty("growth_bytes", std::to_string(third - second));
  if (kMemoryIsOurs) {
    EXPECT_LT(third - second, kMostGrowthBytes);
  }

  const v1::MemorySnapshot idle = WaitFor(server.client(), IsIdle);
  EXPECT_EQ(idle.sessions_size(), 0);
  EXPECT_EQ(idle.load().sessions(), 0u);
  EXPECT_EQ(idle.pool().charged_blocks(), 0u);
  EXPECT_GT(idle.load().finished(), 5u * kRoundsInAThird);
  ExpectInvariants(server.client());
}

}  // namespace
}  // namespace luna::integration
