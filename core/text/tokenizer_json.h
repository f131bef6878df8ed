// Reads Hugging Face's tokenizer files into TokenizerData.
#ifndef LUNA_CORE_TEXT_TOKENIZER_JSON_H_
#define LUNA_CORE_TEXT_TOKENIZER_JSON_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/text/tokenizer_data.h"

namespace luna::text {

// `json` is the content of a tokenizer.json: a BPE model, byte-level (GPT-2, SmolLM2, Llama 3,
// Qwen2) or of SentencePiece's kind (Llama 2, TinyLlama, Mistral, Gemma). Added tokens marked
// special become kControl, the others kUserDefined. The file does not say what ends an answer:
// end_ids stays empty. INVALID_ARGUMENT for a damaged file, UNIMPLEMENTED for what is not
// supported; both name the part and its value.
absl::StatusOr<TokenizerData> ParseTokenizerJson(std::string_view json);

// Adds what tokenizer_config.json knows: bos_token, eos_token (put first in end_ids), unk_token,
// add_bos_token, add_eos_token, and chat_template (the one named "default" where there are
// several). A token that is not in the vocabulary is ignored. INVALID_ARGUMENT if `json` is not a
// JSON object.
absl::Status ApplyTokenizerConfigJson(std::string_view json, TokenizerData& data);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_TOKENIZER_JSON_H_
