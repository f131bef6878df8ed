#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/model/loaders.h"

namespace luna::model {
namespace {

void DropIfOutside(int vocab_size, std::optional<TokenId>& id) {
  if (id && (*id < 0 || *id >= vocab_size)) id.reset();
}

}  // namespace

absl::Status FitVocabulary(int vocab_size, text::TokenizerData& data) {
  const auto size = static_cast<size_t>(vocab_size);
  data.types.resize(data.tokens.size(), text::TokenType::kNormal);
  for (size_t i = size; i < data.tokens.size(); ++i) {
    if (data.types[i] == text::TokenType::kControl ||
        data.types[i] == text::TokenType::kUserDefined ||
        data.types[i] == text::TokenType::kUnused) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has ", data.tokens.size(),
                                                   " tokens; the model's vocabulary is ",
                                                   vocab_size));
  }
  for (size_t i = data.tokens.size(); i < size; ++i) {
    data.tokens.push_back(absl::StrCat("[unused", i, "]"));
  }
  data.tokens.resize(size);
  data.types.resize(size, text::TokenType::kUnused);
  if (!data.scores.empty()) data.scores.resize(size, 0.0f);
  DropIfOutside(vocab_size, data.bos);
  DropIfOutside(vocab_size, data.unknown);
  std::vector<TokenId> end_ids;
  for (const TokenId id : data.end_ids) {
    const bool known = std::find(end_ids.begin(), end_ids.end(), id) != end_ids.end();
    if (id >= 0 && id < vocab_size && !known) end_ids.push_back(id);
  }
  data.end_ids = std::move(end_ids);
  return absl::OkStatus();
}

}  // namespace luna::model
