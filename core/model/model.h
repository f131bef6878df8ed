// A loaded model: its shape, its weights under their roles, its tokenizer's data.
#ifndef LUNA_CORE_MODEL_MODEL_H_
#define LUNA_CORE_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/config.h"
#include "core/model/tensor.h"
#include "core/text/tokenizer_data.h"

namespace luna::model {

// Every matrix is [outputs, inputs] row-major (readers transpose GPT-2's Conv1D and undo the RoPE
// permutation of GGUF's Llama Q and K). Norms and biases are always F32. An absent tensor is empty
// (operator bool is false).
struct LayerWeights {
  Tensor attention_norm, attention_norm_bias;      // [hidden]
  Tensor q, k, v;                                  // [q_size, hidden], [kv_size, hidden] x 2
  Tensor q_bias, k_bias, v_bias;                   // [q_size], [kv_size] x 2
  Tensor q_norm, k_norm;                           // [head_dim] RMSNorm per head (Gemma 3)
  Tensor attention_output, attention_output_bias;  // [hidden, q_size], [hidden]
  Tensor attention_post_norm;                      // [hidden] (Gemma 3)
  Tensor ffn_norm, ffn_norm_bias;                  // [hidden]
  Tensor gate, up, up_bias;                        // [intermediate, hidden] x 2, [intermediate]
  Tensor down, down_bias;                          // [hidden, intermediate], [hidden]
  Tensor ffn_post_norm;                            // [hidden] (Gemma 3)
};

struct Weights {
  Tensor token_embedding;     // [vocab, hidden]
  Tensor position_embedding;  // [context, hidden] (GPT-2)
  std::vector<LayerWeights> layers;
  Tensor final_norm, final_norm_bias;  // [hidden]
  Tensor head;                         // [vocab, hidden]; equals token_embedding when tied
};

// Const after loading and thread-safe. Norm weights are as they multiply (Gemma's +1 included).
class Model {
 public:
  ModelConfig config;
  Weights weights;
  text::TokenizerData tokenizer;  // exactly config.vocab_size tokens
  // Identifies the weights and tokenizer a session was saved under: a hash over config, tensor
  // names, shapes and sampled bytes. Hex.
  std::string digest;
  int64_t weights_bytes = 0;  // as stored in the file
  std::string source;  // file kind and weight types, for the log: "GGUF v3, Q4_1 x 210, F32 x 61"

  // Whatever keeps the bytes alive: file mappings, transposed or generated buffers.
  std::vector<std::shared_ptr<const void>> storage;
};

// Loads a Hugging Face directory, a .gguf file, a directory that holds exactly one .gguf file, or
// "dummy:luna" / "dummy:smollm2-135m" (seeded random weights in that shape and a byte tokenizer).
// NOT_FOUND if there is nothing at `path`; INVALID_ARGUMENT for a damaged file, naming the tensor
// or key, the value and the limit; UNIMPLEMENTED for what is not supported, naming it.
absl::StatusOr<std::shared_ptr<const Model>> LoadModel(std::string_view path);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_MODEL_H_
