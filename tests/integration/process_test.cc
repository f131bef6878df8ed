// The program itself: what it prints, how it leaves.
#include "tests/integration/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;
using Event = v1::GenerateEvent;

TEST(ProcessTest, ServesUntilSigtermAndLetsLiveAnswersFinish) {
  Process process({"--model", kSlowModel, "--listen", "127.0.0.1:0", "--threads", "1"});
  Client client(process.WaitUntilReady());
  v1::GenerateRequest request = LongRequest();
  request.mutable_stopping()->set_max_tokens(60);
  Stream stream(client, request);
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  process.Signal(SIGTERM);
  EXPECT_TRUE(stream.Finish().ok());
  EXPECT_EQ(stream.token_ids.size(), 60u);
  EXPECT_EQ(process.ReadRest(), "");
  const std::string log = process.ReadErrors();
  EXPECT_EQ(process.Wait(), 0);
  EXPECT_THAT(log, AllOf(HasSubstr("sessions of full context"), HasSubstr("start "),
                         HasSubstr("end "), HasSubstr("draining")));
}

TEST(ProcessTest, SigtermLetsEverythingThatIsLiveFinish) {
  Process process({"--model", kSlowModel, "--listen", "127.0.0.1:0", "--threads", "1"});
  Client client(process.WaitUntilReady());
  v1::GenerateRequest request = LongRequest();
  request.mutable_stopping()->set_max_tokens(160);
  std::vector<std::unique_ptr<Stream>> streams;
  for (int i = 0; i < 3; ++i) {
    streams.push_back(std::make_unique<Stream>(client, request));
    ASSERT_TRUE(streams.back()->ReadUntil(Event::kDelta));
  }
  v1::GenerateResponse joined;
  auto unary = std::async(std::launch::async, [&] { return Unary(client, request, joined); });
  grpc::ClientContext context;
  const auto watch = client.monitor->WatchMemory(&context, v1::WatchMemoryRequest());
  v1::MemorySnapshot snapshot;
  ASSERT_TRUE(watch->Read(&snapshot));
  WaitFor(client, [](const auto& now) { return now.load().running() == 4; });

  process.Signal(SIGTERM);
  while (Health(client) == grpc::health::v1::HealthCheckResponse::SERVING) {
  }
  v1::GenerateResponse refused;
  ExpectError(Unary(client, request, refused), grpc::StatusCode::UNAVAILABLE);

  for (const auto& stream : streams) {
    EXPECT_TRUE(stream->Finish().ok());
    EXPECT_EQ(stream->token_ids.size(), 160u);
    EXPECT_EQ(stream->finished.reason(), v1::FINISH_REASON_LENGTH);
  }
  EXPECT_TRUE(unary.get().ok());
  EXPECT_EQ(joined.token_ids_size(), 160);
  while (watch->Read(&snapshot)) {
  }
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ProcessTest, TheDrainTimeoutEndsWhatIsStillLive) {
  Process process({"--model", kSlowModel, "--listen", "127.0.0.1:0", "--threads", "1",
                   "--drain-timeout", "0s"});
  Client client(process.WaitUntilReady());
  Stream stream(client, LongRequest());
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  process.Signal(SIGINT);
  stream.Finish();
  ASSERT_TRUE(stream.error.has_value());
  EXPECT_EQ(stream.error->code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ProcessTest, ASecondSignalEndsAtOnce) {
  Process process({"--model", kSlowModel, "--listen", "127.0.0.1:0", "--threads", "1"});
  Client client(process.WaitUntilReady());
  Stream stream(client, LongRequest());
  ASSERT_TRUE(stream.ReadUntil(Event::kDelta));
  process.Signal(SIGTERM);
  grpc::health::v1::HealthCheckResponse::ServingStatus status;
  do {
    status = Health(client);
  } while (status == grpc::health::v1::HealthCheckResponse::SERVING);
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 128 + SIGTERM);
  EXPECT_FALSE(stream.Finish().ok());
}

// The end once overtook the first tasks of the writer thread, and gRPC aborted.
TEST(ProcessTest, ASignalRightAfterTheReadyLineIsAnOrderlyEnd) {
  for (int i = 0; i < 30; ++i) {
    Process process({"--model", kTinyModel, "--listen", "127.0.0.1:0", "--threads", "1"});
    process.WaitUntilReady();
    process.Signal(SIGTERM);
    EXPECT_EQ(process.Wait(), 0) << process.ReadErrors();
  }
}

// Learned positions have as many rows as the model's own context.
TEST(ProcessTest, AShorterContextOfAModelWithLearnedPositions) {
  Process process({"--model", "models/luna-tiny", "--listen", "127.0.0.1:0", "--context", "64"});
  Client client(process.WaitUntilReady());
  v1::GenerateRequest request;
  request.set_text("옛날 옛적에");
  request.mutable_stopping()->set_ignore_eos(true);
  v1::GenerateResponse response;
  ASSERT_TRUE(Unary(client, request, response).ok());
  EXPECT_EQ(
      response.finished().usage().prompt_tokens() + response.finished().usage().completion_tokens(),
      64u);
}

// Another's SIGUSR1 ended the thread that waits for signals, and nothing stopped the server.
TEST(ProcessTest, AStraySignalLeavesItStoppable) {
  Process process({"--model", kTinyModel, "--listen", "127.0.0.1:0"});
  process.WaitUntilReady();
  process.Signal(SIGUSR1);
  process.Signal(SIGHUP);
  EXPECT_EQ(process.Wait(), 0);
}

