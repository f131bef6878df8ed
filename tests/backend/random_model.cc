#include "tests/backend/random_model.h"

#include <cmath>
#include <cstring>
#include <random>

#include "core/base/check.h"

namespace luna::backend {
namespace {

using model::Tensor;

class Builder {
 public:
  Builder(model::Model& model, uint32_t seed) : model_(model), random_(seed) {}

  // Linear makes its matrices in `dtype`, F32 at first, from now on.
  void set_linear_dtype(model::DType dtype) { linear_dtype_ = dtype; }

  Tensor Matrix(int64_t rows, int64_t cols, float scale) { return Make(rows, cols, 0.0f, scale); }
  // Outputs keep about the size of the inputs.
  Tensor Linear(int64_t rows, int64_t cols) {
    const float deviation = 1.0f / std::sqrt(static_cast<float>(cols));
    if (linear_dtype_ != model::DType::kF32) return MakeQ4(rows, cols, deviation);
    return Make(rows, cols, 0.0f, deviation);
  }
  Tensor Norm(int64_t size) { return Make(1, size, 1.0f, 0.3f); }
  Tensor Bias(int64_t size) { return Make(1, size, 0.0f, 0.2f); }

 private:
  Tensor Make(int64_t rows, int64_t cols, float mean, float deviation) {
    auto values = std::make_shared<std::vector<float>>(rows * cols);
    std::normal_distribution<float> distribution(mean, deviation);
    for (float& value : *values) value = distribution(random_);
    model_.storage.push_back(values);
    return {.dtype = model::DType::kF32,
            .rows = rows,
            .cols = cols,
            .data = reinterpret_cast<const std::byte*>(values->data())};
  }

  // Evenly spread levels, 0 in their middle, of about that deviation.
  Tensor MakeQ4(int64_t rows, int64_t cols, float deviation) {
    const int64_t blocks = rows * cols / 32;
    const bool has_min = linear_dtype_ == model::DType::kQ4_1;
    const size_t header = has_min ? 4 : 2, block_bytes = header + 16;
    auto bytes = std::make_shared<std::vector<uint8_t>>(blocks * block_bytes);
    for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random_());
    const _Float16 scale = deviation / 4.6f, min = scale * -7.5f;
    for (int64_t b = 0; b < blocks; ++b) {
      std::memcpy(&(*bytes)[b * block_bytes], &scale, sizeof(scale));
      if (has_min) std::memcpy(&(*bytes)[b * block_bytes + 2], &min, sizeof(min));
    }
    model_.storage.push_back(bytes);
    return {.dtype = linear_dtype_,
            .rows = rows,
            .cols = cols,
            .data = reinterpret_cast<const std::byte*>(bytes->data())};
  }

  model::Model& model_;
  std::mt19937 random_;
  model::DType linear_dtype_ = model::DType::kF32;
};

model::ModelConfig BaseConfig(const std::string& family) {
  model::ModelConfig c;
  c.name = family;
  c.num_layers = 3;
  c.vocab_size = 97;
  c.context_length = 96;
  c.hidden_size = 36;
  c.num_heads = 3;
  c.num_kv_heads = 3;
  c.head_dim = 12;
  c.intermediate_size = 100;
  return c;
}

model::ModelConfig RmsConfig(const std::string& family) {
  model::ModelConfig c = BaseConfig(family);
  c.norm = model::NormKind::kRmsNorm;
  c.norm_epsilon = 1e-6f;
  c.activation = model::Activation::kSilu;
  c.gated_ffn = true;
  return c;
}

model::ModelConfig MakeConfig(const std::string& family) {
  model::ModelConfig c;
  if (family == "gpt2" || family == "gpt2-plain") {
    c = BaseConfig(family);
    c.architecture = model::Architecture::kGpt2;
    c.learned_positions = true;
    c.tied_head = family == "gpt2";
    c.activation = family == "gpt2" ? model::Activation::kGeluTanh : model::Activation::kGeluErf;
  } else if (family == "llama" || family == "llama-q4") {
    c = RmsConfig(family);
    c.architecture = model::Architecture::kLlama;
    const bool whole_blocks = family == "llama-q4";
    c.hidden_size = whole_blocks ? 96 : 48;
    c.num_heads = 6;
    c.num_kv_heads = 2;
    c.head_dim = whole_blocks ? 16 : 8;
    c.intermediate_size = whole_blocks ? 160 : 56;
    c.tied_head = false;
    c.rope_scaling = {
        .factor = 4.0f, .low_freq_factor = 1.0f, .high_freq_factor = 4.0f, .original_context = 32};
  } else if (family == "qwen2") {
    c = RmsConfig(family);
    c.architecture = model::Architecture::kQwen2;
    c.hidden_size = 40;
    c.num_heads = 4;
    c.num_kv_heads = 2;
    c.head_dim = 20;
  } else {
    LUNA_CHECK(family == "gemma3") << family;
    c = RmsConfig(family);
    c.architecture = model::Architecture::kGemma3;
    c.num_layers = 6;
    c.hidden_size = 32;
    c.num_kv_heads = 1;
    c.head_dim = 24;
    c.intermediate_size = 50;
    c.activation = model::Activation::kGeluTanh;
    c.embedding_scale = std::sqrt(32.0f);
  }
  c.attention_scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim));
  c.layers.resize(c.num_layers);
  if (family == "gemma3") {
    for (int i = 0; i < c.num_layers; ++i) {
      const bool full = i % 3 == 2;
      c.layers[i] = {.sliding_window = full ? 0 : 7,
                     .rope_theta = full ? 1e6f : 1e4f,
                     .rope_linear_factor = full ? 8.0f : 1.0f};
    }
  }
  return c;
}

