#include "core/model/hf_rope.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace luna::model {
namespace {

using nlohmann::json;

struct Rope {
  float theta = 10000.0f;
  float linear_factor = 1.0f;
  RopeScaling scaling;
};

float Float(JsonFields& fields, std::string_view key, double fallback) {
  return static_cast<float>(fields.Number(key, fallback));
}

// `parameters` is what rope_scaling, rope_parameters or one of its layer types holds.
Rope ReadParameters(JsonFields& owner, const json& parameters, float theta, int context) {
  Rope rope;
  JsonFields fields(parameters, owner.file());
  rope.theta = Float(fields, "rope_theta", theta);
  if (fields.Number("partial_rotary_factor", 1.0) != 1.0) {
    fields.Unsupported("partial_rotary_factor", "1 is");
  }
  const std::string_view type_key = fields.Find("rope_type") != nullptr ? "rope_type" : "type";
  const std::string type = fields.String(type_key, "default");
  if (type == "linear") {
    rope.linear_factor = Float(fields, "factor", 1.0);
  } else if (type == "llama3") {
    rope.scaling.factor = Float(fields, "factor", 1.0);
    rope.scaling.low_freq_factor = Float(fields, "low_freq_factor", 1.0);
    rope.scaling.high_freq_factor = Float(fields, "high_freq_factor", 4.0);
    rope.scaling.original_context = fields.Int("original_max_position_embeddings", context);
  } else if (type != "default") {
    fields.Unsupported(type_key, "default, linear and llama3 are");
  }
  owner.Fail(fields.status());
  return rope;
}

// The parameters under `key`, or nothing.
Rope ReadKey(JsonFields& fields, std::string_view key, float theta, int context) {
  static const json kNothing = json::object();
  const json* parameters = fields.Find(key);
  if (parameters != nullptr && !parameters->is_object()) {
    fields.Invalid(key, "it must be an object");
    parameters = nullptr;
  }
  return ReadParameters(fields, parameters == nullptr ? kNothing : *parameters, theta, context);
}

bool HasLayerTypes(const json* parameters) {
  return parameters != nullptr && parameters->is_object() &&
         (parameters->contains("full_attention") || parameters->contains("sliding_attention"));
}

}  // namespace

void ReadHfRope(JsonFields& fields, ModelConfig& config) {
  const bool gemma = config.architecture == Architecture::kGemma3;
  const float theta = Float(fields, "rope_theta", gemma ? 1e6 : 1e4);
  const json* parameters = fields.Find("rope_parameters");
  Rope full;
  Rope sliding;
  if (HasLayerTypes(parameters)) {
    JsonFields by_type(*parameters, fields.file());
    full = ReadKey(by_type, "full_attention", theta, config.context_length);
    sliding = ReadKey(by_type, "sliding_attention", 1e4f, config.context_length);
    fields.Fail(by_type.status());
  } else {
    full = ReadKey(fields, parameters != nullptr ? "rope_parameters" : "rope_scaling", theta,
                   config.context_length);
    // Gemma 3's sliding layers have a base of their own and are never scaled.
    sliding.theta = Float(fields, "rope_local_base_freq", 1e4);
    if (!gemma) sliding = full;
  }
  if (gemma && (full.scaling.factor != 1.0f || sliding.scaling.factor != 1.0f)) {
    fields.Fail(absl::UnimplementedError(fields.file() +
                                         ": rope_type \"llama3\" is not supported for Gemma 3"));
  }
  config.rope_scaling = full.scaling;
  for (LayerConfig& layer : config.layers) {
    const Rope& rope = layer.sliding_window > 0 ? sliding : full;
    layer.rope_theta = rope.theta;
    layer.rope_linear_factor = rope.linear_factor;
  }
}

}  // namespace luna::model
