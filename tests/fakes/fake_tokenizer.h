// A tokenizer that anybody can run in their head: one token a byte.
#ifndef LUNA_TESTS_FAKES_FAKE_TOKENIZER_H_
#define LUNA_TESTS_FAKES_FAKE_TOKENIZER_H_

#include <string_view>
#include <vector>

#include "core/text/tokenizer.h"

namespace luna::fakes {

inline constexpr TokenId kEnd = 256;       // ends an answer
inline constexpr TokenId kOtherEnd = 257;  // so does this one
inline constexpr TokenId kTurn = 258;      // opens a turn
inline constexpr TokenId kSystem = 259;    // opens a conversation
inline constexpr int kVocabSize = 260;

class FakeTokenizer final : public text::Tokenizer {
 public:
  FakeTokenizer();
  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              const text::EncodeOptions& options) const override;
  std::string_view TokenBytes(TokenId id, bool show_special) const override;
};

// The tokens of `text`.
std::vector<TokenId> Bytes(std::string_view text);

}  // namespace luna::fakes

#endif  // LUNA_TESTS_FAKES_FAKE_TOKENIZER_H_
