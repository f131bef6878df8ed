// A tiny model that was given a chat template.
#ifndef LUNA_TESTS_INTEGRATION_CHAT_MODEL_H_
#define LUNA_TESTS_INTEGRATION_CHAT_MODEL_H_

#include <filesystem>

namespace luna::integration {

// tiny-llama with ChatML ("Be kind" is its default system prompt), and with its last two merges
// replaced by the two control tokens; into `directory`, which exists.
void WriteChatModel(const std::filesystem::path& directory);

}  // namespace luna::integration

#endif  // LUNA_TESTS_INTEGRATION_CHAT_MODEL_H_
