// What a tokenizer is made of, whichever file it came from (tokenizer.json or GGUF metadata).
#ifndef LUNA_CORE_TEXT_TOKENIZER_DATA_H_
#define LUNA_CORE_TEXT_TOKENIZER_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/ids.h"

namespace luna::text {

enum class TokenizerKind {
  kByteLevelBpe,      // GPT-2, Llama 3, SmolLM2, Qwen2: bytes spelled as printable characters
  kSentencePieceBpe,  // Llama 2, Gemma: pieces with scores (or merges), "\u2581" for a space, byte
                      // fallback
};

enum class TokenType : uint8_t {
  kNormal,
  kUnknown,
  kControl,      // never comes out of ordinary text; its text is not shown
  kUserDefined,  // matched in the text before anything else is split
  kUnused,
  kByte,  // SentencePiece byte fallback, spelled <0xNN>
};

// Where add_space_prefix puts its space. A segment is the text between two added tokens.
enum class SpacePrefixRule {
  kEverySegment,    // whatever it begins with: SentencePiece, tokenizer.json's Prepend
  kMetaspaceFirst,  // tokenizer.json's Metaspace "first": only in front of the text, unless a space
                    // is there already
  kMetaspaceAlways,  // Metaspace "always": the same for every segment
};

struct TokenizerData {
  TokenizerKind kind = TokenizerKind::kByteLevelBpe;
  std::vector<std::string> tokens;  // [vocab_size] spelling in the file's own alphabet
  std::vector<TokenType> types;     // [vocab_size]
  std::vector<float> scores;        // [vocab_size] SentencePiece only, else empty
  std::vector<std::pair<std::string, std::string>>
      merges;  // in order of rank; may be empty for SPM

  // Byte-level BPE: how text is split before merging. Names as in GGUF: "gpt-2", "smollm",
  // "llama-bpe", "qwen2".
  std::string pre_tokenizer = "gpt-2";
  bool normalize_nfc = false;     // Qwen2
  bool ignore_merges = false;     // Llama 3: a whole piece that is a token is that token
  bool add_space_prefix = false;  // SentencePiece; byte-level: tokenizer.json's add_prefix_space
  SpacePrefixRule space_prefix_rule = SpacePrefixRule::kEverySegment;
  bool remove_extra_whitespaces = false;  // SentencePiece

  bool add_bos = false;
  bool add_eos = false;
  std::optional<TokenId> bos;
  std::optional<TokenId> unknown;
  // Every token that ends an answer, most usual first. Tokenizer::Create adds the control tokens
  // that are known to do so by their spelling ("<|im_end|>", "<|eot_id|>", ...).
  std::vector<TokenId> end_ids;
  std::string chat_template;  // Jinja source, empty if the file has none
};

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_TOKENIZER_DATA_H_
