#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/backend/checks.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::backend {
namespace {

using model::Tensor;

absl::Status CheckShape(std::string_view name, const Tensor& tensor, int64_t rows, int64_t cols) {
  if (!tensor) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", AbslView(name), " is missing"));
  }
  if (tensor.rows == rows && tensor.cols == cols) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("tensor ", AbslView(name), " is [", tensor.rows,
                                                 ", ", tensor.cols, "]; expected [", rows, ", ",
                                                 cols, "]"));
}

absl::Status CheckOptional(std::string_view name, const Tensor& tensor, int64_t rows,
                           int64_t cols) {
  return tensor ? CheckShape(name, tensor, rows, cols) : absl::OkStatus();
}

absl::Status CheckLayer(const model::ModelConfig& c, const model::LayerWeights& w) {
  LUNA_RETURN_IF_ERROR(CheckShape("attention_norm", w.attention_norm, 1, c.hidden_size));
  LUNA_RETURN_IF_ERROR(
      CheckOptional("attention_norm_bias", w.attention_norm_bias, 1, c.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckShape("q", w.q, c.q_size(), c.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckShape("k", w.k, c.kv_size(), c.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckShape("v", w.v, c.kv_size(), c.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckOptional("q_bias", w.q_bias, 1, c.q_size()));
  LUNA_RETURN_IF_ERROR(CheckOptional("k_bias", w.k_bias, 1, c.kv_size()));
  LUNA_RETURN_IF_ERROR(CheckOptional("v_bias", w.v_bias, 1, c.kv_size()));
  LUNA_RETURN_IF_ERROR(CheckOptional("q_norm", w.q_norm, 1, c.head_dim));
  LUNA_RETURN_IF_ERROR(CheckOptional("k_norm", w.k_norm, 1, c.head_dim));
  LUNA_RETURN_IF_ERROR(
      CheckShape("attention_output", w.attention_output, c.hidden_size, c.q_size()));
  LUNA_RETURN_IF_ERROR(
      CheckOptional("attention_output_bias", w.attention_output_bias, 1, c.hidden_size));
  LUNA_RETURN_IF_ERROR(
      CheckOptional("attention_post_norm", w.attention_post_norm, 1, c.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckShape("ffn_norm", w.ffn_norm, 1, c.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckOptional("ffn_norm_bias", w.ffn_norm_bias, 1, c.hidden_size));
  if (c.gated_ffn) {
    LUNA_RETURN_IF_ERROR(CheckShape("gate", w.gate, c.intermediate_size, c.hidden_size));
    if (w.up_bias)
      return absl::InvalidArgumentError("tensor up_bias beside a gate is not supported");
  }
  LUNA_RETURN_IF_ERROR(CheckShape("up", w.up, c.intermediate_size, c.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckOptional("up_bias", w.up_bias, 1, c.intermediate_size));
  LUNA_RETURN_IF_ERROR(CheckShape("down", w.down, c.hidden_size, c.intermediate_size));
  LUNA_RETURN_IF_ERROR(CheckOptional("down_bias", w.down_bias, 1, c.hidden_size));
  return CheckOptional("ffn_post_norm", w.ffn_post_norm, 1, c.hidden_size);
}

}  // namespace

absl::Status CheckWeights(const model::Model& model) {
  const model::ModelConfig& config = model.config;
  const model::Weights& weights = model.weights;
  LUNA_RETURN_IF_ERROR(config.Validate());
  LUNA_RETURN_IF_ERROR(CheckShape("token_embedding", weights.token_embedding, config.vocab_size,
                                  config.hidden_size));
  if (config.learned_positions) {
    LUNA_RETURN_IF_ERROR(CheckShape("position_embedding", weights.position_embedding,
                                    config.context_length, config.hidden_size));
  }
  LUNA_RETURN_IF_ERROR(CheckShape("final_norm", weights.final_norm, 1, config.hidden_size));
  LUNA_RETURN_IF_ERROR(
      CheckOptional("final_norm_bias", weights.final_norm_bias, 1, config.hidden_size));
  LUNA_RETURN_IF_ERROR(CheckShape("head", weights.head, config.vocab_size, config.hidden_size));
  if (weights.layers.size() != static_cast<size_t>(config.num_layers) ||
      config.layers.size() != weights.layers.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model has ", weights.layers.size(), " layers of weights; expected ", config.num_layers));
  }
  for (int i = 0; i < config.num_layers; ++i) {
    const absl::Status status = CheckLayer(config, weights.layers[i]);
    if (!status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", i, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

}  // namespace luna::backend
