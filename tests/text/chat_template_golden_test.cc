// Conversations rendered turn by turn against transformers' rendering of the whole.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/text/chat_template.h"
#include "tests/text/real_vocabularies.h"

namespace luna::text {
namespace {

using nlohmann::json;

struct Case {
  std::string golden;
  RealVocabulary vocabulary;
  ChatFamily family;
  std::string default_system;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.golden; }

std::vector<ChatMessage> Messages(const json& turn) {
  std::vector<ChatMessage> messages;
  for (const json& message : turn["messages"]) {
    const std::string role = message["role"];
    messages.push_back({role == "system" ? Role::kSystem
                        : role == "user" ? Role::kUser
                                         : Role::kAssistant,
                        message["content"]});
  }
  return messages;
}

void Append(const std::vector<TokenId>& more, std::vector<TokenId>& ids) {
  ids.insert(ids.end(), more.begin(), more.end());
}

class ChatTemplateGoldenTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const RealVocabulary& vocabulary = GetParam().vocabulary;
    if (!vocabulary.exists()) GTEST_SKIP() << vocabulary.MissingMessage();
    golden_ = json::parse(ReadFile("tests/golden/chat/" + GetParam().golden + ".json"));
    TokenizerData data = LoadVocabulary(vocabulary);
    if (const std::string source = golden_["template"]; !source.empty()) {
      data.chat_template = source;
    }
    if (GetParam().golden.starts_with("qwen2")) data.end_ids = {151645};
    auto tokenizer = Tokenizer::Create(std::move(data));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    auto chat = ChatTemplate::Create(tokenizer_.get());
    ASSERT_TRUE(chat.ok()) << chat.status();
    ASSERT_NE(*chat, nullptr);
    chat_ = *std::move(chat);
  }

  json golden_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_;
};

TEST_P(ChatTemplateGoldenTest, RecognisesFamilyAndDefaultSystemPrompt) {
  EXPECT_EQ(chat_->family(), GetParam().family);
  EXPECT_EQ(chat_->default_system(), GetParam().default_system);
  EXPECT_TRUE(tokenizer_->IsEnd(chat_->markers().end.back()));
}

TEST_P(ChatTemplateGoldenTest, TurnByTurnEqualsTheWholeConversation) {
  ASSERT_GE(golden_["conversations"].size(), 10u);
  for (const json& conversation : golden_["conversations"]) {
    std::vector<TokenId> ids;
    const json& turns = conversation["turns"];
    for (size_t i = 0; i < turns.size(); ++i) {
      const auto turn = chat_->RenderTurn(Messages(turns[i]));
      ASSERT_TRUE(turn.ok()) << turn.status();
      if (i == 0) Append(turn->opening, ids);
      Append(turn->body, ids);
      const auto expected = conversation["prompts"][i].get<std::vector<TokenId>>();
      ASSERT_EQ(ids, expected) << "turn " << i << " of " << turns.dump(1) << "\n"
                               << tokenizer_->Decode(ids, true) << "\nexpected\n"
                               << tokenizer_->Decode(expected, true);
      if (i + 1 == turns.size()) break;
      Append(turns[i]["answer_ids"].get<std::vector<TokenId>>(), ids);
      Append(chat_->markers().end, ids);
      Append(chat_->markers().after_end, ids);
    }
  }
}

// As a session has it: the system prompt opens the conversation, the turn comes later.
TEST_P(ChatTemplateGoldenTest, SystemPromptAheadOfTheTurnEqualsTheWholeConversation) {
  int compared = 0;
  for (const json& conversation : golden_["conversations"]) {
    std::vector<ChatMessage> messages = Messages(conversation["turns"][0]);
    if (messages.front().role != Role::kSystem) continue;
    const auto whole = chat_->RenderTurn(messages);
    auto opening = chat_->RenderOpening(messages.front().content);
    messages.erase(messages.begin());
    const auto turn = chat_->RenderTurn(messages);
    ASSERT_TRUE(whole.ok() && opening.ok() && turn.ok());
    EXPECT_EQ(whole->opening.size() + whole->system_tokens, opening->size());
    std::vector<TokenId> ids = *std::move(opening);
    Append(turn->after_system.empty() ? turn->body : turn->after_system, ids);
    EXPECT_EQ(ids, conversation["prompts"][0].get<std::vector<TokenId>>())
        << tokenizer_->Decode(ids, true);
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Families, ChatTemplateGoldenTest,
    testing::Values(Case{"smollm2", FetchedModel("smollm2", "smollm2-135m"), ChatFamily::kChatMl,
                         "You are a helpful AI assistant named SmolLM, trained by Hugging Face"},
                    Case{"qwen2", FetchedTokenizer("qwen2", "qwen2"), ChatFamily::kChatMl,
                         "You are a helpful assistant."},
                    Case{"llama3", FetchedTokenizer("llama3", "llama3"), ChatFamily::kLlama3, ""},
                    Case{"llama3_dates", FetchedTokenizer("llama3", "llama3"), ChatFamily::kLlama3,
                         "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"},
                    Case{"gemma3", FetchedModel("gemma3", "gemma3-270m"), ChatFamily::kGemma, ""},
                    Case{"llama2", FetchedTokenizer("mistral", "mistral"), ChatFamily::kLlama2,
                         ""}),
    [](const testing::TestParamInfo<Case>& info) { return info.param.golden; });

}  // namespace
}  // namespace luna::text
