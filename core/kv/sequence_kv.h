// Which blocks hold the keys and values of one sequence's tokens.
#ifndef LUNA_CORE_KV_SEQUENCE_KV_H_
#define LUNA_CORE_KV_SEQUENCE_KV_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/kv/layout.h"
#include "core/kv/session_pool.h"

namespace luna::kv {

// The entry of a block that a window has left behind.
inline constexpr int32_t kNoBlock = -1;

// One table per layer group; entry i holds positions [i * block_tokens, (i + 1) * block_tokens).
// All tables are equally long; those of a windowed group begin with kNoBlock. Tokens [0,
// computed_tokens()) have keys and values, as far as their windows reach. Owned by a session, whose
// cache it is between turns. Borrows layout and pool. Engine thread only.
class SequenceKv {
 public:
  SequenceKv(const KvLayout* layout, SessionPool* pool);
  ~SequenceKv() { Truncate(0); }
  SequenceKv(const SequenceKv&) = delete;
  SequenceKv& operator=(const SequenceKv&) = delete;

  int computed_tokens() const { return computed_; }
  int64_t held_blocks() const;
  std::span<const int32_t> table(int group) const { return tables_[group].blocks; }

  // Bytes of the keys and values that are there; held blocks x block bytes less the slack.
  int64_t used_bytes() const;

  // Tables for that many tokens will grow without touching the heap.
  void Reserve(int num_tokens);

  // How many blocks Extend(to_tokens) would take.
  int64_t MissingBlocks(int to_tokens) const;
  // How far `num_blocks` more blocks would reach, in tokens.
  int64_t ReachWith(int64_t num_blocks) const;
  // Room for the tokens before `to_tokens`. All or nothing: false if the session's quota or the
  // server's pool does not allow it.
  bool Extend(int to_tokens);
  // The tokens before `to_tokens`, for which there is room, have been computed. What no later
  // position can see is given back.
  void Advance(int to_tokens);
  // Forgets the tokens from `to_tokens` on, and the room beyond what is computed. If a window has
  // already left behind what position `to_tokens` must see, everything goes.
  void Truncate(int to_tokens);
  // Gives back at least `num_blocks` blocks, the last tokens first; all of them if it holds fewer.
  void GiveBackTail(int64_t num_blocks);

  // Adds one to `held` [total blocks of the pool] for each block in a table; returns how many.
  int64_t Recount(std::vector<int32_t>& held) const;

 private:
  struct Table {
    int window = 0;
    int first_live = 0;  // entries before it are kNoBlock
    std::vector<int32_t> blocks;
  };

  int NumBlocks(int num_tokens) const;
  // Index of the first block that position `position` sees.
  int FirstSeen(const Table& table, int position) const;

  const KvLayout* const layout_;
  SessionPool* const pool_;
  std::vector<Table> tables_;  // [num_groups]
  int computed_ = 0;
};

}  // namespace luna::kv

#endif  // LUNA_CORE_KV_SEQUENCE_KV_H_
