// Turns a stream of tokens into pieces of valid UTF-8.
#ifndef LUNA_CORE_TEXT_INCREMENTAL_DETOKENIZER_H_
#define LUNA_CORE_TEXT_INCREMENTAL_DETOKENIZER_H_

#include <string>

#include "core/base/ids.h"
#include "core/text/tokenizer.h"
#include "core/text/utf8.h"

namespace luna::text {

// Owned by one sequence; engine thread only. A Hangul syllable or an emoji split over several
// tokens comes out once, whole; bytes that can no longer become a character come out as U+FFFD, one
// for each maximal malformed part (Unicode, chapter 3.9, "substitution of maximal subparts").
class IncrementalDetokenizer {
 public:
  explicit IncrementalDetokenizer(const Tokenizer* tokenizer) : tokenizer_(tokenizer) {}

  // Appends what became certain with `id` to `out`; may be nothing.
  void Append(TokenId id, std::string& out);
  // The end: an incomplete character in hand becomes U+FFFD.
  void Flush(std::string& out);

 private:
  const Tokenizer* tokenizer_;
  Utf8Repairer repairer_;
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_INCREMENTAL_DETOKENIZER_H_
