#include "core/text/segmenting_tokenizer.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/text/utf8.h"

namespace luna::text {

absl::StatusOr<std::vector<TokenId>> SegmentingTokenizer::Encode(
    std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the text has ", text.size(), " bytes; the limit is ", kMaxTextBytes));
  }
  LUNA_RETURN_IF_ERROR(CheckUtf8(text));
  std::vector<TokenId> ids;
  ids.reserve(text.size() / 3 + 2);
  if (options.add_special && data_.add_bos) ids.push_back(*data_.bos);
  const TokenTrie& added = options.parse_special ? with_specials_ : plain_;
  for (size_t offset = 0; offset < text.size();) {
    const TokenTrie::Match match =
        added.empty() ? TokenTrie::Match{text.size(), 0, -1} : added.FindNext(text, offset);
    if (match.offset > offset) {
      const TextBefore before = offset == 0 ? options.before : TextBefore::kAddedToken;
      LUNA_RETURN_IF_ERROR(EncodeSegment(text.substr(offset, match.offset - offset), before, ids));
    }
    if (match.size > 0) ids.push_back(match.id);
    offset = match.offset + match.size;
  }
  if (options.add_special && data_.add_eos) ids.push_back(data_.end_ids.front());
  return ids;
}

std::string_view SegmentingTokenizer::TokenBytes(TokenId id, bool show_special) const {
  LUNA_CHECK(id >= 0 && id < vocab_size()) << "token " << id << " of " << vocab_size();
  const TokenType type = data_.types[id];
  if (!show_special && (type == TokenType::kControl || type == TokenType::kUnknown)) return {};
  const size_t begin = id == 0 ? 0 : ends_[id - 1];
  return std::string_view(bytes_).substr(begin, ends_[id] - begin);
}

void SegmentingTokenizer::AddPlainSpelling(std::string_view spelling, TokenId id) {
  if (spelling.empty()) return;
  plain_.Add(spelling, id);
  with_specials_.Add(spelling, id);
}

void SegmentingTokenizer::AddSpecialSpelling(std::string_view spelling, TokenId id) {
  if (!spelling.empty()) with_specials_.Add(spelling, id);
}

void SegmentingTokenizer::AppendTokenBytes(std::string_view bytes) {
  bytes_.append(bytes);
  ends_.push_back(bytes_.size());
}

}  // namespace luna::text
