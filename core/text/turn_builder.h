// Puts a turn together from control tokens and text.
#ifndef LUNA_CORE_TEXT_TURN_BUILDER_H_
#define LUNA_CORE_TEXT_TURN_BUILDER_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/text/tokenizer.h"

namespace luna::text {

// Text between two control tokens is encoded in one piece, as if it had been rendered and cut at
// the control tokens; it is plain text, whatever it spells. For one function's use; borrows the
// tokenizer.
class TurnBuilder {
 public:
  // `before`: what stands in front of the turn.
  TurnBuilder(const Tokenizer* tokenizer, TextBefore before)
      : tokenizer_(tokenizer), before_(before) {}

  void AddControl(TokenId id);
  void AddText(std::string_view text) { text_.append(text); }
  // The tokens so far; the builder is then empty. Fails where Encode did.
  absl::StatusOr<std::vector<TokenId>> Take();

 private:
  void EncodeText();

  const Tokenizer* tokenizer_;
  TextBefore before_;
  std::string text_;  // since the last control token
  std::vector<TokenId> ids_;
  absl::Status status_;
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_TURN_BUILDER_H_
