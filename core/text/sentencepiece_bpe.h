// SentencePiece's BPE: no pattern, spaces are the character U+2581, and what the vocabulary cannot
// spell falls back to tokens for single bytes.
#ifndef LUNA_CORE_TEXT_SENTENCEPIECE_BPE_H_
#define LUNA_CORE_TEXT_SENTENCEPIECE_BPE_H_

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/text/merge_table.h"
#include "core/text/segmenting_tokenizer.h"
#include "core/text/token_trie.h"

namespace luna::text {

// Const after construction and thread-safe. With merges in the data (a tokenizer.json) these are
// the rule, and added tokens are matched in the text as it is written, as in Hugging Face's
// tokenizers. Without (GGUF) neighbours merge whenever their joined text is a token, the highest
// score first, and user-defined tokens are matched after spaces became U+2581, as in SentencePiece.
class SentencePieceBpe final : public SegmentingTokenizer {
 public:
  // `data` has passed Tokenizer::Create's checks. INVALID_ARGUMENT names the merge or byte that the
  // vocabulary lacks.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerData data);

 private:
  explicit SentencePieceBpe(TokenizerData data) : SegmentingTokenizer(std::move(data)) {}

  using IdsBySpelling = absl::flat_hash_map<std::string_view, TokenId>;

  absl::Status EncodeSegment(std::string_view segment, TextBefore before,
                             std::vector<TokenId>& ids) const override;
  absl::Status IndexTokens(IdsBySpelling& pieces);
  absl::Status IndexMerges(const IdsBySpelling& pieces);
  void IndexScores(const IdsBySpelling& pieces);
  void NoteInnerWordStarts(std::string_view piece);
  TokenId SymbolFor(std::string_view part, const IdsBySpelling& pieces);

  std::string Escape(std::string_view segment, TextBefore before) const;
  void EncodeText(std::string_view escaped, std::vector<TokenId>& ids) const;
  void AppendMerged(const std::vector<TokenId>& symbols, std::vector<TokenId>& ids) const;
  void AppendBytes(std::string_view character, std::vector<TokenId>& ids) const;

  MergeTable merges_;
  // Characters that are tokens, or parts of tokens without being one: those get the symbols from
  // vocab_size() on, in the order of extra_characters_.
  absl::flat_hash_map<char32_t, TokenId> symbols_;
  std::vector<std::string> extra_characters_;
  std::array<TokenId, 256> byte_tokens_;  // -1: none
  TokenTrie escaped_user_defined_;        // without merges in the data
  // Characters behind which a word may begin in the middle of a token. Behind all others a text can
  // be cut before a space, so that words are merged one by one. (Gemma has one such token,
  // ">\u2581</".)
  absl::flat_hash_set<char32_t> joined_to_next_word_;
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_SENTENCEPIECE_BPE_H_
