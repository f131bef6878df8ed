#include "core/text/tokenizer_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/text/tokenizer.h"

namespace luna::text {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json Added(int id, const std::string& content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

json ByteLevel(bool use_regex) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}};
}

json Split(const std::string& pattern) {
  const json split = {{"type", "Split"},
                      {"pattern", {{"Regex", pattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", {split, ByteLevel(false)}}};
}

json Template(const std::string& bos) {
  return {{"type", "TemplateProcessing"},
          {"single",
           {{{"SpecialToken", {{"id", bos}, {"type_id", 0}}}},
            {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}}};
}

// GPT-2's kind: a, b, c, ab, abc, and <|end|> special, <tag> not.
json SmallJson() {
  return {{"added_tokens", {Added(5, "<|end|>", true), Added(6, "<tag>", false)}},
          {"normalizer", nullptr},
          {"pre_tokenizer", ByteLevel(true)},
          {"post_processor", nullptr},
          {"model",
           {{"type", "BPE"},
            {"unk_token", nullptr},
            {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"abc", 4}}},
            {"merges", {"a b", "ab c"}}}}};
}

// Llama 2's kind.
json SmallSentencePieceJson() {
  json root = SmallJson();
  root["model"]["byte_fallback"] = true;
  root["model"]["unk_token"] = "<unk>";
  root["model"]["vocab"] = {{"<unk>", 0},
                            {"<s>", 1},
                            {"<0x41>", 2},
                            {"a", 3},
                            {"\u2581", 4},
                            {"\u2581"
                             "a",
                             5}};
  root["model"]["merges"] = json::array({{"\u2581", "a"}});
  root["added_tokens"] = {Added(0, "<unk>", true), Added(1, "<s>", true)};
  const json replace = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
  root["normalizer"] = {{"type", "Sequence"},
                        {"normalizers", {{{"type", "Prepend"}, {"prepend", "\u2581"}}, replace}}};
  root["pre_tokenizer"] = nullptr;
  root["post_processor"] = Template("<s>");
  return root;
}

TokenizerData Parse(const json& root) {
  auto data = ParseTokenizerJson(root.dump());
  EXPECT_TRUE(data.ok()) << data.status();
  return data.ok() ? *std::move(data) : TokenizerData{};
}

TEST(TokenizerJsonTest, ReadsVocabularyMergesAndAddedTokens) {
  const TokenizerData data = Parse(SmallJson());
  EXPECT_EQ(data.kind, TokenizerKind::kByteLevelBpe);
  EXPECT_EQ(data.pre_tokenizer, "gpt-2");
  EXPECT_THAT(data.tokens, ElementsAre("a", "b", "c", "ab", "abc", "<|end|>", "<tag>"));
  EXPECT_EQ(data.types[4], TokenType::kNormal);
  EXPECT_EQ(data.types[5], TokenType::kControl);
  EXPECT_EQ(data.types[6], TokenType::kUserDefined);
  EXPECT_FALSE(data.add_bos);
  const auto tokenizer = Tokenizer::Create(data);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("abcab<tag>"), ElementsAre(4, 3, 6));
}

TEST(TokenizerJsonTest, MergesMayBePairs) {
  json root = SmallJson();
  root["model"]["merges"] = json::array({json::array({"a", "b"}), json::array({"ab", "c"})});
  EXPECT_EQ(Parse(root).merges, Parse(SmallJson()).merges);
}

TEST(TokenizerJsonTest, RecognisesTheFamiliesBySplittingAndNormalizer) {
  const std::string rest = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string suffixes = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  json root = SmallJson();
  root["pre_tokenizer"] = Split(suffixes + R"(\p{N}{1,3})" + rest);
  root["model"]["ignore_merges"] = true;
  root["post_processor"] = {{"type", "Sequence"},
                            {"processors", {ByteLevel(true), Template("<|end|>")}}};
  const TokenizerData llama3 = Parse(root);
  EXPECT_EQ(llama3.pre_tokenizer, "llama-bpe");
  EXPECT_TRUE(llama3.ignore_merges);
  EXPECT_TRUE(llama3.add_bos);
  EXPECT_EQ(llama3.bos, 5);

  root = SmallJson();
  root["pre_tokenizer"] = Split(suffixes + R"(\p{N})" + rest);
  root["normalizer"] = {{"type", "NFC"}};
  const TokenizerData qwen2 = Parse(root);
  EXPECT_EQ(qwen2.pre_tokenizer, "qwen2");
  EXPECT_TRUE(qwen2.normalize_nfc);

  root = SmallJson();
  root["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, ByteLevel(true)}}};
  EXPECT_EQ(Parse(root).pre_tokenizer, "smollm");
}

TEST(TokenizerJsonTest, ReadsSentencePieceModels) {
  const TokenizerData llama2 = Parse(SmallSentencePieceJson());
  EXPECT_EQ(llama2.kind, TokenizerKind::kSentencePieceBpe);
  EXPECT_TRUE(llama2.add_space_prefix);
  EXPECT_EQ(llama2.space_prefix_rule, SpacePrefixRule::kEverySegment);
  EXPECT_EQ(llama2.types[0], TokenType::kUnknown);
  EXPECT_EQ(llama2.types[2], TokenType::kByte);
  EXPECT_EQ(llama2.unknown, 0);
  EXPECT_EQ(llama2.bos, 1);
  const auto tokenizer = Tokenizer::Create(llama2);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(*(*tokenizer)->Encode("a aA", {.add_special = true}), ElementsAre(1, 5, 5, 2));

  json gemma = SmallSentencePieceJson();
  gemma["normalizer"] = gemma["normalizer"]["normalizers"][1];
  gemma["pre_tokenizer"] = {{"type", "Split"},
                            {"pattern", {{"String", " "}}},
                            {"behavior", "MergedWithPrevious"},
                            {"invert", false}};
  EXPECT_FALSE(Parse(gemma).add_space_prefix);

  json metaspace = SmallSentencePieceJson();
  metaspace["normalizer"] = nullptr;
  metaspace["pre_tokenizer"] = {{"type", "Metaspace"},
                                {"replacement", "\u2581"},
                                {"prepend_scheme", "first"},
                                {"split", false}};
  EXPECT_EQ(Parse(metaspace).space_prefix_rule, SpacePrefixRule::kMetaspaceFirst);
}

TEST(TokenizerJsonTest, RefusesWhatIsNotSupportedByName) {
  struct Case {
    const char* pointer;
    json value;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {"/model/type", "Unigram", "model type \"Unigram\""},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix \"</w>\""},
      {"/normalizer", {{"type", "Lowercase"}}, "normalizer Lowercase"},
      {"/pre_tokenizer", {{"type", "Whitespace"}}, "without pre-tokenizer ByteLevel"},
      {"/pre_tokenizer", nullptr, "without pre-tokenizer ByteLevel"},
      {"/pre_tokenizer", Split(R"(\w+|\W+)"), R"(the splitting pattern \w+|\W+)"},
      {"/post_processor", {{"type", "BertProcessing"}}, "post-processor BertProcessing"},
      {"/added_tokens/1/lstrip", true, "added token \"<tag>\" has lstrip"},
  };
  for (const Case& c : cases) {
    json root = SmallJson();
    root[json::json_pointer(c.pointer)] = c.value;
    const auto data = ParseTokenizerJson(root.dump());
    EXPECT_EQ(data.status().code(), absl::StatusCode::kUnimplemented) << c.pointer;
    EXPECT_THAT(std::string(data.status().message()), HasSubstr(c.expected));
  }
}

TEST(TokenizerJsonTest, RefusesDamagedFilesByName) {
  struct Case {
    const char* pointer;
    json value;
    std::string expected;
  };
  const std::vector<Case> cases = {
      {"/model", 3, "\"model\""},
      {"/model/vocab", json::array(), "model.vocab"},
      {"/model/vocab/ab", "3", "the id of token \"ab\" is string"},
      {"/model/vocab/ab", -1, "has id -1"},
      {"/model/vocab/ab", 1e300, "the id of token \"ab\" is number"},
      {"/model/vocab/ab", uint64_t{1} << 63, "has id 9223372036854775808"},
      {"/model/vocab/ab", 1 << 30, "has id 1073741824"},
      {"/model/vocab/ab", 1, "have the same id 1"},
      {"/model/merges", {{"a", "b"}}, "model.merges"},
      {"/model/merges", "a b", "model.merges"},
      {"/model/merges/0", "a b c", "merge 0"},
      {"/model/merges/1", 7, "merge 1"},
      {"/model/unk_token", "<nope>", "model.unk_token names \"<nope>\""},
      {"/added_tokens", 1, "\"added_tokens\""},
      {"/added_tokens/0", "x", "added token 0"},
      {"/added_tokens/0/id", 2, "have the same id 2"},
      {"/pre_tokenizer", "ByteLevel", "pre_tokenizer has no type"},
      {"/post_processor", Template("<nope>"), "post_processor names \"<nope>\""},
  };
  for (const Case& c : cases) {
    json root = SmallJson();
    root[json::json_pointer(c.pointer)] = c.value;
    const auto data = ParseTokenizerJson(root.dump());
    EXPECT_EQ(data.status().code(), absl::StatusCode::kInvalidArgument) << c.pointer;
    EXPECT_THAT(std::string(data.status().message()), HasSubstr(c.expected));
  }
  EXPECT_EQ(ParseTokenizerJson("{\"model\": ").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseTokenizerJson("").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerJsonTest, MergeOfAnUnknownTokenIsRefusedByTheTokenizer) {
  json root = SmallJson();
  root["model"]["merges"][1] = "a zz";
  const auto tokenizer = Tokenizer::Create(Parse(root));
  EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr("merge 1 (\"a\" + \"zz\")"));
}

TEST(TokenizerJsonTest, DeepNestingIsRefused) {
  std::string nested;
  for (int i = 0; i < 20'000; ++i) nested += R"({"type":"Sequence","pretokenizers":[)";
  json root = SmallJson();
  std::string text = root.dump();
  const std::string place = root["pre_tokenizer"].dump();
  std::string closing;
  for (int i = 0; i < 20'000; ++i) closing += "]}";
  text.replace(text.find(place), place.size(), nested + closing);
  EXPECT_EQ(ParseTokenizerJson(text).status().code(), absl::StatusCode::kInvalidArgument);
}

// Bytes changed, dropped, doubled: a status or a tokenizer that works, never a crash.
TEST(TokenizerJsonTest, MutatedFilesNeverCrash) {
  std::mt19937 random(3);
  const std::vector<std::string> sources = {SmallJson().dump(), SmallSentencePieceJson().dump()};
  int accepted = 0;
  for (int round = 0; round < 6000; ++round) {
    std::string text = sources[round % sources.size()];
    for (size_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), 1 + random() % 12));
          break;
        case 3:
          text[at] = "0123456789\"{}[],:-e"[random() % 19];
          break;
      }
      if (text.empty()) text.push_back('{');
    }
    auto data = ParseTokenizerJson(text);
    if (!data.ok()) {
      EXPECT_FALSE(data.status().message().empty());
      continue;
    }
    const auto tokenizer = Tokenizer::Create(*std::move(data));
    if (!tokenizer.ok()) continue;
    ++accepted;
    const auto ids = (*tokenizer)->Encode("abc <tag> <|end|>\n가", {.parse_special = true});
    ASSERT_TRUE(ids.ok()) << ids.status();
    for (const TokenId id : *ids) EXPECT_LT(id, (*tokenizer)->vocab_size());
    (*tokenizer)->Decode(*ids);
  }
  EXPECT_GT(accepted, 50);
}

