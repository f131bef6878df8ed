// How a model's keys and values are cut into blocks of one size.
#ifndef LUNA_CORE_KV_LAYOUT_H_
#define LUNA_CORE_KV_LAYOUT_H_

#include <cstdint>
#include <span>
#include <vector>

namespace luna::kv {

// The entry of a block that a window has left behind, or that nobody has.
inline constexpr int32_t kNoBlock = -1;

// Layers that see the same window are gathered into groups of one size, so that every block of the
// server's pool has the same bytes whichever group it serves. A model whose layers all attend to
// everything is one group; Gemma 3 270M (3 full layers, 15 with a window of 512) is one full group
// and five windowed ones of three layers each. A sequence has one block table per group, and a
// windowed group gives a block back once no later position can see it.
struct LayerGroup {
  int window = 0;           // tokens a position sees, itself included; 0: all
  std::vector<int> layers;  // ascending; the same count in every group
};

struct KvLayout {
  int block_tokens = 16;
  int64_t token_layer_bytes = 0;   // keys and values of one token in one layer
  std::vector<LayerGroup> groups;  // the full group(s) first

  int num_groups() const { return static_cast<int>(groups.size()); }
  int layers_per_group() const { return static_cast<int>(groups.front().layers.size()); }
  int64_t block_bytes() const { return token_layer_bytes * layers_per_group() * block_tokens; }
  // Bytes of one token in all groups, before any window has passed it.
  int64_t token_bytes() const { return token_layer_bytes * layers_per_group() * num_groups(); }
  bool windowed() const { return groups.back().window > 0; }

  // Blocks, over all groups, that suffice to compute `num_tokens` tokens in chunks of at most
  // `chunk_tokens`, wherever the chunks begin: a chunk's blocks and those its first token sees are
  // all held while it runs, what windows have left behind is not. Never falls as `num_tokens`
  // grows.
  int64_t BlocksForTokens(int64_t num_tokens, int64_t chunk_tokens) const;

  // The most tokens, up to `limit`, that `num_blocks` blocks can compute one by one.
  int64_t TokensInBlocks(int64_t num_blocks, int64_t limit) const;
};

// `windows` [num_layers], 0 for a layer that attends to everything.
KvLayout MakeLayout(std::span<const int> windows, int block_tokens, int64_t token_layer_bytes);

}  // namespace luna::kv

#endif  // LUNA_CORE_KV_LAYOUT_H_
