// The real vocabularies against their own implementations: ids and decoded text on the same
// strings. A vocabulary that was not fetched skips its tests and says what fetches it.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/text/incremental_detokenizer.h"
#include "core/text/tokenizer.h"
#include "tests/text/real_vocabularies.h"

namespace luna::text {
namespace {

const std::string kGolden = "tests/golden/tokenizer/";

class TokenizerGoldenTest : public testing::TestWithParam<RealVocabulary> {
 protected:
  void SetUp() override {
    if (!GetParam().exists()) GTEST_SKIP() << GetParam().MissingMessage();
    auto created = Tokenizer::Create(LoadVocabulary(GetParam()));
    ASSERT_TRUE(created.ok()) << created.status();
    tokenizer_ = *std::move(created);
    const auto strings = nlohmann::json::parse(ReadFile(kGolden + "strings.json"));
    strings_ = strings.get<std::vector<std::string>>();
    ASSERT_GE(strings_.size(), 2000u);
    std::istringstream lines(ReadFile(kGolden + GetParam().name + ".ids"));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream numbers(line);
      std::vector<TokenId>& ids = ids_.emplace_back();
      for (TokenId id; numbers >> id;) ids.push_back(id);
    }
    ASSERT_EQ(ids_.size(), strings_.size());
  }

  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<std::string> strings_;
  std::vector<std::vector<TokenId>> ids_;
};

TEST_P(TokenizerGoldenTest, EncodesAsTheReference) {
  int wrong = 0;
  for (size_t i = 0; i < strings_.size() && wrong < 10; ++i) {
    const auto ids = tokenizer_->Encode(strings_[i]);
    ASSERT_TRUE(ids.ok()) << ids.status();
    EXPECT_EQ(*ids, ids_[i]) << "string " << i << ": "
                             << nlohmann::json(strings_[i]).dump(-1, ' ', true);
    wrong += *ids != ids_[i];
  }
}

TEST_P(TokenizerGoldenTest, DecodesAsTheReference) {
  const auto differing =
      nlohmann::json::parse(ReadFile(kGolden + GetParam().name + ".decoded.json"));
  for (size_t i = 0; i < strings_.size(); ++i) {
    const auto different = differing.find(std::to_string(i));
    const std::string expected =
        different == differing.end() ? strings_[i] : different->get<std::string>();
    EXPECT_EQ(tokenizer_->Decode(ids_[i]), expected) << "string " << i;
  }
}

TEST_P(TokenizerGoldenTest, TokenByTokenEqualsDecodingAtOnce) {
  // A space that Encode puts in front is dropped by Decode only: a stream continues a text.
  const bool has_prefix = tokenizer_->data().kind == TokenizerKind::kSentencePieceBpe &&
                          tokenizer_->data().add_space_prefix;
  for (size_t i = 0; i < strings_.size(); ++i) {
    std::string joined;
    IncrementalDetokenizer detokenizer(tokenizer_.get());
    for (const TokenId id : ids_[i]) detokenizer.Append(id, joined);
    detokenizer.Flush(joined);
    if (has_prefix && joined.starts_with(' ')) joined.erase(0, 1);
    EXPECT_EQ(joined, tokenizer_->Decode(ids_[i])) << "string " << i;
  }
}

TEST_P(TokenizerGoldenTest, PlainTextNeverBecomesControlTokens) {
  std::string all_controls;
  for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
    if (tokenizer_->IsControl(id)) all_controls += tokenizer_->TokenBytes(id, true);
  }
  ASSERT_FALSE(all_controls.empty());
  const auto ids = tokenizer_->Encode(all_controls);
  ASSERT_TRUE(ids.ok());
  for (const TokenId id : *ids) EXPECT_FALSE(tokenizer_->IsControl(id)) << id;
  const auto special = tokenizer_->Encode(all_controls, {.parse_special = true});
  ASSERT_TRUE(special.ok());
  for (const TokenId id : *special) EXPECT_TRUE(tokenizer_->IsControl(id)) << id;
}

RealVocabulary MistralByScore() {
  RealVocabulary vocabulary = FetchedTokenizer("mistral", "mistral");
  vocabulary.by_score = true;
  return vocabulary;
}

INSTANTIATE_TEST_SUITE_P(Families, TokenizerGoldenTest,
                         testing::Values(FetchedTokenizer("gpt2", "gpt2"),
                                         FetchedTokenizer("llama3", "llama3"),
                                         FetchedTokenizer("qwen2", "qwen2"),
                                         FetchedTokenizer("mistral", "mistral"), MistralByScore(),
                                         FetchedModel("smollm2", "smollm2-135m"),
                                         FetchedModel("gemma3", "gemma3-270m")),
                         [](const testing::TestParamInfo<RealVocabulary>& info) {
                           return info.param.name + (info.param.by_score ? "_by_score" : "");
                         });

}  // namespace
}  // namespace luna::text