TEST(ProcessTest, WrongUsageIsExitTwoAndFailureIsExitOne) {
  struct Case {
    std::vector<std::string> flags;
    int code;
    std::vector<std::string> says;
  };
  const TestServer busy(OptionsFor(kTinyModel));
  const Case cases[] = {
      {{}, 2, {"--model"}},
      {{"--model", kTinyModel, "--block-tokens", "0"}, 2, {"--block-tokens", "'0'", "[1, 1024]"}},
      {{"--model", kTinyModel, "--listen", "0.0.0.0:0"}, 2, {"0.0.0.0:0", "--allow-remote"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--context", "97"},
       2,
       {"--context", "97", "96"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--kv-cache-bytes", "100"},
       2,
       {"--kv-cache-bytes", "100"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--session-quota-bytes", "100"},
       2,
       {"--session-quota-bytes", "100"}},
      {{"--model", kTinyModel, "--session-idle-timeout", "-1s"},
       2,
       {"--session-idle-timeout", "-1s"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--cpu", "mmx"},
       2,
       {"--cpu", "mmx", "portable"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--backend", "cuda", "--cpu", "portable"},
       2,
       {"--cpu", "portable", "the cuda backend has no choice"}},
      {{"--model", kTinyModel, "--listen", "127.0.0.1:0", "--backend", "reference", "--weights",
        "int8"},
       2,
       {"--weights", "int8", "reference"}},
      {{"--model", kTinyModel, "--backend", "reference", "--kv-dtype", "bf16"},
       2,
       {"--kv-dtype", "bf16", "reference"}},
      {{"--model", "no/such/model", "--listen", "127.0.0.1:0"}, 1, {"no/such/model"}},
      {{"--model", kTinyModel, "--listen", busy.AddressAt("127.0.0.1")},
       1,
       {busy.AddressAt("127.0.0.1")}},
  };
  for (const Case& c : cases) {
    Process process(c.flags);
    const std::string errors = process.ReadErrors();
    EXPECT_EQ(process.ReadRest(), "");
    EXPECT_EQ(process.Wait(), c.code) << errors;
    for (const std::string& word : c.says) EXPECT_THAT(errors, HasSubstr(word));
  }
}

// As on a machine without a GPU, on which `backend` says what computes and why.
class WithoutGpuTest : public testing::Test {
 protected:
  WithoutGpuTest() { setenv("CUDA_VISIBLE_DEVICES", "", 1); }
  ~WithoutGpuTest() override { unsetenv("CUDA_VISIBLE_DEVICES"); }

  static std::vector<std::string> Flags(std::vector<std::string> more) {
    more.insert(more.begin(), {"--model", kTinyModel, "--listen", "127.0.0.1:0"});
    return more;
  }
  static std::string LogOfAServer(const std::vector<std::string>& flags) {
    Process process(Flags(flags));
    Client client(process.WaitUntilReady());
    v1::GenerateRequest request = LongRequest();
    request.mutable_stopping()->set_max_tokens(3);
    v1::GenerateResponse response;
    EXPECT_TRUE(Unary(client, request, response).ok());
    process.Signal(SIGTERM);
    std::string log = process.ReadErrors();
    EXPECT_EQ(process.Wait(), 0);
    return log;
  }
};

TEST_F(WithoutGpuTest, AutoTakesTheCpuAndSaysWhy) {
  EXPECT_THAT(LogOfAServer({}), AllOf(ContainsRegex("CUDA device: .*; computing on the CPU"),
                                      HasSubstr("backend cpu: ")));
  EXPECT_THAT(LogOfAServer({"--kv-dtype", "int8"}),
              AllOf(HasSubstr("--kv-dtype int8 is what the cpu backend alone has"),
                    Not(HasSubstr("CUDA device")), HasSubstr("backend cpu: ")));
}

TEST_F(WithoutGpuTest, CudaIsRefusedWithTheWayOut) {
  Process process(Flags({"--backend", "cuda"}));
  EXPECT_THAT(process.ReadErrors(), AllOf(ContainsRegex("--backend: 'cuda': no .*CUDA device: "),
                                          HasSubstr("--backend cpu computes on the CPU")));
  EXPECT_EQ(process.Wait(), 2);
}

TEST(ProcessTest, HelpAndVersionAreOnStandardOutput) {
  Process help({"--help"});
  EXPECT_THAT(help.ReadRest(), HasSubstr("--kv-cache-bytes"));
  EXPECT_EQ(help.Wait(), 0);
  Process version({"--version"});
  EXPECT_THAT(version.ReadLine(), StartsWith("luna-server "));
  EXPECT_EQ(version.Wait(), 0);
}

TEST(ProcessTest, OtherMachinesAreToldWhereItIs) {
  Process process({"--model", kTinyModel, "--listen", "0.0.0.0:0", "--allow-remote"});
  EXPECT_THAT(process.ReadLine(), MatchesRegex("ready grpc=0\\.0\\.0\\.0:[0-9]+ model=tiny-gpt2"));
  process.Signal(SIGTERM);
  EXPECT_EQ(process.Wait(), 0);
  const std::string log = process.ReadErrors();
  for (const std::string& host : server::ReachableHosts()) {
    EXPECT_THAT(log, HasSubstr("a class reaches it at "));
    EXPECT_THAT(log, HasSubstr(host));
  }
}

TEST(ProcessTest, TheSameWordsWithoutACache) {
  std::string texts[2];
  for (const bool cached : {true, false}) {
    std::vector<std::string> flags = {"--model", kTinyModel, "--listen", "127.0.0.1:0"};
    if (!cached) flags.push_back("--no-kv-cache");
    Process process(flags);
    Client client(process.WaitUntilReady());
    v1::GenerateRequest request = TextRequest("a", 40);
    request.mutable_sampling()->set_seed(9);
    v1::GenerateResponse response;
    ASSERT_TRUE(Unary(client, request, response).ok());
    texts[cached] = response.text();
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_FALSE(texts[0].empty());
}

}  // namespace
}  // namespace luna::integration
