// What the kinds of tokenizers share: added tokens cut the text into segments, BOS and EOS stand
// around it, and every token has its bytes.
#ifndef LUNA_CORE_TEXT_SEGMENTING_TOKENIZER_H_
#define LUNA_CORE_TEXT_SEGMENTING_TOKENIZER_H_

#include <string>
#include <string_view>
#include <vector>

#include "core/text/token_trie.h"
#include "core/text/tokenizer.h"

namespace luna::text {

// Const after construction and thread-safe.
class SegmentingTokenizer : public Tokenizer {
 public:
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const EncodeOptions& options) const final;
  std::string_view TokenBytes(TokenId id, bool show_special) const final;

 protected:
  explicit SegmentingTokenizer(TokenizerData data) : Tokenizer(std::move(data)) {}

  // Appends the ids of `segment`, which is valid UTF-8, not empty and free of added tokens.
  virtual absl::Status EncodeSegment(std::string_view segment, TextBefore before,
                                     std::vector<TokenId>& ids) const = 0;

  // For the constructor: tokens matched in the text itself, always or with parse_special only.
  void AddPlainSpelling(std::string_view spelling, TokenId id);
  void AddSpecialSpelling(std::string_view spelling, TokenId id);
  // For the constructor, once for each token in order of id.
  void AppendTokenBytes(std::string_view bytes);

 private:
  TokenTrie plain_;           // user-defined tokens
  TokenTrie with_specials_;   // those and control tokens
  std::string bytes_;         // of all tokens, one after the other
  std::vector<size_t> ends_;  // [vocab_size] where each token's bytes end
};

// A token spelled by more bytes than this is refused: it cannot be text, and costs its square.
inline constexpr size_t kMaxTokenBytes = 1024;
// Positions within a text are 32-bit.
inline constexpr size_t kMaxTextBytes = size_t{1} << 30;

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_SEGMENTING_TOKENIZER_H_
