// Keys and values as the cache keeps them, and attention over them: what each KV dtype needs of an
// instruction set.
#ifndef LUNA_CORE_BACKEND_CPU_KV_FORMAT_H_
#define LUNA_CORE_BACKEND_CPU_KV_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "core/backend/backend.h"

namespace luna::backend::cpu {

// What a block holds of one kv head: its keys, [head_dim][block_tokens] elements, so that the
// scores of neighbouring tokens are computed side by side; then its values, [block_tokens]
// [head_dim]. In int8 the elements of keys, and again of values, are followed by [block_tokens]
// scales in f32: a token's scale is its largest size in this head / 127.
constexpr int64_t KvElementBytes(KvDtype dtype) {
  return dtype == KvDtype::kF32 ? 4 : dtype == KvDtype::kBf16 ? 2 : 1;
}
// Bytes of one token's keys (or values) of one head.
constexpr int64_t KvHeadBytes(KvDtype dtype, int head_dim) {
  constexpr int64_t kScaleBytes = sizeof(float);
  return head_dim * KvElementBytes(dtype) + (dtype == KvDtype::kInt8 ? kScaleBytes : 0);
}

// Tokens at consecutive positions attend, with the query heads that share one kv head. A token's
// result has the same bits whichever tokens are beside it.
struct AttendArgs {
  const float* q = nullptr;  // of the first token and head: [tokens, q_stride], heads side by side
  int64_t q_stride = 0;      // floats
  float* out = nullptr;      // [tokens, out_stride]
  int64_t out_stride = 0;    // floats
  int tokens = 0;            // at most AttendTokens(heads)
  int heads = 0;
  int head_dim = 0;
  int position = 0;                 // of the first token
  int window = 0;                   // positions that a token sees, its own included; 0: all
  float scale = 1.0f;               // of a score
  const std::byte* keys = nullptr;  // of the kv head in block 0
  int64_t values_offset = 0;        // bytes from keys to values
  int64_t block_stride = 0;         // bytes
  const int32_t* table = nullptr;   // entry i: positions [i * block_tokens, (i + 1) * block_tokens)
  int block_tokens = 0;
  float* scores = nullptr;   // scratch: [tokens * heads, score_stride]
  int64_t score_stride = 0;  // a multiple of kScoreAlign, at least context + 2 * kScoreAlign
};
inline constexpr int kScoreAlign = 16;

// Tokens that are worth attending together: keys and values are widened once for all of them.
constexpr int AttendTokens(int heads) { return heads >= 8 ? 1 : 8 / heads; }
// Rows of scores that takes.
constexpr int AttendQueries(int heads) { return heads * AttendTokens(heads); }

struct KvFormat {
  // Writes one token's key and value of one head into slot `slot` of a block.
  void (*store)(const float* key, const float* value, int head_dim, int block_tokens, int slot,
                std::byte* keys, std::byte* values);
  void (*attend)(const AttendArgs& args);
};

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_KV_FORMAT_H_
