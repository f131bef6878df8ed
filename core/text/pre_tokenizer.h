// Cuts a text into the pieces within which byte-level BPE merges.
#ifndef LUNA_CORE_TEXT_PRE_TOKENIZER_H_
#define LUNA_CORE_TEXT_PRE_TOKENIZER_H_

#include <cstddef>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace luna::text {

// Const after construction and thread-safe.
class PreTokenizer {
 public:
  // By GGUF's names: "gpt-2"; "smollm" (digits one by one); "llama-bpe" (Llama 3); "qwen2".
  // UNIMPLEMENTED for any other, with the list.
  static absl::StatusOr<std::unique_ptr<PreTokenizer>> Create(std::string_view name);
  virtual ~PreTokenizer() = default;

  // Replaces `ends` by the ends of the pieces, offsets into `text`; the last is the text's size.
  // `text` must be valid UTF-8. INTERNAL if the pattern engine gives up.
  virtual absl::Status Split(std::string_view text, std::vector<size_t>& ends) const = 0;
};

// The name for the regular expression `pattern` of a tokenizer.json; empty for one we do not know.
std::string_view PreTokenizerForPattern(std::string_view pattern);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_PRE_TOKENIZER_H_
