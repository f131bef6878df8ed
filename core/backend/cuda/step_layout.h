// How one step lies in the device's memory: what the host writes and the kernels read.
#ifndef LUNA_CORE_BACKEND_CUDA_STEP_LAYOUT_H_
#define LUNA_CORE_BACKEND_CUDA_STEP_LAYOUT_H_

#include <cstdint>

namespace luna::backend::cuda {

// --- Products ------------------------------------------------------------------------------------

// A matrix is cut into tiles of kTileRows outputs, and along its inputs into groups of
// kGroupInputs, the last filled up with zeros. Groups are gathered into at most kParts parts, as
// even as they can be. An output is the sum of its parts in ascending order, a part the sum of its
// groups in ascending order: whatever kernel computes it, and for however many tokens.
inline constexpr int kTileRows = 16;
inline constexpr int kGroupInputs = 32;
inline constexpr int kParts = 8;
// Tokens that one product of a warp takes.
inline constexpr int kTileTokens = 8;

// Samples whose logits there is room for at a time.
inline constexpr int kLogitRows = 64;

constexpr int GroupsOf(int inputs) { return (inputs + kGroupInputs - 1) / kGroupInputs; }
constexpr int GroupsPerPart(int groups) { return (groups + kParts - 1) / kParts; }
constexpr int TilesOf(int rows) { return (rows + kTileRows - 1) / kTileRows; }

// Sum and squared distances from the mean of up to kTileRows neighbouring values of a token's
// hidden state: what norms are made of. T. Chan, G. Golub, R. LeVeque, "Algorithms for computing
// the sample variance", 1983, has how they are put together.
struct Moments {
  float sum, squares;
};

// --- Attention -----------------------------------------------------------------------------------

// Positions are cut into splits at multiples of kSplitTokens. Within one, each of kAttentionWarps
// warps takes its slabs of kSlabTokens; warps are put together in ascending order, and so are
// splits. A multiple of a head's dimensions is padded with zeros.
inline constexpr int kSplitTokens = 256;
inline constexpr int kSlabTokens = 16;
inline constexpr int kAttentionWarps = 8;
inline constexpr int kWarpTokens = kSplitTokens / kAttentionWarps;
inline constexpr int kDimTile = 16;

constexpr int PaddedHeadDim(int head_dim) {
  return (head_dim + kDimTile - 1) / kDimTile * kDimTile;
}

// Queries of one sequence at consecutive positions, and the splits that one block walks over.
struct AttentionItem {
  int32_t row;       // of the first query, in the step's tokens
  int32_t tokens;    // queries, each with all heads of a KV head
  int32_t position;  // of the first query
  int32_t table;     // where the sequence's block table begins, in StepHeader::tables
  int32_t first_split, num_splits;
  // All splits of these queries; where they are shared out among several blocks, each leaves its
  // splits in partial results, and the block that is done last puts all of them together.
  int32_t first_of_all, num_of_all;
  int32_t partial;  // of the first of all splits; -1: this block has all of them
  int32_t ticket;   // counts the blocks that are done
  int32_t blocks;   // how many there are
};

// A token's slot in a layer group.
struct KvSlot {
  int32_t block, offset;
};

// --- A step --------------------------------------------------------------------------------------

struct GroupStep {
  int32_t slots;  // KvSlot [num_tokens]
  int32_t items;  // AttentionItem [num_items]
  int32_t num_items;
};

// Stands at the beginning of what the host copies in for a step; the rest is found through it, so
// that a recorded graph fits every step of its size. Offsets are in bytes from the header.
struct StepHeader {
  int32_t num_tokens, num_samples;
  int32_t token_ids;    // int32 [num_tokens]; below 0: see batch::PendingToken
  int32_t positions;    // int32 [num_tokens]
  int32_t sample_rows;  // int32 [num_samples]
  int32_t groups;       // GroupStep [num_groups]
  int32_t tables;       // int32, all block tables
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_STEP_LAYOUT_H_
