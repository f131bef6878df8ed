// The inner loops of the CPU backend, once per instruction set, chosen when the backend is made.
#ifndef LUNA_CORE_BACKEND_CPU_KERNELS_H_
#define LUNA_CORE_BACKEND_CPU_KERNELS_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "core/backend/backend.h"
#include "core/backend/cpu/kv_format.h"
#include "core/backend/cpu/product.h"
#include "core/model/config.h"
#include "core/model/model.h"

namespace luna::backend::cpu {

// Of weights that are rounded.
struct RoundingProducts {
  Product bf16, int8;
  Product int4;  // of matrices that a file has in Q4_0 or Q4_1; takes the rows that int8 takes
};

struct Products {
  Product f32;
  RoundingProducts fast;
  // With activations in f32 (bf16) or in 16 bits (int8, int4); where those are the fastest the
  // same.
  RoundingProducts precise;
};

struct KvFormats {
  KvFormat f32, bf16, int8;
  const KvFormat& Of(KvDtype dtype) const {
    return dtype == KvDtype::kF32 ? f32 : dtype == KvDtype::kBf16 ? bf16 : int8;
  }
};

// A norm over a head scales it channel by channel, and models that have those norms (Gemma 3) have
// channels far above the others in all that they compute: what is rounded with one scale for many
// of them is rounded too coarsely for the bound of docs/benchmarks.md.
inline bool HasOutlyingChannels(const model::Model& model) {
  return static_cast<bool>(model.weights.layers.front().k_norm);
}

struct Kernels {
  std::string_view name;
  // Of the formats whose words stay close enough to those of f32 the fastest for thirty sequences,
  // and the same for a model that has matrices in Q4_0 or Q4_1.
  WeightsFormat fastest, fastest_of_q4;
  Products products;
  KvFormats kv_formats;
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
