// Text to token ids and back.
#ifndef LUNA_CORE_TEXT_TOKENIZER_H_
#define LUNA_CORE_TEXT_TOKENIZER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/text/tokenizer_data.h"

namespace luna::text {

// What stands in front of a text; says whether SentencePiece's prefix space belongs there.
enum class TextBefore { kNothing, kAddedToken, kText };

struct EncodeOptions {
  // Spellings of control tokens ("<|im_end|>") become those tokens. Off for text from users.
  bool parse_special = false;
  // Prepend BOS / append EOS where the file says so.
  bool add_special = false;
  TextBefore before = TextBefore::kNothing;
};

// Const after construction and thread-safe.
class Tokenizer {
 public:
  // INVALID_ARGUMENT names what the data lacks or what is not supported.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerData data);
  virtual ~Tokenizer() = default;

  // INVALID_ARGUMENT with the byte offset if `text` is not valid UTF-8.
  virtual absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                                      const EncodeOptions& options = {}) const = 0;

  // The bytes that `id` adds to the text: empty for control tokens unless `show_special`. Not
  // necessarily whole characters: see IncrementalDetokenizer. `id` must be within the vocabulary.
  virtual std::string_view TokenBytes(TokenId id, bool show_special = false) const = 0;

  // Joined bytes of `ids` (SentencePiece: without the space that Encode put in front), with every
  // malformed byte sequence replaced by U+FFFD.
  std::string Decode(std::span<const TokenId> ids, bool show_special = false) const;

  int vocab_size() const { return static_cast<int>(data_.tokens.size()); }
  const TokenizerData& data() const { return data_; }
  bool IsEnd(TokenId id) const;
  bool IsControl(TokenId id) const;

 protected:
  explicit Tokenizer(TokenizerData data) : data_(std::move(data)) {}
  TokenizerData data_;
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_TOKENIZER_H_
