// What sessions share and what is theirs alone, as clients and operators see it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using Code = grpc::StatusCode;
using testing::HasSubstr;

// 200 and some tokens of the story model.
std::string Lesson() {
  std::string text;
  for (int i = 0; i < 40; ++i) absl::StrAppend(&text, "Once upon a time there was a fox ", i, ". ");
  return text.substr(0, 800);
}

class SharingTest : public ::testing::Test {
 protected:
  static v1::GenerateRequest Greedy(const std::string& text, int max_tokens,
                                    const std::string& session = "") {
    v1::GenerateRequest request = TextRequest(text, max_tokens);
    request.set_session_id(session);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_stopping()->set_ignore_eos(true);
    return request;
  }
  v1::GenerateResponse Answer(const v1::GenerateRequest& request) {
    v1::GenerateResponse response;
    const grpc::Status status = Unary(server_.client(), request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Fork(const v1::ForkSessionRequest& request, v1::Session& session) {
    return Call(server_.client().sessions, &v1::SessionService::Stub::ForkSession, request,
                session);
  }
  v1::SessionMemory MemoryOf(const std::string& id) {
    v1::GetSessionMemoryRequest request;
    request.set_session_id(id);
    v1::SessionMemory memory;
    EXPECT_TRUE(
        Call(server_.client().monitor, &v1::MonitorService::Stub::GetSessionMemory, request, memory)
            .ok());
    return memory;
  }
  uint64_t ChargedBlocks() {
    v1::PoolMemory pool;
    EXPECT_TRUE(Call(server_.client().monitor, &v1::MonitorService::Stub::GetPool,
                     v1::GetPoolRequest(), pool)
                    .ok());
    return pool.charged_blocks();
  }

  TestServer server_{OptionsFor(kStoryModel)};
};

TEST_F(SharingTest, ASecondSessionFindsTheLessonComputed) {
  const std::string first = CreateSession(server_.client()),
                    second = CreateSession(server_.client());
  const v1::GenerateResponse cold = Answer(Greedy(Lesson(), 8, first));
  EXPECT_EQ(cold.finished().usage().cached_tokens(), 0u);
  const v1::GenerateResponse warm = Answer(Greedy(Lesson(), 8, second));
  const uint32_t prompt = warm.finished().usage().prompt_tokens();
  EXPECT_EQ(warm.finished().usage().cached_tokens(), (prompt - 1) / 16 * 16);
  EXPECT_EQ(warm.text(), cold.text());
  const v1::SessionMemory memory = MemoryOf(second);
  EXPECT_GE(memory.shared_blocks(), (prompt - 1) / 16);
  EXPECT_LT(memory.split_bytes(), memory.charged_bytes());
  ExpectInvariants(server_.client());
}

TEST_F(SharingTest, AForkGoesOnByItself) {
  const std::string origin = CreateSession(server_.client());
  Answer(Greedy(Lesson(), 20, origin));
  const uint64_t before = ChargedBlocks();
  v1::ForkSessionRequest request;
  request.set_session_id(origin);
  request.set_label("branch");
  v1::Session fork;
  ASSERT_TRUE(Fork(request, fork).ok());
  EXPECT_EQ(fork.turn(), 1u);
  EXPECT_EQ(fork.label(), "branch");
  EXPECT_EQ(ChargedBlocks(), before);
  const v1::GenerateResponse left = Answer(Greedy(" And then", 8, fork.id()));
  const v1::GenerateResponse right = Answer(Greedy(" But the bear", 8, origin));
  EXPECT_GT(left.finished().usage().cached_tokens(), 200u);

  // Alone, each says the same.
  for (const auto& [text, want] : {std::pair(" And then", left), {" But the bear", right}}) {
    TestServer alone(OptionsFor(kStoryModel));
    const std::string session = CreateSession(alone.client());
    v1::GenerateResponse response;
    ASSERT_TRUE(Unary(alone.client(), Greedy(Lesson(), 20, session), response).ok());
    ASSERT_TRUE(Unary(alone.client(), Greedy(text, 8, session), response).ok());
    EXPECT_EQ(response.text(), want.text());
  }
  request.set_at_turn(5);
  const grpc::Status beyond = Fork(request, fork);
  EXPECT_EQ(beyond.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_THAT(beyond.error_message(), HasSubstr("5 is above the session's turn, 2"));
  request.set_label(std::string(129, 'x'));
  EXPECT_EQ(Fork(request, fork).error_code(), Code::INVALID_ARGUMENT);
}

TEST_F(SharingTest, ContinuationsShareThePromptAndHaveSeedsOfTheirOwn) {
  v1::GenerateRequest request = TextRequest(Lesson(), 12);
  request.set_n(8);
  request.mutable_sampling()->set_seed(42);
  request.mutable_stopping()->set_ignore_eos(true);
  const v1::GenerateResponse joined = Answer(request);
  ASSERT_EQ(joined.others_size(), 7);
  std::map<uint32_t, std::string> texts;
  std::set<uint64_t> seeds = {joined.seed()};
  EXPECT_EQ(joined.seed(), 42u);
  texts[0] = joined.text();
  for (int i = 0; i < 7; ++i) {
    const v1::GenerateResponse& other = joined.others(i);
    texts[i + 1] = other.text();
    seeds.insert(other.seed());
    // All but the last token of the prompt.
    EXPECT_EQ(other.finished().usage().cached_tokens(),
              other.finished().usage().prompt_tokens() - 1);
  }
  EXPECT_EQ(seeds.size(), 8u);

  // Streamed, the same; every continuation has a beginning and one end.
  grpc::ClientContext context;
  const auto reader = server_.client().inference->Generate(&context, request);
  std::map<uint32_t, std::string> streamed;
  std::map<uint32_t, int> accepted, finished;
  uint64_t next = 0;
  for (v1::GenerateEvent event; reader->Read(&event);) {
    EXPECT_EQ(event.seq(), next++);
    accepted[event.index()] += event.has_accepted();
    finished[event.index()] += event.has_finished();
    streamed[event.index()] += event.delta().text();
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(streamed, texts);
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(accepted[i], 1);
    EXPECT_EQ(finished[i], 1);
  }
}

TEST_F(SharingTest, ContinuationsThatNobodyReadsEnd) {
  v1::GenerateRequest request = TextRequest(Lesson(), 250);
  request.set_n(8);
  request.mutable_stopping()->set_ignore_eos(true);
  {
    grpc::ClientContext context;
    const auto reader = server_.client().inference->Generate(&context, request);
    v1::GenerateEvent event;
    ASSERT_TRUE(reader->Read(&event));
    context.TryCancel();
    while (reader->Read(&event)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), Code::CANCELLED);
  }
  WaitFor(server_.client(), IsIdle);
  request.set_session_id(CreateSession(server_.client()));
  v1::GenerateResponse response;
  const grpc::Status status = Unary(server_.client(), request, response);
  EXPECT_EQ(status.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "n");
}

TEST_F(SharingTest, AnOperatorSetsLimitsAndEvicts) {
  const std::string id = CreateSession(server_.client());
  Answer(Greedy(Lesson(), 20, id));
  const v1::SessionMemory before = MemoryOf(id);
  v1::SetQuotaRequest quota;
  quota.set_session_id(id);
  quota.set_guarantee_bytes(before.charged_bytes() / 2);
  v1::SetQuotaResponse limits;
  const auto& admin = server_.client().admin;
  ASSERT_TRUE(Call(admin, &v1::AdminService::Stub::SetQuota, quota, limits).ok());
  EXPECT_EQ(limits.quota_bytes(), before.quota_bytes());
  EXPECT_LE(limits.guarantee_bytes(), before.charged_bytes() / 2);
  EXPECT_EQ(MemoryOf(id).guaranteed_bytes(), limits.guarantee_bytes());

  v1::EvictSessionRequest evict;
  evict.set_session_id(id);
  v1::EvictSessionResponse evicted;
  ASSERT_TRUE(Call(admin, &v1::AdminService::Stub::EvictSession, evict, evicted).ok());
  EXPECT_EQ(evicted.charged_bytes(), limits.guarantee_bytes());
  EXPECT_EQ(evicted.evicted_bytes(), before.charged_bytes() - limits.guarantee_bytes());
  evict.set_force(true);
  ASSERT_TRUE(Call(admin, &v1::AdminService::Stub::EvictSession, evict, evicted).ok());
  EXPECT_EQ(evicted.charged_bytes(), 0u);
  EXPECT_EQ(MemoryOf(id).evictions(), 2u);

  quota.set_guarantee_bytes(before.quota_bytes() * 2);
  const grpc::Status above = Call(admin, &v1::AdminService::Stub::SetQuota, quota, limits);
  EXPECT_EQ(above.error_code(), Code::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(above), "guarantee_bytes");
  evict.set_session_id("s99999");
  EXPECT_EQ(Call(admin, &v1::AdminService::Stub::EvictSession, evict, evicted).error_code(),
            Code::NOT_FOUND);
  ExpectInvariants(server_.client());
}

}  // namespace
}  // namespace luna::integration
