// Byte-level BPE, as GPT-2 introduced it: a pattern cuts the text into pieces, and the bytes of
// each piece are merged by rank.
#ifndef LUNA_CORE_TEXT_BYTE_LEVEL_BPE_H_
#define LUNA_CORE_TEXT_BYTE_LEVEL_BPE_H_

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/text/merge_table.h"
#include "core/text/pre_tokenizer.h"
#include "core/text/segmenting_tokenizer.h"

namespace luna::text {

// Const after construction and thread-safe.
class ByteLevelBpe final : public SegmentingTokenizer {
 public:
  // `data` has passed Tokenizer::Create's checks. INVALID_ARGUMENT for a merge of or into a token
  // that is not there; UNIMPLEMENTED for an unknown pre-tokenizer.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Create(TokenizerData data);

 private:
  explicit ByteLevelBpe(TokenizerData data) : SegmentingTokenizer(std::move(data)) {}

  absl::Status EncodeSegment(std::string_view segment, TextBefore before,
                             std::vector<TokenId>& ids) const override;
  void IndexTokens();
  absl::Status IndexMerges();
  void EncodePiece(std::string_view piece, BpeMerger& merger, std::vector<TokenId>& symbols,
                   std::vector<TokenId>& ids) const;

  std::unique_ptr<PreTokenizer> pre_tokenizer_;
  std::array<TokenId, 256> byte_tokens_;  // -1: the vocabulary has no token for that byte
  MergeTable merges_;
  // ignore_merges only: bytes -> token, for pieces that are tokens as they stand.
  absl::flat_hash_map<std::string, TokenId> whole_pieces_;
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_BYTE_LEVEL_BPE_H_
