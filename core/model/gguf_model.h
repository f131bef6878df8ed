// What a GGUF file's metadata says about a model and its tokenizer.
#ifndef LUNA_CORE_MODEL_GGUF_MODEL_H_
#define LUNA_CORE_MODEL_GGUF_MODEL_H_

#include "absl/status/statusor.h"
#include "core/model/config.h"
#include "core/model/gguf.h"
#include "core/text/tokenizer_data.h"

namespace luna::model {

// Architectures gpt2, llama (Mistral comes as llama), qwen2 and gemma3. The result is valid but for
// `tied_head` and `rope_freq_factors`, which the tensors decide; `name` stays empty. UNIMPLEMENTED
// names the architecture, or the key and value, that is not supported; INVALID_ARGUMENT what is
// wrong.
absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file);

// tokenizer.ggml.*: byte-level BPE ("gpt2") or SentencePiece-BPE ("llama"). Errors as above.
absl::StatusOr<text::TokenizerData> ReadGgufTokenizer(const GgufFile& file,
                                                      Architecture architecture);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_GGUF_MODEL_H_
