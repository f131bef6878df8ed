// A class: many sessions at once, each with words of its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

// Who sits in it, and how much they ask for.
struct Class {
  const char* model;
  int students;
  int first_tokens;  // a student's number comes on top
  int second_tokens;
};

constexpr Class kStoryClass = {kStoryModel, 30, 60, 12};

struct Words {
  std::string text;
  std::vector<uint32_t> token_ids;
  std::string logprobs;  // serialized
  bool operator==(const Words&) const = default;
};

// Of a student, turn by turn.
using Conversation = std::vector<Words>;

v1::GenerateRequest StudentRequest(const std::string& text, int student, int max_tokens) {
  v1::GenerateRequest request = TextRequest(text, max_tokens);
  request.mutable_sampling()->set_seed(1000 + student);
  if (student % 5 == 0) request.mutable_sampling()->set_temperature(0);
  request.mutable_stopping()->set_ignore_eos(true);
  request.mutable_response_options()->set_logprobs(1);
  return request;
}

Words Listen(Client& client, const v1::GenerateRequest& request) {
  Stream stream(client, request);
  const grpc::Status status = stream.Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream.token_ids.size(), request.stopping().max_tokens());
  Words words{stream.text, stream.token_ids, ""};
  for (const v1::GenerateEvent& event : stream.events) {
    for (const v1::TokenLogprobs& one : event.delta().logprobs()) {
      words.logprobs += one.SerializeAsString();
    }
  }
  return words;
}

// A connection and a session of its own, two turns.
Conversation Speak(const TestServer& server, const Class& c, int student) {
  static constexpr const char* kOpenings[] = {"Once upon a time", "옛날 옛적에", "One morning, "};
  Client client(server.AddressAt("127.0.0.1"));
  v1::GenerateRequest first =
      StudentRequest(kOpenings[student % 3], student, c.first_tokens + student);
  first.set_session_id(CreateSession(client));
  v1::GenerateRequest second = StudentRequest(" Then", student, c.second_tokens);
  second.set_session_id(first.session_id());
  second.set_expected_turn(1);
  Conversation conversation = {Listen(client, first), Listen(client, second)};
  EXPECT_EQ(GetSession(client, first.session_id()).turn(), 2u);
  return conversation;
}

std::vector<Conversation> OneByOne(const Class& c, const server::Options& options) {
  const TestServer server(options);
  std::vector<Conversation> all;
  for (int student = 0; student < c.students; ++student) {
    all.push_back(Speak(server, c, student));
  }
  return all;
}

// How often something was taken from a student.
uint64_t Disturbances(const v1::MemorySnapshot& snapshot) {
  uint64_t count = snapshot.load().preemptions();
  for (const v1::SessionMemory& session : snapshot.sessions()) count += session.evictions();
  return count;
}

// All at once they say what they say `alone`. Returns how often they were disturbed.
uint64_t ExpectAsAlone(const Class& c, const server::Options& options,
                       const std::vector<Conversation>& alone) {
  TestServer server(options);
  std::vector<std::future<Conversation>> students;
  for (int student = 0; student < c.students; ++student) {
    students.push_back(std::async(std::launch::async,
                                  [&server, &c, student] { return Speak(server, c, student); }));
  }
  for (int student = 0; student < c.students; ++student) {
    const Conversation together = students[student].get();
    for (size_t turn = 0; turn < 2; ++turn) {
      EXPECT_EQ(together[turn].text, alone[student][turn].text)
          << "student " << student << " turn " << turn;
      EXPECT_TRUE(together[turn] == alone[student][turn])
          << "student " << student << " turn " << turn;
    }
  }
  const v1::MemorySnapshot idle = WaitFor(server.client(), IsIdle);
  ExpectInvariants(server.client());
  return Disturbances(idle);
}

const std::vector<Conversation>& StoriesAlone() {
  static const std::vector<Conversation> alone = OneByOne(kStoryClass, OptionsFor(kStoryModel));
  return alone;
}

TEST(ClassTest, ThirtySessionsSayWhatEachSaysAlone) {
  ExpectAsAlone(kStoryClass, OptionsFor(kStoryModel), StoriesAlone());
}

TEST(ClassTest, EvenInAPoolThatIsMuchTooSmallAndInSmallSteps) {
  server::Options options = OptionsFor(kStoryModel);
  options.kv_cache_bytes = 4 << 20;
  options.max_batch_tokens = 24;
  EXPECT_GT(ExpectAsAlone(kStoryClass, options, StoriesAlone()), 0u) << "the pool was big enough";
}

TEST(ClassTest, DifferentSeedsTellDifferentStories) {
  const std::vector<Conversation>& alone = StoriesAlone();
  for (int a = 1; a < kStoryClass.students; ++a) {
    for (int b = 1; b < a; ++b) {
      if (a % 5 == 0 || b % 5 == 0) continue;
      EXPECT_NE(alone[a][0].text, alone[b][0].text) << a << " and " << b;
    }
  }
}

// Windows of 8 tokens: blocks leave a session while it speaks.
TEST(ClassTest, SlidingWindowsInAPoolThatIsMuchTooSmall) {
  const Class c = {"tests/golden/models/tiny-gemma3", 12, 40, 12};
  const server::Options plenty = OptionsFor(c.model);
  const std::vector<Conversation> alone = OneByOne(c, plenty);
  ExpectAsAlone(c, plenty, alone);
  server::Options options = plenty;
  options.block_tokens = 4;
  options.max_batch_tokens = 16;
  options.kv_cache_bytes = 160 << 10;
  EXPECT_GT(ExpectAsAlone(c, options, alone), 0u) << "the pool was big enough";
}

TEST(ClassTest, TheReferenceBackendInAPoolThatIsTooSmall) {
  const Class c = {kTinyModel, 6, 20, 8};
  server::Options options = OptionsFor(c.model);
  options.backend = "reference";
  const std::vector<Conversation> alone = OneByOne(c, options);
  options.kv_cache_bytes = 96 << 10;
  options.max_batch_tokens = 16;
  EXPECT_GT(ExpectAsAlone(c, options, alone), 0u) << "the pool was big enough";
}

}  // namespace
}  // namespace luna::integration
