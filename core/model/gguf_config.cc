#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/model/gguf_model.h"

namespace luna::model {
namespace {

absl::StatusOr<Architecture> ReadArchitecture(GgufFields& general) {
  const std::string name = general.String("architecture", "");
  for (const Architecture architecture :
       {Architecture::kGpt2, Architecture::kLlama, Architecture::kQwen2, Architecture::kGemma3}) {
    if (name == ArchitectureName(architecture)) return architecture;
  }
  general.Unsupported("architecture", "gpt2, llama, qwen2 and gemma3 are");
  return general.status();
}

// A key that must be absent, false or 0.
void RefuseFeature(GgufFields& fields, std::string_view key) {
  const GgufValue* value = fields.Find(key);
  if (value == nullptr) return;
  const auto* flag = std::get_if<bool>(value);
  const bool off = flag != nullptr ? !*flag : fields.Number(key, 0) == 0;
  if (!off) fields.Unsupported(key, "");
}

float Float(GgufFields& fields, std::string_view key, double fallback) {
  return static_cast<float>(fields.Number(key, fallback));
}

void ReadSizes(GgufFields& fields, ModelConfig& config) {
  config.num_layers = fields.RequiredInt("block_count");
  config.hidden_size = fields.RequiredInt("embedding_length");
  config.intermediate_size = fields.RequiredInt("feed_forward_length");
  config.num_heads = fields.RequiredInt("attention.head_count");
  config.num_kv_heads = fields.Int("attention.head_count_kv", config.num_heads);
  config.context_length = fields.RequiredInt("context_length");
  const int heads = std::max(config.num_heads, 1);
  config.head_dim = fields.Int("attention.key_length", config.hidden_size / heads);
  if (fields.Find("attention.key_length") == nullptr && config.hidden_size % heads != 0) {
    fields.Invalid("embedding_length",
                   absl::StrCat("it must be a multiple of the ", heads, " heads"));
  }
  if (fields.Int("attention.value_length", config.head_dim) != config.head_dim) {
    fields.Unsupported("attention.value_length",
                       absl::StrCat("the size of keys, ", config.head_dim, ", is"));
  }
  config.attention_scale = 1.0f / std::sqrt(static_cast<float>(std::max(config.head_dim, 1)));
  config.layers.resize(static_cast<size_t>(std::clamp(config.num_layers, 0, 1 << 16)));
}

// The factor that positions are divided by.
float ReadLinearFactor(GgufFields& fields) {
  const std::string type = fields.String("rope.scaling.type", "");
  if (type == "linear") return Float(fields, "rope.scaling.factor", 1.0);
  if (type != "" && type != "none") {
    fields.Unsupported("rope.scaling.type", "none and linear are");
  }
  return Float(fields, "rope.scale_linear", 1.0);  // how older files say it
}

void ReadRope(GgufFields& fields, ModelConfig& config) {
  if (fields.Int("rope.dimension_count", config.head_dim) != config.head_dim) {
    fields.Unsupported("rope.dimension_count",
                       absl::StrCat("the head size, ", config.head_dim, ", is"));
  }
  const bool gemma = config.architecture == Architecture::kGemma3;
  const float theta = Float(fields, "rope.freq_base", gemma ? 1e6 : 1e4);
  const float factor = ReadLinearFactor(fields);
  // Only Gemma 3 has sliding layers here; they keep the plain positions of training.
  const float sliding_theta = gemma ? Float(fields, "rope.freq_base_swa", 1e4) : theta;
  for (LayerConfig& layer : config.layers) {
    const bool sliding = layer.sliding_window > 0;
    layer.rope_theta = sliding ? sliding_theta : theta;
    layer.rope_linear_factor = sliding ? 1.0f : factor;
  }
}

void ReadRmsNorm(GgufFields& fields, ModelConfig& config) {
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon = Float(fields, "attention.layer_norm_rms_epsilon", 1e-6);
  config.gated_ffn = true;
  RefuseFeature(fields, "expert_count");
}

void ReadLlama(GgufFields& fields, ModelConfig& config) {
  ReadRmsNorm(fields, config);
  config.activation = Activation::kSilu;
  const int window = fields.Int("attention.sliding_window", 0);
  if (window != 0 && window < config.context_length) {
    fields.Unsupported("attention.sliding_window", "for this architecture the whole context is");
  }
  ReadRope(fields, config);
}

// Which layers see only the window: a flag for each, or every layer but each `pattern`-th.
void ReadGemma3Windows(GgufFields& fields, ModelConfig& config) {
  constexpr char kPattern[] = "attention.sliding_window_pattern";
  const int window = fields.RequiredInt("attention.sliding_window");
  if (window <= 0) return fields.Invalid("attention.sliding_window", "it must be above 0");
  const GgufValue* value = fields.Find(kPattern);
  if (const auto* array = value == nullptr ? nullptr : std::get_if<GgufArray>(value)) {
    const auto flags = GgufInts(*array);
    if (!flags || flags->size() != config.layers.size()) {
      return fields.Invalid(kPattern, absl::StrCat("it must hold a flag for each of the ",
                                                   config.num_layers, " layers"));
    }
    for (size_t i = 0; i < flags->size(); ++i) {
      config.layers[i].sliding_window = (*flags)[i] != 0 ? window : 0;
    }
    return;
  }
  const int pattern = fields.Int(kPattern, 6);
  if (pattern <= 0) return fields.Invalid(kPattern, "it must be above 0");
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const bool full = (i + 1) % static_cast<size_t>(pattern) == 0;
    config.layers[i].sliding_window = full ? 0 : window;
  }
}

void ReadGemma3(GgufFields& fields, ModelConfig& config) {
  ReadRmsNorm(fields, config);
  config.activation = Activation::kGeluTanh;
  config.embedding_scale = std::sqrt(static_cast<float>(std::max(config.hidden_size, 1)));
  // The file does not carry query_pre_attn_scalar. It is the head size but for the 27B model, which
  // has 62 layers and divides by the width of a head's share instead.
  if (config.num_layers == 62 && config.num_heads > 0) {
    config.attention_scale =
        1.0f / std::sqrt(static_cast<float>(config.hidden_size) / config.num_heads);
  }
  RefuseFeature(fields, "attn_logit_softcapping");
  RefuseFeature(fields, "final_logit_softcapping");
  ReadGemma3Windows(fields, config);
  ReadRope(fields, config);
}

void ReadGpt2(GgufFields& fields, ModelConfig& config) {
  config.norm = NormKind::kLayerNorm;
  config.norm_epsilon = Float(fields, "attention.layer_norm_epsilon", 1e-5);
  config.activation = Activation::kGeluTanh;
  config.learned_positions = true;
  if (config.num_kv_heads != config.num_heads ||
      config.num_heads * int64_t{config.head_dim} != config.hidden_size) {
    fields.Unsupported("attention.head_count",
                       "heads that divide the width, each with its own "
                       "keys, are");
  }
}

}  // namespace