model::LayerWeights MakeLayer(const model::ModelConfig& c, Builder& b) {
  const bool biases = c.name == "gpt2";
  const bool gemma = c.architecture == model::Architecture::kGemma3;
  const bool qkv_biases = biases || c.architecture == model::Architecture::kQwen2;
  model::LayerWeights w;
  w.attention_norm = b.Norm(c.hidden_size);
  w.q = b.Linear(c.q_size(), c.hidden_size);
  w.k = b.Linear(c.kv_size(), c.hidden_size);
  w.v = b.Linear(c.kv_size(), c.hidden_size);
  w.attention_output = b.Linear(c.hidden_size, c.q_size());
  w.ffn_norm = b.Norm(c.hidden_size);
  if (c.gated_ffn) w.gate = b.Linear(c.intermediate_size, c.hidden_size);
  w.up = b.Linear(c.intermediate_size, c.hidden_size);
  w.down = b.Linear(c.hidden_size, c.intermediate_size);
  if (qkv_biases) {
    w.q_bias = b.Bias(c.q_size());
    w.k_bias = b.Bias(c.kv_size());
    w.v_bias = b.Bias(c.kv_size());
  }
  if (biases) {
    w.attention_norm_bias = b.Bias(c.hidden_size);
    w.ffn_norm_bias = b.Bias(c.hidden_size);
    w.attention_output_bias = b.Bias(c.hidden_size);
    w.up_bias = b.Bias(c.intermediate_size);
    w.down_bias = b.Bias(c.hidden_size);
  }
  if (gemma) {
    w.q_norm = b.Norm(c.head_dim);
    w.k_norm = b.Norm(c.head_dim);
    w.attention_post_norm = b.Norm(c.hidden_size);
    w.ffn_post_norm = b.Norm(c.hidden_size);
  }
  return w;
}

}  // namespace

std::vector<std::string> RandomModelFamilies() {
  return {"gpt2", "gpt2-plain", "llama", "llama-q4", "qwen2", "gemma3"};
}

std::shared_ptr<model::Model> MakeRandomModel(const std::string& family) {
  auto made = std::make_shared<model::Model>();
  made->config = MakeConfig(family);
  const model::ModelConfig& c = made->config;
  Builder b(*made, 20240229);
  model::Weights& w = made->weights;
  w.token_embedding = b.Matrix(c.vocab_size, c.hidden_size, 0.5f);
  if (c.learned_positions) {
    w.position_embedding = b.Matrix(c.context_length, c.hidden_size, 0.5f);
  }
  for (int i = 0; i < c.num_layers; ++i) {
    if (family == "llama-q4") {
      b.set_linear_dtype(i % 2 == 0 ? model::DType::kQ4_1 : model::DType::kQ4_0);
    }
    w.layers.push_back(MakeLayer(c, b));
  }
  w.final_norm = b.Norm(c.hidden_size);
  if (family == "gpt2") w.final_norm_bias = b.Bias(c.hidden_size);
  w.head = c.tied_head ? w.token_embedding : b.Matrix(c.vocab_size, c.hidden_size, 0.5f);
  return made;
}

float* MutableValues(const model::Tensor& tensor) {
  return reinterpret_cast<float*>(const_cast<std::byte*>(tensor.data));
}

}  // namespace luna::backend
