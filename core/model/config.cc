#include "core/model/config.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace luna::model {
namespace {

// Far above any model, far below where a product of two sizes leaves int64 or one of our tables
// leaves memory.
constexpr int kMaxLayers = 1024;
constexpr int kMaxWidth = 1 << 18;
constexpr int kMaxVocab = 1 << 22;
constexpr int kMaxContext = 1 << 22;

absl::Status CheckSize(std::string_view what, int value, int limit) {
  if (value >= 1 && value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(what), " is ", value, "; it must be from 1 to ", limit));
}

absl::Status CheckPositive(std::string_view what, float value) {
  if (std::isfinite(value) && value > 0.0f) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(what), " is ", value, "; it must be finite and above 0"));
}

absl::Status CheckHeads(const ModelConfig& config) {
  LUNA_RETURN_IF_ERROR(CheckSize("number of heads", config.num_heads, kMaxWidth));
  LUNA_RETURN_IF_ERROR(CheckSize("number of KV heads", config.num_kv_heads, config.num_heads));
  LUNA_RETURN_IF_ERROR(CheckSize("head size", config.head_dim, kMaxWidth / config.num_heads));
  if (config.num_heads % config.num_kv_heads != 0) {
    return absl::InvalidArgumentError(absl::StrCat("number of heads is ", config.num_heads,
                                                   ", not a multiple of the ", config.num_kv_heads,
                                                   " KV heads"));
  }
  if (!config.learned_positions && config.head_dim % 2 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("head size is ", config.head_dim, "; rotary positions need an even one"));
  }
  return absl::OkStatus();
}

absl::Status CheckRope(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  LUNA_RETURN_IF_ERROR(CheckPositive("RoPE scaling factor", scaling.factor));
  if (scaling.factor != 1.0f) {
    LUNA_RETURN_IF_ERROR(CheckPositive("RoPE low_freq_factor", scaling.low_freq_factor));
    LUNA_RETURN_IF_ERROR(CheckPositive("RoPE high_freq_factor", scaling.high_freq_factor));
    LUNA_RETURN_IF_ERROR(CheckSize("RoPE original context", scaling.original_context, kMaxContext));
    if (scaling.high_freq_factor <= scaling.low_freq_factor) {
      return absl::InvalidArgumentError(
          absl::StrCat("RoPE high_freq_factor is ", scaling.high_freq_factor,
                       ", not above low_freq_factor ", scaling.low_freq_factor));
    }
  }
  const size_t factors = config.rope_freq_factors.size();
  if (factors != 0 && factors != static_cast<size_t>(config.head_dim / 2)) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", factors, " RoPE factors for a head size of ", config.head_dim));
  }
  for (const float factor : config.rope_freq_factors) {
    LUNA_RETURN_IF_ERROR(CheckPositive("RoPE frequency factor", factor));
  }
  return absl::OkStatus();
}

absl::Status CheckLayers(const ModelConfig& config) {
  if (config.layers.size() != static_cast<size_t>(config.num_layers)) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.layers.size(), " layers are described; the model has ", config.num_layers));
  }
  for (const LayerConfig& layer : config.layers) {
    if (layer.sliding_window < 0 || layer.sliding_window > kMaxContext) {
      return absl::InvalidArgumentError(absl::StrCat("sliding window is ", layer.sliding_window,
                                                     "; it must be from 0 to ", kMaxContext));
    }
    LUNA_RETURN_IF_ERROR(CheckPositive("RoPE base", layer.rope_theta));
    LUNA_RETURN_IF_ERROR(CheckPositive("RoPE linear factor", layer.rope_linear_factor));
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view ArchitectureName(Architecture architecture) {
  switch (architecture) {
    case Architecture::kGpt2:
      return "gpt2";
    case Architecture::kLlama:
      return "llama";
    case Architecture::kQwen2:
      return "qwen2";
    case Architecture::kGemma3:
      return "gemma3";
  }
  LUNA_CHECK(false) << "architecture " << static_cast<int>(architecture);
  return "";
}

absl::Status ModelConfig::Validate() const {
  LUNA_RETURN_IF_ERROR(CheckSize("number of layers", num_layers, kMaxLayers));
  LUNA_RETURN_IF_ERROR(CheckSize("hidden size", hidden_size, kMaxWidth));
  LUNA_RETURN_IF_ERROR(CheckHeads(*this));
  LUNA_RETURN_IF_ERROR(CheckSize("intermediate size", intermediate_size, kMaxWidth));
  LUNA_RETURN_IF_ERROR(CheckSize("vocabulary size", vocab_size, kMaxVocab));
  LUNA_RETURN_IF_ERROR(CheckSize("context length", context_length, kMaxContext));
  LUNA_RETURN_IF_ERROR(CheckPositive("norm epsilon", norm_epsilon));
  LUNA_RETURN_IF_ERROR(CheckPositive("embedding scale", embedding_scale));
  LUNA_RETURN_IF_ERROR(CheckPositive("attention scale", attention_scale));
  LUNA_RETURN_IF_ERROR(CheckRope(*this));
  return CheckLayers(*this);
}

}  // namespace luna::model
