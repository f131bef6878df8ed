// One plain function per operator of a decoder: the twin that faster kernels are held against.
// Everything is f32 in memory; sums are taken in double, one after the other, and rounded once.
#ifndef LUNA_CORE_BACKEND_REFERENCE_OPERATORS_H_
#define LUNA_CORE_BACKEND_REFERENCE_OPERATORS_H_

#include <cstdint>
#include <span>

#include "core/backend/kv_pool.h"
#include "core/model/config.h"

namespace luna::backend::reference {

// out[r] = weight * (x - mean) / sqrt(variance + epsilon) + bias. `bias` may be empty.
void LayerNorm(std::span<const float> x,       // [size]
               std::span<const float> weight,  // [size]
               std::span<const float> bias,    // [size] or empty
               float epsilon, std::span<float> out);

// out = weight * x / sqrt(mean(x^2) + epsilon) + bias. `bias` may be empty. `out` may be `x`.
void RmsNorm(std::span<const float> x,       // [size]
             std::span<const float> weight,  // [size]
             std::span<const float> bias,    // [size] or empty
             float epsilon, std::span<float> out);

// out[o] = sum over i of weight[o, i] * x[i], plus bias[o].
void Linear(std::span<const float> x,       // [inputs]
            std::span<const float> weight,  // [outputs, inputs] row-major
            std::span<const float> bias,    // [outputs] or empty
            std::span<float> out);          // [outputs]

// Rotates the pairs (i, i + half) of one head in place.
void Rotate(std::span<float> head,  // [2 * half]
            const float* cosines,   // [half]
            const float* sines);    // [half]

float Activate(model::Activation activation, float x);

// A block's keys, and its values, of one head are [block_tokens, head_dim] f32.
// Stores one token's keys (or values) into its slot: `x` [num_kv_heads, head_dim].
void StoreHeads(std::span<const float> x, int head_dim, int64_t head_stride,  // bytes
                std::byte* slot);                                             // of kv head 0

// softmax(scale * q . k) v over positions [first, last], read from the blocks of `table`.
// scores: scratch, at least last + 1.
void Attend(std::span<const float> q,  // [head_dim]
            const KvLayerView& view, int kv_head, std::span<const int32_t> table, int block_tokens,
            int first, int last, float scale, std::span<float> scores,
            std::span<float> out);  // [head_dim]

}  // namespace luna::backend::reference

#endif  // LUNA_CORE_BACKEND_REFERENCE_OPERATORS_H_