TEST(TokenizerConfigJsonTest, NamesTokensAndTemplate) {
  TokenizerData data = Parse(SmallJson());
  data.end_ids = {4};
  const json config = {{"eos_token", {{"content", "<|end|>"}}},
                       {"bos_token", "<tag>"},
                       {"unk_token", "<nope>"},
                       {"add_bos_token", true},
                       {"chat_template", "{{ messages }}"}};
  ASSERT_TRUE(ApplyTokenizerConfigJson(config.dump(), data).ok());
  EXPECT_THAT(data.end_ids, ElementsAre(5, 4));
  EXPECT_EQ(data.bos, 6);
  EXPECT_TRUE(data.add_bos);
  EXPECT_FALSE(data.unknown.has_value());
  EXPECT_EQ(data.chat_template, "{{ messages }}");
}

TEST(TokenizerConfigJsonTest, TakesTheDefaultOfSeveralTemplates) {
  TokenizerData data = Parse(SmallJson());
  const json config = {{"chat_template",
                        {{{"name", "tool_use"}, {"template", "T"}},
                         {{"name", "default"}, {"template", "D"}},
                         {{"name", "rag"}, {"template", "R"}}}}};
  ASSERT_TRUE(ApplyTokenizerConfigJson(config.dump(), data).ok());
  EXPECT_EQ(data.chat_template, "D");
  EXPECT_EQ(ApplyTokenizerConfigJson("[]", data).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace luna::text