absl::StatusOr<ModelConfig> ReadGgufConfig(const GgufFile& file) {
  GgufFields general(file, "general.");
  ModelConfig config;
  LUNA_ASSIGN_OR_RETURN(config.architecture, ReadArchitecture(general));
  GgufFields split(file, "split.");
  if (split.Int("count", 1) > 1) split.Unsupported("count", "a model in one file is");
  LUNA_RETURN_IF_ERROR(split.status());

  const std::string_view architecture = ArchitectureName(config.architecture);
  GgufFields fields(file, absl::StrCat(AbslView(architecture), "."));
  ReadSizes(fields, config);
  GgufFields tokenizer(file, "tokenizer.ggml.");
  const GgufValue* tokens = tokenizer.Find("tokens");
  const auto* array = tokens == nullptr ? nullptr : std::get_if<GgufArray>(tokens);
  if (array == nullptr) {
    tokenizer.Invalid("tokens", "it must be an array");
    return tokenizer.status();
  }
  config.vocab_size = static_cast<int>(std::min<uint64_t>(array->count, 1 << 30));
  switch (config.architecture) {
    case Architecture::kGpt2:
      ReadGpt2(fields, config);
      break;
    case Architecture::kLlama:
    case Architecture::kQwen2:
      ReadLlama(fields, config);
      break;
    case Architecture::kGemma3:
      ReadGemma3(fields, config);
      break;
  }
  LUNA_RETURN_IF_ERROR(fields.status());
  LUNA_RETURN_IF_ERROR(config.Validate());
  return config;
}

}  // namespace luna::model
