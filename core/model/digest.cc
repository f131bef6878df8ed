#include <algorithm>
#include <bit>
#include <cstdint>
#include <string_view>

#include "absl/strings/str_format.h"
#include "core/model/loaders.h"

namespace luna::model {
namespace {

// 128 bits in two lanes of multiply-and-xorshift. Tells models apart; it is no defence against
// somebody who builds a collision.
class Hasher {
 public:
  void Add(uint64_t value) {
    a_ = Mix(a_ ^ value);
    b_ = Mix(b_ + value * 0x9e3779b97f4a7c15u + 1);
  }
  void Add(float value) { Add(uint64_t{std::bit_cast<uint32_t>(value)}); }
  void Add(std::string_view bytes) {
    Add(uint64_t{bytes.size()});
    for (size_t i = 0; i < bytes.size(); i += 8) {
      uint64_t word = 0;
      const size_t end = std::min(bytes.size(), i + 8);
      for (size_t k = i; k < end; ++k) {
        word |= uint64_t{static_cast<unsigned char>(bytes[k])} << (8 * (k - i));
      }
      Add(word);
    }
  }
  std::string Hex() const { return absl::StrFormat("%016x%016x", a_, b_); }

 private:
  static uint64_t Mix(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
    return x ^ (x >> 29);
  }

  uint64_t a_ = 0x243f6a8885a308d3u;
  uint64_t b_ = 0x13198a2e03707344u;
};

void AddConfig(const ModelConfig& config, Hasher& hasher) {
  for (const int value :
       {static_cast<int>(config.architecture), config.num_layers, config.hidden_size,
        config.num_heads, config.num_kv_heads, config.head_dim, config.intermediate_size,
        config.vocab_size, config.context_length, static_cast<int>(config.norm),
        static_cast<int>(config.activation), int{config.gated_ffn}, int{config.learned_positions},
        int{config.tied_head}, config.rope_scaling.original_context}) {
    hasher.Add(static_cast<uint64_t>(value));
  }
  for (const float value : {config.norm_epsilon, config.embedding_scale, config.attention_scale,
                            config.rope_scaling.factor, config.rope_scaling.low_freq_factor,
                            config.rope_scaling.high_freq_factor}) {
    hasher.Add(value);
  }
  for (const float factor : config.rope_freq_factors) hasher.Add(factor);
  for (const LayerConfig& layer : config.layers) {
    hasher.Add(static_cast<uint64_t>(layer.sliding_window));
    hasher.Add(layer.rope_theta);
    hasher.Add(layer.rope_linear_factor);
  }
}

// Small tensors whole, of large ones 64 windows of 64 bytes, the first and the last among them.
void AddTensor(const Tensor& tensor, Hasher& hasher) {
  hasher.Add(static_cast<uint64_t>(tensor.dtype));
  hasher.Add(static_cast<uint64_t>(tensor.rows));
  hasher.Add(static_cast<uint64_t>(tensor.cols));
  if (!tensor) return;
  constexpr int64_t kWindows = 64;
  constexpr int64_t kWindowBytes = 64;
  const int64_t bytes = tensor.bytes();
  const auto view = [&](int64_t offset, int64_t size) {
    return std::string_view(reinterpret_cast<const char*>(tensor.data) + offset,
                            static_cast<size_t>(size));
  };
  if (bytes <= kWindows * kWindowBytes) return hasher.Add(view(0, bytes));
  for (int64_t i = 0; i < kWindows; ++i) {
    hasher.Add(view((bytes - kWindowBytes) / (kWindows - 1) * i, kWindowBytes));
  }
  hasher.Add(view(bytes - kWindowBytes, kWindowBytes));
}

void AddWeights(const Weights& weights, Hasher& hasher) {
  for (const Tensor& tensor : {weights.token_embedding, weights.position_embedding,
                               weights.final_norm, weights.final_norm_bias, weights.head}) {
    AddTensor(tensor, hasher);
  }
  for (const LayerWeights& w : weights.layers) {
    for (const Tensor& tensor : {w.attention_norm,
                                 w.attention_norm_bias,
                                 w.q,
                                 w.k,
                                 w.v,
                                 w.q_bias,
                                 w.k_bias,
                                 w.v_bias,
                                 w.q_norm,
                                 w.k_norm,
                                 w.attention_output,
                                 w.attention_output_bias,
                                 w.attention_post_norm,
                                 w.ffn_norm,
                                 w.ffn_norm_bias,
                                 w.gate,
                                 w.up,
                                 w.up_bias,
                                 w.down,
                                 w.down_bias,
                                 w.ffn_post_norm}) {
      AddTensor(tensor, hasher);
    }
  }
}

void AddTokenizer(const text::TokenizerData& data, Hasher& hasher) {
  for (const std::string& token : data.tokens) hasher.Add(std::string_view(token));
  for (const text::TokenType type : data.types) hasher.Add(static_cast<uint64_t>(type));
  for (const float score : data.scores) hasher.Add(score);
  for (const auto& [left, right] : data.merges) {
    hasher.Add(std::string_view(left));
    hasher.Add(std::string_view(right));
  }
  hasher.Add(std::string_view(data.pre_tokenizer));
  hasher.Add(std::string_view(data.chat_template));
  for (const TokenId id : data.end_ids) hasher.Add(static_cast<uint64_t>(id));
  hasher.Add(static_cast<uint64_t>(data.bos.value_or(-1)));
}

}  // namespace

std::string ModelDigest(const Model& model) {
  Hasher hasher;
  AddConfig(model.config, hasher);
  AddWeights(model.weights, hasher);
  AddTokenizer(model.tokenizer, hasher);
  return hasher.Hex();
}

}  // namespace luna::model
