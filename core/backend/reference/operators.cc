#include "core/backend/reference/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

namespace luna::backend::reference {
namespace {

float BiasAt(std::span<const float> bias, size_t i) { return bias.empty() ? 0.0f : bias[i]; }

}  // namespace

void LayerNorm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
               float epsilon, std::span<float> out) {
  double mean = 0.0;
  for (float value : x) mean += value;
  mean /= static_cast<double>(x.size());
  double variance = 0.0;
  for (float value : x) variance += (value - mean) * (value - mean);
  variance /= static_cast<double>(x.size());
  const double scale = 1.0 / std::sqrt(variance + epsilon);
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<float>((x[i] - mean) * scale * weight[i] + BiasAt(bias, i));
  }
}

void RmsNorm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
             float epsilon, std::span<float> out) {
  double squares = 0.0;
  for (float value : x) squares += double{value} * value;
  const double scale = 1.0 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = static_cast<float>(x[i] * scale * weight[i] + BiasAt(bias, i));
  }
}

void Linear(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
            std::span<float> out) {
  for (size_t o = 0; o < out.size(); ++o) {
    const float* row = weight.data() + o * x.size();
    double sum = 0.0;
    for (size_t i = 0; i < x.size(); ++i) sum += double{row[i]} * x[i];
    out[o] = static_cast<float>(sum + BiasAt(bias, o));
  }
}

void Rotate(std::span<float> head, const float* cosines, const float* sines) {
  const size_t half = head.size() / 2;
  for (size_t i = 0; i < half; ++i) {
    const float a = head[i], b = head[i + half];
    head[i] = a * cosines[i] - b * sines[i];
    head[i + half] = b * cosines[i] + a * sines[i];
  }
}

float Activate(model::Activation activation, float x) {
  const double v = x;
  switch (activation) {
    case model::Activation::kSilu:
      return static_cast<float>(v / (1.0 + std::exp(-v)));
    case model::Activation::kGeluErf:
      return static_cast<float>(0.5 * v * (1.0 + std::erf(v / std::numbers::sqrt2)));
    case model::Activation::kGeluTanh:
      break;
  }
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (v + 0.044715 * v * v * v);
  return static_cast<float>(0.5 * v * (1.0 + std::tanh(inner)));
}

void StoreHeads(std::span<const float> x, int head_dim, int64_t head_stride, std::byte* slot) {
  const size_t num_heads = x.size() / head_dim;
  for (size_t h = 0; h < num_heads; ++h, slot += head_stride) {
    std::memcpy(slot, x.data() + h * head_dim, head_dim * sizeof(float));
  }
}

void Attend(std::span<const float> q, const KvLayerView& view, int kv_head,
            std::span<const int32_t> table, int block_tokens, int first, int last, float scale,
            std::span<float> scores, std::span<float> out) {
  const size_t head_dim = q.size();
  const auto key = [&](int position) {
    return reinterpret_cast<const float*>(view.data +
                                          table[position / block_tokens] * view.block_stride +
                                          kv_head * view.head_stride) +
           (position % block_tokens) * static_cast<int64_t>(head_dim);
  };
  const auto value = [&](int position) {
    return key(position) + view.values_offset / static_cast<int64_t>(sizeof(float));
  };
  float largest = -std::numeric_limits<float>::infinity();
  for (int p = first; p <= last; ++p) {
    const float* k = key(p);
    double sum = 0.0;
    for (size_t d = 0; d < head_dim; ++d) sum += double{q[d]} * k[d];
    scores[p] = static_cast<float>(sum * scale);
    largest = std::max(largest, scores[p]);
  }
  double total = 0.0;
  for (int p = first; p <= last; ++p) {
    scores[p] = static_cast<float>(std::exp(double{scores[p]} - largest));
    total += scores[p];
  }
  for (size_t d = 0; d < head_dim; ++d) {
    double sum = 0.0;
    for (int p = first; p <= last; ++p) sum += double{scores[p]} * value(p)[d];
    out[d] = static_cast<float>(sum / total);
  }
}

}  // namespace luna::backend::reference
