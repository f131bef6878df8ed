#include "core/backend/rope_table.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace luna::backend {
namespace {

double ScaleFrequency(const model::RopeScaling& scaling, double frequency) {
  if (scaling.factor == 1.0f) return frequency;
  // Full turns that the original context makes: many are kept, few are stretched.
  const double turns = scaling.original_context * frequency / (2 * std::numbers::pi);
  if (turns > scaling.high_freq_factor) return frequency;
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth = (turns - scaling.low_freq_factor) /
                        (double{scaling.high_freq_factor} - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<float> RopeFrequencies(const model::ModelConfig& config,
                                   const model::LayerConfig& layer) {
  const int half = config.head_dim / 2;
  std::vector<float> frequencies(half);
  for (int i = 0; i < half; ++i) {
    const double base = std::pow(double{layer.rope_theta}, -2.0 * i / config.head_dim);
    double frequency = ScaleFrequency(config.rope_scaling, base);
    if (!config.rope_freq_factors.empty()) frequency /= config.rope_freq_factors[i];
    frequencies[i] = static_cast<float>(frequency / layer.rope_linear_factor);
  }
  return frequencies;
}

RopeTable::RopeTable(const model::ModelConfig& config, int max_tokens)
    : half_(config.head_dim / 2) {
  for (const model::LayerConfig& layer : config.layers) {
    std::vector<float> frequencies = RopeFrequencies(config, layer);
    const auto same = [&](const Kind& kind) { return kind.frequencies == frequencies; };
    auto kind = std::find_if(kinds_.begin(), kinds_.end(), same);
    if (kind == kinds_.end()) {
      const size_t size = static_cast<size_t>(max_tokens) * half_;
      kind = kinds_.insert(
          kind, {std::move(frequencies), std::vector<float>(size), std::vector<float>(size)});
    }
    kind_of_layer_.push_back(static_cast<int>(kind - kinds_.begin()));
  }
}

void RopeTable::Fill(std::span<const int32_t> positions) {
  for (Kind& kind : kinds_) {
    for (size_t row = 0; row < positions.size(); ++row) {
      for (int i = 0; i < half_; ++i) {
        // Rounded to f32 before the cosine, as the models were trained.
        const float angle = static_cast<float>(positions[row]) * kind.frequencies[i];
        kind.cosines[row * half_ + i] = static_cast<float>(std::cos(double{angle}));
        kind.sines[row * half_ + i] = static_cast<float>(std::sin(double{angle}));
      }
    }
  }
}

}  // namespace luna::backend
