#include "core/kv/layout.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/check.h"

namespace luna::kv {
namespace {

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The most blocks that `num_positions` consecutive positions can touch.
int64_t MostBlocksTouched(int64_t num_positions, int64_t block_tokens) {
  return num_positions <= 0 ? 0 : CeilDiv(num_positions - 1, block_tokens) + 1;
}

}  // namespace

int64_t KvLayout::BlocksForTokens(int64_t num_tokens, int64_t chunk_tokens) const {
  int64_t blocks = 0;
  for (const LayerGroup& group : groups) {
    int64_t in_group = CeilDiv(num_tokens, block_tokens);
    if (group.window > 0) {
      const int64_t seen = group.window - 1 + std::max<int64_t>(chunk_tokens, 1);
      in_group = std::min(in_group, MostBlocksTouched(seen, block_tokens));
    }
    blocks += in_group;
  }
  return blocks;
}

int64_t KvLayout::TokensInBlocks(int64_t num_blocks, int64_t limit) const {
  int64_t fits = 0;
  int64_t above = std::max<int64_t>(limit, 0) + 1;  // fits < answer's successor <= above
  while (above - fits > 1) {
    const int64_t middle = fits + (above - fits) / 2;
    (BlocksForTokens(middle, 1) <= num_blocks ? fits : above) = middle;
  }
  return fits;
}

KvLayout MakeLayout(std::span<const int> windows, int block_tokens, int64_t token_layer_bytes) {
  LUNA_CHECK(!windows.empty());
  LUNA_CHECK(block_tokens > 0);
  std::map<int, std::vector<int>> layers_of_window;  // ordered: 0, which sees everything, is first
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    layers_of_window[windows[layer]].push_back(static_cast<int>(layer));
  }
  size_t group_size = 0;
  for (const auto& [window, layers] : layers_of_window) {
    group_size = std::gcd(group_size, layers.size());
  }

  KvLayout layout{
      .block_tokens = block_tokens, .token_layer_bytes = token_layer_bytes, .groups = {}};
  for (const auto& [window, layers] : layers_of_window) {
    for (size_t begin = 0; begin < layers.size(); begin += group_size) {
      layout.groups.push_back(
          {window, {layers.begin() + begin, layers.begin() + begin + group_size}});
    }
  }
  return layout;
}

}  // namespace luna::kv
