#include "tests/integration/chat_model.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace luna::integration {
namespace {

constexpr char kChatMl[] =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe kind<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

}  // namespace

void WriteChatModel(const std::filesystem::path& directory) {
  namespace fs = std::filesystem;
  const fs::path source = "tests/golden/models/tiny-llama";
  fs::copy(source / "config.json", directory / "config.json");
  fs::copy(source / "model.safetensors", directory / "model.safetensors");
  std::ofstream(directory / "chat_template.jinja") << kChatMl;
  std::ifstream in(source / "tokenizer.json");
  nlohmann::json tokenizer = nlohmann::json::parse(in);
  nlohmann::json& model = tokenizer["model"];
  for (const auto& [id, content] : {std::pair<int, const char*>{318, "<|im_start|>"},
                                    std::pair<int, const char*>{319, "<|im_end|>"}}) {
    for (auto it = model["vocab"].begin(); it != model["vocab"].end(); ++it) {
      if (it.value() != id) continue;
      model["vocab"].erase(it);
      break;
    }
    model["merges"].erase(model["merges"].size() - 1);
    tokenizer["added_tokens"].push_back({{"id", id},
                                         {"content", content},
                                         {"single_word", false},
                                         {"lstrip", false},
                                         {"rstrip", false},
                                         {"normalized", false},
                                         {"special", true}});
  }
  std::ofstream(directory / "tokenizer.json") << tokenizer;
}

}  // namespace luna::integration
