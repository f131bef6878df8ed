#include "tests/fakes/fake_tokenizer.h"

#include <string>
#include <utility>

namespace luna::fakes {
namespace {

text::TokenizerData Data() {
  text::TokenizerData data;
  for (int byte = 0; byte < 256; ++byte) {
    data.tokens.push_back(std::string(1, static_cast<char>(byte)));
    data.types.push_back(text::TokenType::kNormal);
  }
  for (const char* spelling : {"<end>", "<other end>", "<turn>", "<system>"}) {
    data.tokens.push_back(spelling);
    data.types.push_back(text::TokenType::kControl);
  }
  data.end_ids = {kEnd, kOtherEnd};
  return data;
}

}  // namespace

FakeTokenizer::FakeTokenizer() : Tokenizer(Data()) {}

absl::StatusOr<std::vector<TokenId>> FakeTokenizer::Encode(std::string_view text,
                                                           const text::EncodeOptions&) const {
  return Bytes(text);
}

std::string_view FakeTokenizer::TokenBytes(TokenId id, bool show_special) const {
  if (IsControl(id) && !show_special) return {};
  return data_.tokens[id];
}

std::vector<TokenId> Bytes(std::string_view text) {
  std::vector<TokenId> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

}  // namespace luna::fakes
