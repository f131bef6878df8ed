// The shape of a model, whichever file it came from.
#ifndef LUNA_CORE_MODEL_CONFIG_H_
#define LUNA_CORE_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace luna::model {

enum class Architecture { kGpt2, kLlama, kQwen2, kGemma3 };
std::string_view ArchitectureName(Architecture architecture);

enum class NormKind { kLayerNorm, kRmsNorm };
enum class Activation { kGeluTanh, kGeluErf, kSilu };

// RoPE frequency scaling of Llama 3.1 ("rope_type": "llama3"). factor == 1: none.
struct RopeScaling {
  float factor = 1.0f;
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
  int original_context = 8192;
};

struct LayerConfig {
  int sliding_window = 0;  // 0: attends to everything; W: position p sees (p - W, p]
  float rope_theta = 10000.0f;
  // Positions are divided by it (Gemma 3's full layers, 4B and up).
  float rope_linear_factor = 1.0f;
};

struct ModelConfig {
  Architecture architecture = Architecture::kGpt2;
  std::string name;
  int num_layers = 0;
  int hidden_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int intermediate_size = 0;
  int vocab_size = 0;
  int context_length = 0;  // tokens, the model's own limit

  NormKind norm = NormKind::kLayerNorm;
  float norm_epsilon = 1e-5f;
  Activation activation = Activation::kGeluTanh;
  bool gated_ffn = false;  // activation(gate) * up
  // GPT-2's wpe; otherwise RoPE, half-split ("NeoX") pairs (i, i + head_dim/2).
  bool learned_positions = false;
  bool tied_head = true;         // the LM head is the token embedding
  float embedding_scale = 1.0f;  // Gemma: sqrt(hidden_size)
  float attention_scale = 0.0f;  // multiplies q . k; 1/sqrt(head_dim) for most
  RopeScaling rope_scaling;
  // Frequency i is divided by factor i: [head_dim / 2], or empty. How GGUF carries Llama 3.1's
  // scaling (`rope_scaling` is then off).
  std::vector<float> rope_freq_factors;
  std::vector<LayerConfig> layers;  // [num_layers]

  // Number of elements of one token's keys (or values) in one layer.
  int kv_size() const { return num_kv_heads * head_dim; }
  int q_size() const { return num_heads * head_dim; }
  // Refuses sizes that are zero, negative, inconsistent, or whose products could overflow.
  absl::Status Validate() const;
};

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_CONFIG_H_
