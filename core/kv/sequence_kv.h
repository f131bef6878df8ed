// Which blocks hold the keys and values of one sequence's tokens.
#ifndef LUNA_CORE_KV_SEQUENCE_KV_H_
#define LUNA_CORE_KV_SEQUENCE_KV_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/kv/layout.h"
#include "core/kv/prefix_index.h"
#include "core/kv/session_pool.h"

namespace luna::kv {

// One table per layer group; entry i holds positions [i * block_tokens, (i + 1) * block_tokens).
// All tables are equally long; those of a windowed group begin with kNoBlock. Tokens [0,
// computed_tokens()) have keys and values, as far as their windows reach.
//
// Whole computed blocks are shared through the index with whoever begins alike in the same scope. A
// block that others hold, or count on, is never written to: the next token after the middle of one
// gets a copy of it first.
//
// Owned by a session, whose cache it is between turns. While somebody computes into it all of its
// blocks are protected; between turns as many from the front as the session is guaranteed. Borrows
// layout, pool and index. Engine thread only.
class SequenceKv {
 public:
  // Without an index nothing is shared, and nothing is kept for others. The scope may be the same
  // as other sessions'.
  SequenceKv(const KvLayout* layout, SessionPool* pool, PrefixIndex* index = nullptr,
             std::string_view scope = {});
  ~SequenceKv();
  SequenceKv(const SequenceKv&) = delete;
  SequenceKv& operator=(const SequenceKv&) = delete;

  int computed_tokens() const { return computed_; }
  int64_t held_blocks() const;
  std::span<const int32_t> table(int group) const { return tables_[group].blocks; }
  // Whether both share what they compute.
  bool SameScope(const SequenceKv& other) const {
    return index_ != nullptr && root_ == other.root_;
  }

  // Bytes of the keys and values that are there; held blocks x block bytes less the slack.
  int64_t used_bytes() const;
  // Of the held blocks those that either stay or, given back when a window leaves them behind, are
  // a gain: what another protects too is none.
  int64_t paid_blocks() const;
  // How many blocks are paid ones of one other, and would not be if this one, which does not,
  // protected them too.
  int64_t PaidByAnother() const;
  // Held blocks that nobody protects.
  int64_t unprotected_blocks() const;
  // What others could have more if it did not run: what nobody else holds and it protects, less
  // what it would be owed of its guarantee.
  int64_t FreedByStopping() const;

  // Tables for that many tokens will grow without touching the heap.
  void Reserve(int num_tokens);
  // Whether somebody computes into it.
  void SetRunning(bool running);
  // After the session's guarantee has changed.
  void UpdateProtection();

  // How many blocks Extend(to_tokens) would take.
  int64_t MissingBlocks(int to_tokens) const;
  // How far `num_blocks` more blocks of the pool would reach, in tokens, within the quota.
  int64_t ReachWith(int64_t num_blocks) const;
  // How many blocks have to be copied before the next token can be written, and how many of them
  // leave nothing in return: somebody else counts on the block itself.
  int64_t CopiesNeeded() const;
  int64_t CopiesToPay() const;
  // Room for the tokens before `to_tokens`. All or nothing: false if the session's quota or the
  // server's pool does not allow it. Appends what has to be copied before anything is written.
  bool Extend(int to_tokens, std::vector<BlockCopy>& copies);
  // The tokens before `to_tokens`, for which there is room, have been computed; `tokens` are all
  // that the sequence has. What no later position can see is given back.
  void Advance(int to_tokens, std::span<const TokenId> tokens);

  // Shares the longest beginning of `tokens` that is in the index, in whole blocks, if it is longer
  // than what is computed. It stays below tokens.size(), so that there is something to compute.
  void Adopt(std::span<const TokenId> tokens);
  // Copies the block that `other` has at computed_tokens(), a multiple of block_tokens, as far as
  // `to_tokens`, which it has computed and which begin alike; not if no block can be had. Only
  // where nothing is windowed.
  void CopyPartOf(const SequenceKv& other, int to_tokens, std::vector<BlockCopy>& copies);
  // Shares the first `num_tokens` of `other`, or as many as it has computed; none, if the quota
  // does not allow it, or its windows have left behind what the next position sees. This one is
  // empty and of the same scope.
  void ForkFrom(const SequenceKv& other, int num_tokens);

  // Forgets the tokens from `to_tokens` on, and the room beyond what is computed. If a window has
  // already left behind what position `to_tokens` must see, everything goes.
  void Truncate(int to_tokens);
  // Gives back at least `num_blocks` blocks, the last tokens first; all of them if it holds fewer.
  void GiveBackTail(int64_t num_blocks);
  // Whether there is a last block that nobody protects. `alone`: and that nobody else holds.
  bool CanGiveBackLast(bool alone) const;
  void GiveBackLast();

  // Adds what the tables say to `found` [total blocks of the pool]; returns how many blocks.
  int64_t Recount(std::vector<BlockPool::Found>& found) const;
  // Calls visit(BlockId) for each block in a table.
  template <typename Visit>
  void ForEachBlock(Visit visit) const {
    for (const Table& table : tables_) {
      for (size_t i = table.first_live; i < table.blocks.size(); ++i) {
        visit(BlockId(table.blocks[i]));
      }
    }
  }

 private:
  struct Table {
    int window = 0;
    int first_live = 0;  // entries before it are kNoBlock
    std::vector<int32_t> blocks;
  };

  // Of the windowed groups' blocks from entry `from` on, those of which matches(how many others
  // protect it).
  template <typename Matches>
  int64_t CountWindowed(int from, Matches matches) const;
  int NumBlocks(int num_tokens) const;
  int NumEntries() const { return static_cast<int>(tables_.front().blocks.size()); }
  // Index of the first block that position `position` sees.
  int FirstSeen(const Table& table, int position) const;
  int EntriesToProtect(bool running) const;
  bool CanTruncate(int to_tokens) const;
  int OtherProtectors(const Table& table, int entry) const;
  // The entry that the next token is written into, if something is in it already.
  std::optional<int> PartialEntry() const;
  bool IsShared(const Table& table, int entry) const;
  void MakePartialWritable(std::vector<BlockCopy>& copies);
  void LeaveBehind(Table& table, int end);
  void GiveBack(int entry, int32_t& block);
  void DropEntriesFrom(int size);
  void Register(std::span<const TokenId> tokens);
  bool RegisterEntry(int entry, std::span<const TokenId> tokens);
  void AcquireLast();
  // Nodes that follow those of the computed tokens.
  void FindNodes(std::span<const TokenId> tokens);
  int UsableEntries() const;

  const KvLayout* const layout_;
  BlockPool* const blocks_;
  SessionPool* const pool_;
  PrefixIndex* const index_;  // may be null
  const PrefixIndex::Node root_;
  std::vector<Table> tables_;                    // [num_groups]
  std::vector<PrefixIndex::Node> nodes_;         // of the first whole blocks
  PrefixIndex::Node last_ = PrefixIndex::kNone;  // of them, acquired
  std::vector<PrefixIndex::Node> found_;         // scratch of Adopt
  int computed_ = 0;
  int protected_ = 0;  // entries from the front
  bool running_ = false;
};

}  // namespace luna::kv

#endif  // LUNA_CORE_KV_SEQUENCE_KV_H_
