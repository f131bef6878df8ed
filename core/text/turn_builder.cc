#include "core/text/turn_builder.h"

#include <utility>

namespace luna::text {

void TurnBuilder::AddControl(TokenId id) {
  EncodeText();
  ids_.push_back(id);
  before_ = TextBefore::kAddedToken;
}

absl::StatusOr<std::vector<TokenId>> TurnBuilder::Take() {
  EncodeText();
  if (!status_.ok()) return std::exchange(status_, absl::OkStatus());
  return std::exchange(ids_, {});
}

void TurnBuilder::EncodeText() {
  if (text_.empty() || !status_.ok()) return;
  absl::StatusOr<std::vector<TokenId>> ids = tokenizer_->Encode(text_, {.before = before_});
  text_.clear();
  if (!ids.ok()) {
    status_ = ids.status();
    return;
  }
  ids_.insert(ids_.end(), ids->begin(), ids->end());
}

}  // namespace luna::text
