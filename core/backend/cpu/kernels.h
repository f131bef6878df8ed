// The inner loops of the CPU backend, once per instruction set, chosen when the backend is made.
#ifndef LUNA_CORE_BACKEND_CPU_KERNELS_H_
#define LUNA_CORE_BACKEND_CPU_KERNELS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "core/backend/backend.h"
#include "core/backend/cpu/product.h"
#include "core/model/config.h"

namespace luna::backend::cpu {

// One head of one token attends to positions [first, last], in order of position.
struct AttendArgs {
  const float* q = nullptr;        // [head_dim]
  const float* keys = nullptr;     // of the kv head in block 0: [block_tokens, head_dim]
  int64_t values_offset = 0;       // floats from a key to its value
  int64_t block_stride = 0;        // floats
  const int32_t* table = nullptr;  // entry i: positions [i * block_tokens, (i + 1) * block_tokens)
  int block_tokens = 0;
  int head_dim = 0;
  int first = 0, last = 0;
  float scale = 1.0f;
  float* scores = nullptr;  // scratch, last - first + 1 + kScorePadding
  float* out = nullptr;     // [head_dim]
};
inline constexpr int kScorePadding = 16;

struct Products {
  Product f32, bf16, int8;
  const Product& Of(WeightsFormat format) const {
    switch (format) {
      case WeightsFormat::kF32:
        return f32;
      case WeightsFormat::kBf16:
        return bf16;
      case WeightsFormat::kInt8:
        break;
    }
    return int8;
  }
};

struct Kernels {
  std::string_view name;
  WeightsFormat fastest;  // of those whose words stay close enough to those of f32
  Products products;
  void (*attend)(const AttendArgs& args);
  // Of one row; `bias` may be null; `out` may be `x`. All [size].
  void (*layer_norm)(const float* x, const float* weight, const float* bias, float epsilon,
                     int size, float* out);
  void (*rms_norm)(const float* x, const float* weight, const float* bias, float epsilon, int size,
                   float* out);
  // Rotates the pairs (i, i + half) of one head in place. cosines, sines: [half].
  void (*rotate)(float* head, const float* cosines, const float* sines, int half);
  // out[i] = activation(x[i]); `out` may be `x`. size is a multiple of kPanel.
  void (*activate)(model::Activation activation, const float* x, int size, float* out);
  // out[p, i] = activation(x[p, 0, i]) * x[p, 1, i]. x: [pairs, 2, kPanel], out: [pairs, kPanel].
  void (*activate_gated)(model::Activation activation, const float* x, int pairs, float* out);
};

// What this machine can run, slowest first; never empty.
std::span<const Kernels* const> AvailableKernels();

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_KERNELS_H_
