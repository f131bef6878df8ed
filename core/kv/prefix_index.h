// Which computed blocks begin a text, so that whoever begins alike need not compute them again.
#ifndef LUNA_CORE_KV_PREFIX_INDEX_H_
#define LUNA_CORE_KV_PREFIX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/base/ids.h"
#include "core/kv/block_pool.h"
#include "core/kv/layout.h"

namespace luna::kv {

// A forest of blocks of tokens: a path from a root is a beginning of a text, and a node has, in
// each layer group, the block with the keys and values of its tokens, as long as there is one.
// There is a root for each scope, so that scopes never meet. A child is found by a hash of its
// parent and its tokens, and it is the one only if both are equal: a collision costs a comparison.
//
// A block that is in it is kept by the pool: cached when its last holder lets go. A node goes when
// it has neither block nor child and nobody has acquired it. Sized at the start; when it is full,
// what is new is not kept. Engine thread only. Borrows the layout; the pool outlives it and tells
// it what it recycles.
class PrefixIndex {
 public:
  using Node = int32_t;
  static constexpr Node kNone = -1;

  // `hash_bits` below 64 leave that many of each hash, for tests.
  PrefixIndex(const KvLayout* layout, BlockPool* pool, int hash_bits = 64);
  ~PrefixIndex() { pool_->set_on_recycle({}); }
  PrefixIndex(const PrefixIndex&) = delete;
  PrefixIndex& operator=(const PrefixIndex&) = delete;

  // The root of a scope, acquired.
  Node AcquireRoot(std::string_view scope);
  // What is acquired stays until it was released as often, whatever becomes of its blocks.
  void Acquire(Node node) { ++entries_[node].acquired; }
  void Release(Node node);

  // kNone if there is none. `tokens` [block_tokens].
  Node Find(Node parent, std::span<const TokenId> tokens) const;
  // kNone if the index is full. One without a block is to get one at once.
  Node FindOrAdd(Node parent, std::span<const TokenId> tokens);

  // The block of a node in a layer group; kNoBlock if it has none.
  int32_t block(Node node, int group) const { return blocks_[Slot(node, group)]; }
  // `block` is held, and the node has none in this group.
  void SetBlock(Node node, int group, BlockId block);
  // The block's contents are about to change, or it was recycled. Does nothing where it is in no
  // node.
  void Forget(BlockId block);

  size_t num_nodes() const { return found_.size(); }
  // Marks the blocks that nodes have; appends what does not add up, in words.
  void CheckInvariants(std::vector<BlockPool::Found>& found,
                       std::vector<std::string>& differences) const;

 private:
  struct Entry {
    Node parent = kNone;  // of a node that is not in use, the next one that is not
    int32_t children = 0;
    int32_t blocks = 0;
    int32_t acquired = 0;
    uint64_t hash = 0;
  };
  struct Key {
    Node parent;
    std::span<const TokenId> tokens;
    uint64_t hash;
  };
  struct Hash {
    using is_transparent = void;
    const PrefixIndex* index;
    size_t operator()(Node node) const { return index->entries_[node].hash; }
    size_t operator()(const Key& key) const { return key.hash; }
  };
  struct Equal {
    using is_transparent = void;
    const PrefixIndex* index;
    bool operator()(Node a, Node b) const { return a == b; }
    bool operator()(const Key& key, Node node) const { return index->Is(node, key); }
    bool operator()(Node node, const Key& key) const { return index->Is(node, key); }
  };

  size_t Slot(Node node, int group) const {
    return static_cast<size_t>(node) * num_groups_ + static_cast<size_t>(group);
  }
  std::span<const TokenId> tokens(Node node) const {
    return {tokens_.data() + static_cast<size_t>(node) * block_tokens_, block_tokens_};
  }
  bool Is(Node node, const Key& key) const;
  Key KeyOf(Node parent, std::span<const TokenId> tokens) const;
  Node New();
  void RemoveIfUnused(Node node);

  BlockPool* const pool_;
  const size_t block_tokens_;
  const size_t num_groups_;
  const uint64_t hash_mask_;
  const size_t capacity_;  // nodes that are no roots
  std::vector<Entry> entries_;
  std::vector<TokenId> tokens_;      // [entries, block_tokens]
  std::vector<int32_t> blocks_;      // [entries, num_groups]
  std::vector<Node> node_of_block_;  // [total blocks]
  Node unused_ = kNone;
  absl::flat_hash_set<Node, Hash, Equal> found_;  // those that are no roots
  absl::flat_hash_map<std::string, Node> roots_;
  absl::flat_hash_map<Node, std::string> scopes_;  // of the roots
};

}  // namespace luna::kv

#endif  // LUNA_CORE_KV_PREFIX_INDEX_H_
