// How much a message may be, on the way in and on the way out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "tests/integration/process.h"
#include "tests/integration/test_server.h"

namespace luna::integration {
namespace {

using ::testing::HasSubstr;
using Inference = v1::InferenceService::Stub;

grpc::Status CompressedUnary(Client& client, const v1::GenerateRequest& request) {
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::GenerateResponse response;
  return client.inference->GenerateUnary(&context, request, &response);
}

// It was inflated, all 64 MiB of it, before its size was looked at.
TEST(LimitsTest, ACompressedMessageIsRefusedAndNotInflated) {
  Process process({"--model", kTinyModel, "--listen", "127.0.0.1:0", "--threads", "1"});
  Client client(process.WaitUntilReady());
  v1::GenerateResponse response;
  EXPECT_TRUE(Unary(client, TextRequest("a", 4), response).ok());
  ASSERT_TRUE(process.ForgetPeak());
  const int64_t before = process.ResidentBytes();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(CompressedUnary(client, TextRequest(std::string(64 << 20, 'a'), 1)).error_code(),
              grpc::StatusCode::UNIMPLEMENTED);
  }
  EXPECT_LT(process.PeakResidentBytes() - before, int64_t{8} << 20);
  EXPECT_EQ(CompressedUnary(client, TextRequest(std::string(100, 'a'), 1)).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(Unary(client, TextRequest("a", 4), response).ok());
}

class AnswerLimitsTest : public ::testing::Test {
 protected:
  grpc::Status Detokenize(uint32_t id, int count, v1::DetokenizeResponse& response) {
    v1::DetokenizeRequest request;
    request.mutable_ids()->Resize(count, id);
    return Call(server_.client().inference, &Inference::Detokenize, request, response);
  }

  // Clients take 4 MiB by default; so do these.
  TestServer server_{OptionsFor(kStoryModel)};
};

TEST_F(AnswerLimitsTest, NoTextHasMoreTokensThanAClientTakes) {
  constexpr int kLimit = 128 * 1024;
  for (const char byte : {'\x01', 'a', ' '}) {
    v1::TokenizeRequest request;
    request.set_text(std::string(kLimit, byte));
    v1::TokenizeResponse response;
    const grpc::Status status =
        Call(server_.client().inference, &Inference::Tokenize, request, response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    std::string pieces;
    for (const std::string& piece : response.pieces()) pieces += piece;
    EXPECT_EQ(pieces, request.text());
  }
}

TEST_F(AnswerLimitsTest, NoIdsSpellMoreThanAClientTakes) {
  constexpr int kMostIds = 128 * 1024;
  // The token that grows most, a byte that is no character, and the one that spells most.
  const uint32_t broken = Tokenize(server_.client(), "\x01").front();
  uint32_t longest = 0;
  size_t most_bytes = 0;
  v1::TokenizeRequest tokenize;
  tokenize.set_text(
      "Once upon a time there was a little rabbit. 옛날 옛적에 작은 토끼가 살았어요.");
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(Call(server_.client().inference, &Inference::Tokenize, tokenize, tokens).ok());
  for (int i = 0; i < tokens.ids_size(); ++i) {
    if (tokens.pieces(i).size() <= most_bytes) continue;
    most_bytes = tokens.pieces(i).size();
    longest = tokens.ids(i);
  }
  ASSERT_GE(most_bytes, 9u);

  v1::DetokenizeResponse response;
  EXPECT_TRUE(Detokenize(broken, kMostIds, response).ok());
  EXPECT_EQ(response.text().size(), size_t{kMostIds});
  grpc::Status status = Detokenize(broken, kMostIds + 1, response);
  ExpectError(status, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "ids");
  EXPECT_THAT(status.error_message(), HasSubstr("131073 ids"));

  const int fits = static_cast<int>((1 << 20) / most_bytes);
  EXPECT_TRUE(Detokenize(longest, fits, response).ok());
  EXPECT_EQ(response.text().size(), fits * most_bytes);
  status = Detokenize(longest, fits + 1, response);
  ExpectError(status, grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ViolatedField(status), "ids");
  EXPECT_THAT(status.error_message(), HasSubstr("1048576"));
}

}  // namespace
}  // namespace luna::integration
