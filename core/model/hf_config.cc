#include "core/model/hf_config.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/model/hf_rope.h"
#include "core/model/json_fields.h"
#include "core/text/json_object.h"

namespace luna::model {
namespace {

using nlohmann::json;

constexpr char kFile[] = "config.json";

struct KnownModel {
  std::string_view class_name;
  std::string_view model_type;
  Architecture architecture;
};

constexpr KnownModel kKnownModels[] = {
    {"GPT2LMHeadModel", "gpt2", Architecture::kGpt2},
    {"LlamaForCausalLM", "llama", Architecture::kLlama},
    {"MistralForCausalLM", "mistral", Architecture::kLlama},
    {"Qwen2ForCausalLM", "qwen2", Architecture::kQwen2},
    {"Gemma3ForCausalLM", "gemma3_text", Architecture::kGemma3},
};

// The class in "architectures" decides; "model_type" where there is none.
const KnownModel* FindModel(JsonFields& fields) {
  const json* classes = fields.Find("architectures");
  if (classes != nullptr &&
      (!classes->is_array() || classes->size() != 1 || !classes->front().is_string())) {
    fields.Invalid("architectures", "it must list one name");
    return nullptr;
  }
  const std::string model_type = fields.String("model_type", "");
  for (const KnownModel& known : kKnownModels) {
    const bool same = classes != nullptr
                          ? classes->front().get_ref<const std::string&>() == known.class_name
                          : model_type == known.model_type;
    if (same) return &known;
  }
  fields.Unsupported(classes != nullptr ? "architectures" : "model_type",
                     "GPT2LMHeadModel, LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM and "
                     "Gemma3ForCausalLM are");
  return nullptr;
}

void ReadActivation(JsonFields& fields, std::string_view key, std::string_view fallback,
                    ModelConfig& config) {
  const std::string name = fields.String(key, fallback);
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") {
    config.activation = Activation::kGeluTanh;
  } else if (name == "gelu") {
    config.activation = Activation::kGeluErf;
  } else if (name == "silu" || name == "swish") {
    config.activation = Activation::kSilu;
  } else {
    fields.Unsupported(key, "gelu, gelu_new, gelu_pytorch_tanh and silu are");
  }
}

// A key that must be absent, null, false or 0.
void RefuseFeature(JsonFields& fields, std::string_view key) {
  const json* value = fields.Find(key);
  if (value == nullptr || *value == json(false) || *value == json(0)) return;
  fields.Unsupported(key, "");
}

float InverseSquareRoot(JsonFields& fields, std::string_view key, double value) {
  if (value > 0.0 && std::isfinite(value)) return static_cast<float>(1.0 / std::sqrt(value));
  fields.Invalid(key, "it must be finite and above 0");
  return 1.0f;
}

void ReadGpt2(JsonFields& fields, ModelConfig& config) {
  config.hidden_size = fields.Int("n_embd", 768);
  config.num_layers = fields.Int("n_layer", 12);
  config.num_heads = fields.Int("n_head", 12);
  config.num_kv_heads = config.num_heads;
  config.vocab_size = fields.Int("vocab_size", 50257);
  config.context_length = fields.Int("n_positions", 1024);
  const int64_t four = std::clamp<int64_t>(4 * int64_t{config.hidden_size}, 0, 1 << 30);
  config.intermediate_size = fields.Int("n_inner", static_cast<int>(four));
  config.norm = NormKind::kLayerNorm;
  config.norm_epsilon = static_cast<float>(fields.Number("layer_norm_epsilon", 1e-5));
  ReadActivation(fields, "activation_function", "gelu_new", config);
  config.learned_positions = true;
  config.tied_head = fields.Bool("tie_word_embeddings", true);
  if (config.num_heads > 0) {
    config.head_dim = config.hidden_size / config.num_heads;
    if (config.hidden_size % config.num_heads != 0) {
      fields.Invalid("n_embd", absl::StrCat("it must be a multiple of n_head ", config.num_heads));
    }
  }
  const bool scaled = fields.Bool("scale_attn_weights", true);
  config.attention_scale =
      scaled ? InverseSquareRoot(fields, "n_embd", std::max(config.head_dim, 1)) : 1.0f;
  RefuseFeature(fields, "scale_attn_by_inverse_layer_idx");
  RefuseFeature(fields, "add_cross_attention");
  config.layers.resize(std::clamp(config.num_layers, 0, 1 << 16));
}

// What Llama, Mistral, Qwen2 and Gemma 3 have in common.
void ReadRmsNormFamily(JsonFields& fields, ModelConfig& config) {
  config.hidden_size = fields.RequiredInt("hidden_size");
  config.num_layers = fields.RequiredInt("num_hidden_layers");
  config.num_heads = fields.RequiredInt("num_attention_heads");
  config.num_kv_heads = fields.Int("num_key_value_heads", config.num_heads);
  config.intermediate_size = fields.RequiredInt("intermediate_size");
  config.vocab_size = fields.RequiredInt("vocab_size");
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon = static_cast<float>(fields.Number("rms_norm_eps", 1e-6));
  config.gated_ffn = true;
  RefuseFeature(fields, "mlp_bias");
  RefuseFeature(fields, "num_experts");
  RefuseFeature(fields, "num_local_experts");
  config.layers.resize(std::clamp(config.num_layers, 0, 1 << 16));
}

// `fallback` is the class's own default; 0: the width divided by the heads.
void ReadHeadDim(JsonFields& fields, int fallback, ModelConfig& config) {
  if (fields.Find("head_dim") != nullptr || fallback > 0) {
    config.head_dim = fields.Int("head_dim", fallback);
    return;
  }
  if (config.num_heads <= 0) return;
  config.head_dim = config.hidden_size / config.num_heads;
  if (config.hidden_size % config.num_heads != 0) {
    fields.Invalid("hidden_size", absl::StrCat("without head_dim it must be a multiple of the ",
                                               config.num_heads, " heads"));
  }
}

void RefuseSlidingLayers(JsonFields& fields) {
  const json* types = fields.Find("layer_types");
  if (types == nullptr) return;
  const bool full = types->is_array() && std::all_of(types->begin(), types->end(), [](auto& type) {
                      return type == json("full_attention");
                    });
  if (!full) fields.Unsupported("layer_types", "only full_attention is, for this architecture");
}

// Null means none, but no key at all means the class's default. A window that holds the whole
// context is no window.
void RefuseMistralWindow(JsonFields& fields, const ModelConfig& config) {
  const int window = fields.Int("sliding_window", fields.HasKey("sliding_window") ? 0 : 4096);
  if (window != 0 && window < config.context_length) {
    fields.Unsupported("sliding_window", "for Mistral null or the whole context is");
  }
}

void ReadLlama(JsonFields& fields, std::string_view model_type, ModelConfig& config) {
  const bool mistral = model_type == "mistral";
  const bool qwen2 = model_type == "qwen2";
  ReadRmsNormFamily(fields, config);
  ReadHeadDim(fields, 0, config);
  const int default_context = mistral ? 131072 : qwen2 ? 32768 : 2048;
  config.context_length = fields.Int("max_position_embeddings", default_context);
  ReadActivation(fields, "hidden_act", "silu", config);
  config.tied_head = fields.Bool("tie_word_embeddings", false);
  config.attention_scale = InverseSquareRoot(fields, "head_dim", std::max(config.head_dim, 1));
  if (qwen2) {
    RefuseFeature(fields, "use_sliding_window");
    RefuseSlidingLayers(fields);
  }
  if (mistral) RefuseMistralWindow(fields, config);
  ReadHfRope(fields, config);
}

// Which layers see only the window: layer_types, or every layer but each `pattern`-th.
void ReadGemma3Windows(JsonFields& fields, ModelConfig& config) {
  const int window = fields.Int("sliding_window", 4096);
  if (window <= 0) return fields.Invalid("sliding_window", "it must be above 0");
  const json* types = fields.Find("layer_types");
  if (types == nullptr) {
    const bool private_key = fields.Find("sliding_window_pattern") == nullptr;
    const std::string_view key = private_key ? "_sliding_window_pattern" : "sliding_window_pattern";
    const int pattern = fields.Int(key, 6);
    if (pattern <= 0) return fields.Invalid(key, "it must be above 0");
    for (size_t i = 0; i < config.layers.size(); ++i) {
      const bool full = (i + 1) % static_cast<size_t>(pattern) == 0;
      config.layers[i].sliding_window = full ? 0 : window;
    }
    return;
  }
  if (!types->is_array() || types->size() != config.layers.size()) {
    return fields.Invalid("layer_types",
                          absl::StrCat("it must list the ", config.num_layers, " layers"));
  }
  for (size_t i = 0; i < config.layers.size(); ++i) {
    const json& type = (*types)[i];
    if (type == json("sliding_attention")) {
      config.layers[i].sliding_window = window;
    } else if (type != json("full_attention")) {
      return fields.Unsupported("layer_types", "full_attention and sliding_attention are");
    }
  }
}

void ReadGemma3(JsonFields& fields, ModelConfig& config) {
  ReadRmsNormFamily(fields, config);
  ReadHeadDim(fields, 256, config);
  config.context_length = fields.Int("max_position_embeddings", 131072);
  ReadActivation(fields, "hidden_activation", "gelu_pytorch_tanh", config);
  config.tied_head = fields.Bool("tie_word_embeddings", true);
  config.embedding_scale = std::sqrt(static_cast<float>(std::max(config.hidden_size, 1)));
  config.attention_scale = InverseSquareRoot(fields, "query_pre_attn_scalar",
                                             fields.Number("query_pre_attn_scalar", 256.0));
  RefuseFeature(fields, "attn_logit_softcapping");
  RefuseFeature(fields, "final_logit_softcapping");
  RefuseFeature(fields, "use_bidirectional_attention");
  RefuseFeature(fields, "attention_bias");
  ReadGemma3Windows(fields, config);
  ReadHfRope(fields, config);
}

}  // namespace

absl::StatusOr<ModelConfig> ParseHfConfig(std::string_view text) {
  LUNA_ASSIGN_OR_RETURN(const json object, text::ParseJsonObject(text, kFile));
  JsonFields fields(object, kFile);
  const KnownModel* known = FindModel(fields);
  LUNA_RETURN_IF_ERROR(fields.status());
  RefuseFeature(fields, "quantization_config");
  ModelConfig config;
  config.architecture = known->architecture;
  switch (known->architecture) {
    case Architecture::kGpt2:
      ReadGpt2(fields, config);
      break;
    case Architecture::kLlama:
    case Architecture::kQwen2:
      ReadLlama(fields, known->model_type, config);
      break;
    case Architecture::kGemma3:
      ReadGemma3(fields, config);
      break;
  }
  LUNA_RETURN_IF_ERROR(fields.status());
  const absl::Status valid = config.Validate();
  if (!valid.ok()) {
    return absl::Status(valid.code(), absl::StrCat(kFile, ": ", valid.message()));
  }
  return config;
}

}  // namespace luna::model
