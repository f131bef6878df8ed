// A class: many sessions at once, each with words of its own.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

constexpr int kStudents = 30;

v1::GenerateRequest StudentRequest(int student) {
  static constexpr const char* kOpenings[] = {"Once upon a time", "옛날 옛적에", "One morning, "};
  v1::GenerateRequest request = TextRequest(kOpenings[student % 3], 60 + student);
  request.mutable_sampling()->set_seed(1000 + student);
  if (student % 5 == 0) request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_response_options()->set_logprobs(1);
  return request;
}

struct Words {
  std::string text;
  std::vector<uint32_t> token_ids;
  std::string logprobs;  // serialized
  bool operator==(const Words&) const = default;
};

Words Alone(Client& client, int student) {
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client, StudentRequest(student), response).ok());
  Words words{response.text(), {response.token_ids().begin(), response.token_ids().end()}, ""};
  for (const v1::TokenLogprobs& one : response.logprobs())
    words.logprobs += one.SerializeAsString();
  return words;
}

// A connection and a session of its own; two turns, of which the first is the student's.
Words InClass(const TestServer& server, int student) {
  Client client(server.AddressAt("127.0.0.1"));
  v1::GenerateRequest request = StudentRequest(student);
  request.set_session_id(CreateSession(client));
  Stream stream(client, request);
  EXPECT_TRUE(stream.Finish().ok());
  Words words{stream.text, stream.token_ids, ""};
  for (const v1::GenerateEvent& event : stream.events) {
    for (const v1::TokenLogprobs& one : event.delta().logprobs()) {
      words.logprobs += one.SerializeAsString();
    }
  }
  v1::GenerateRequest next = TextRequest(" Then", 5);
  next.set_session_id(request.session_id());
  next.set_expected_turn(1);
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client, next, response).ok());
  EXPECT_EQ(response.finished().turn(), 2u);
  return words;
}

std::vector<Words> Together(const TestServer& server) {
  std::vector<std::future<Words>> students;
  for (int student = 0; student < kStudents; ++student) {
    students.push_back(
        std::async(std::launch::async, [&server, student] { return InClass(server, student); }));
  }
  std::vector<Words> words;
  for (std::future<Words>& student : students) words.push_back(student.get());
  return words;
}

class ClassTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    TestServer server(OptionsFor(kStoryModel));
    alone_ = new std::vector<Words>();
    for (int student = 0; student < kStudents; ++student) {
      alone_->push_back(Alone(server.client(), student));
    }
  }
  static void TearDownTestSuite() { delete alone_; }

  static void ExpectAsAlone(const server::Options& options) {
    TestServer server(options);
    const std::vector<Words> words = Together(server);
    for (int student = 0; student < kStudents; ++student) {
      EXPECT_EQ(words[student].text, (*alone_)[student].text) << "student " << student;
      EXPECT_TRUE(words[student] == (*alone_)[student]) << "student " << student;
    }
    WaitFor(server.client(), IsIdle);
    v1::CheckInvariantsResponse invariants;
    ASSERT_TRUE(Call(server.client().admin, &v1::AdminService::Stub::CheckInvariants,
                     v1::CheckInvariantsRequest(), invariants)
                    .ok());
    EXPECT_TRUE(invariants.ok()) << invariants.ShortDebugString();
  }

  static std::vector<Words>* alone_;
};

std::vector<Words>* ClassTest::alone_;

TEST_F(ClassTest, ThirtySessionsSayWhatEachSaysAlone) { ExpectAsAlone(OptionsFor(kStoryModel)); }

TEST_F(ClassTest, EvenInAPoolThatIsMuchTooSmallAndInSmallSteps) {
  server::Options options = OptionsFor(kStoryModel);
  options.kv_cache_bytes = 4 << 20;
  options.max_batch_tokens = 24;
  ExpectAsAlone(options);
}

TEST_F(ClassTest, DifferentSeedsTellDifferentStories) {
  for (int a = 1; a < kStudents; ++a) {
    for (int b = 1; b < a; ++b) {
      if (a % 5 == 0 || b % 5 == 0) continue;
      EXPECT_NE((*alone_)[a].text, (*alone_)[b].text) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace luna::integration
