// Models of seeded random weights, for benchmarks: the same bytes on every machine and at every
// start.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/model/loaders.h"
#include "core/text/byte_alphabet.h"

namespace luna::model {
namespace {

ModelConfig LunaConfig() {
  ModelConfig config;
  config.architecture = Architecture::kGpt2;
  config.num_layers = 8;
  config.hidden_size = 512;
  config.num_heads = 8;
  config.num_kv_heads = 8;
  config.head_dim = 64;
  config.intermediate_size = 2048;
  config.vocab_size = 4096;
  config.context_length = 512;
  config.norm = NormKind::kLayerNorm;
  config.activation = Activation::kGeluTanh;
  config.learned_positions = true;
  config.attention_scale = 0.125f;
  config.layers.resize(8);
  return config;
}

ModelConfig SmolLm2Config() {
  ModelConfig config;
  config.architecture = Architecture::kLlama;
  config.num_layers = 30;
  config.hidden_size = 576;
  config.num_heads = 9;
  config.num_kv_heads = 3;
  config.head_dim = 64;
  config.intermediate_size = 1536;
  config.vocab_size = 49152;
  config.context_length = 8192;
  config.norm = NormKind::kRmsNorm;
  config.activation = Activation::kSilu;
  config.gated_ffn = true;
  config.attention_scale = 0.125f;
  config.layers.resize(30);
  for (LayerConfig& layer : config.layers) layer.rope_theta = 100000.0f;
  return config;
}

// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
uint64_t SplitMix64(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Makes tensors one after another; each has its own stream of random numbers.
class RandomTensors {
 public:
  RandomTensors(DType matrix_dtype, Storage& storage)
      : matrix_dtype_(matrix_dtype), storage_(storage) {}

  // [rows, cols], uniform around 0 with standard deviation `deviation`.
  Tensor Matrix(int64_t rows, int64_t cols, float deviation) {
    Tensor tensor = Make(matrix_dtype_, rows, cols);
    Fill(tensor, 0.0f, deviation);
    return tensor;
  }
  // A layer that keeps the variance of its input.
  Tensor Linear(int64_t rows, int64_t cols) {
    return Matrix(rows, cols, 1.0f / std::sqrt(static_cast<float>(cols)));
  }
  // [size], uniform around `mean`.
  Tensor Vector(int64_t size, float mean, float deviation) {
    Tensor tensor = Make(DType::kF32, 1, size);
    Fill(tensor, mean, deviation);
    return tensor;
  }
  int64_t bytes() const { return bytes_; }

 private:
  Tensor Make(DType dtype, int64_t rows, int64_t cols) {
    Tensor tensor{dtype, rows, cols, nullptr};
    target_ = AllocateIn(storage_, tensor.bytes());
    tensor.data = target_;
    bytes_ += tensor.bytes();
    return tensor;
  }

  void Fill(const Tensor& tensor, float mean, float deviation) {
    uint64_t state = ++stream_ << 32;
    const int64_t count = tensor.rows * tensor.cols;
    const float step = deviation * std::sqrt(3.0f) * 0x1p-31f;  // of a signed 32-bit number
    for (int64_t i = 0; i < count; i += 2) {
      const uint64_t bits = SplitMix64(state);
      Put(tensor.dtype, i, mean + step * static_cast<float>(static_cast<int32_t>(bits)));
      if (i + 1 < count) {
        Put(tensor.dtype, i + 1,
            mean + step * static_cast<float>(static_cast<int32_t>(bits >> 32)));
      }
    }
  }

  void Put(DType dtype, int64_t index, float value) {
    if (dtype == DType::kF32) {
      std::memcpy(target_ + index * 4, &value, 4);
    } else {
      const auto half = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      std::memcpy(target_ + index * 2, &half, 2);
    }
  }

  const DType matrix_dtype_;
  Storage& storage_;
  std::byte* target_ = nullptr;  // of the tensor being made
  uint64_t stream_ = 0;
  int64_t bytes_ = 0;
};

// Layers outweigh the embedding in the residual stream, or the tied head would only repeat its
// input.
constexpr float kEmbeddingDeviation = 0.08f;
constexpr float kBiasDeviation = 0.02f;

LayerWeights MakeLayer(const ModelConfig& config, RandomTensors& random) {
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const bool biases = config.architecture == Architecture::kGpt2;
  LayerWeights w;
  w.attention_norm = random.Vector(hidden, 1.0f, 0.05f);
  w.q = random.Linear(config.q_size(), hidden);
  w.k = random.Linear(config.kv_size(), hidden);
  w.v = random.Linear(config.kv_size(), hidden);
  w.attention_output = random.Linear(hidden, config.q_size());
  w.ffn_norm = random.Vector(hidden, 1.0f, 0.05f);
  if (config.gated_ffn) w.gate = random.Linear(inner, hidden);
  w.up = random.Linear(inner, hidden);
  w.down = random.Linear(hidden, inner);
  if (!biases) return w;
  w.attention_norm_bias = random.Vector(hidden, 0.0f, kBiasDeviation);
  w.q_bias = random.Vector(config.q_size(), 0.0f, kBiasDeviation);
  w.k_bias = random.Vector(config.kv_size(), 0.0f, kBiasDeviation);
  w.v_bias = random.Vector(config.kv_size(), 0.0f, kBiasDeviation);
  w.attention_output_bias = random.Vector(hidden, 0.0f, kBiasDeviation);
  w.ffn_norm_bias = random.Vector(hidden, 0.0f, kBiasDeviation);
  w.up_bias = random.Vector(inner, 0.0f, kBiasDeviation);
  w.down_bias = random.Vector(hidden, 0.0f, kBiasDeviation);
  return w;
}

void MakeWeights(const ModelConfig& config, RandomTensors& random, Weights& weights) {
  const int64_t hidden = config.hidden_size;
  weights.token_embedding = random.Matrix(config.vocab_size, hidden, kEmbeddingDeviation);
  weights.head = weights.token_embedding;
  if (config.learned_positions) {
    weights.position_embedding = random.Matrix(config.context_length, hidden, kEmbeddingDeviation);
    weights.final_norm_bias = random.Vector(hidden, 0.0f, kBiasDeviation);
  }
  weights.final_norm = random.Vector(hidden, 1.0f, 0.05f);
  for (int i = 0; i < config.num_layers; ++i) weights.layers.push_back(MakeLayer(config, random));
}

// Bytes first, then words that no text is encoded to but that a random model does say, then the
// end.
text::TokenizerData MakeTokenizer(int vocab_size) {
  text::TokenizerData data;
  data.kind = text::TokenizerKind::kByteLevelBpe;
  data.pre_tokenizer = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    data.tokens.push_back(text::SpellByte(static_cast<uint8_t>(byte)));
  const std::string space = text::SpellByte(' ');
  for (int id = 256; id < vocab_size - 1; ++id) {
    data.tokens.push_back(absl::StrFormat("%sw%d", space, id));
  }
  data.types.assign(data.tokens.size(), text::TokenType::kNormal);
  data.tokens.push_back("<|endoftext|>");
  data.types.push_back(text::TokenType::kControl);
  data.end_ids = {vocab_size - 1};
  return data;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> MakeDummyModel(std::string_view shape) {
  auto model = std::make_unique<Model>();
  DType dtype = DType::kF32;
  if (shape == "luna") {
    model->config = LunaConfig();
  } else if (shape == "smollm2-135m") {
    model->config = SmolLm2Config();
    dtype = DType::kBF16;
  } else {
    return absl::NotFoundError(absl::StrCat("there is no dummy model \"", AbslView(shape),
                                            "\"; luna and smollm2-135m are there"));
  }
  model->config.name = absl::StrCat("dummy:", AbslView(shape));
  LUNA_RETURN_IF_ERROR(model->config.Validate());
  RandomTensors random(dtype, model->storage);
  MakeWeights(model->config, random, model->weights);
  model->tokenizer = MakeTokenizer(model->config.vocab_size);
  model->weights_bytes = random.bytes();
  model->source = absl::StrCat("random weights, ", AbslView(DTypeName(dtype)));
  return model;
}

}  // namespace luna::model
