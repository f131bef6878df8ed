#include "core/kv/prefix_index.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace luna::kv {
namespace {

// A node without a block stays while one below it has one: with windows alone, a chain of them.
size_t Capacity(const KvLayout& layout, int32_t num_blocks) {
  return static_cast<size_t>(num_blocks) * (layout.windowed() ? 2 : 1);
}

}  // namespace

PrefixIndex::PrefixIndex(const KvLayout* layout, BlockPool* pool, int hash_bits)
    : pool_(pool),
      block_tokens_(static_cast<size_t>(layout->block_tokens)),
      num_groups_(static_cast<size_t>(layout->num_groups())),
      hash_mask_(hash_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << hash_bits) - 1),
      capacity_(Capacity(*layout, pool->total_blocks())),
      node_of_block_(pool->total_blocks(), kNone),
      found_(0, Hash{this}, Equal{this}) {
  // Twice the room, so that what is added and removed for ever never makes the table grow.
  found_.reserve(2 * capacity_);
  entries_.reserve(capacity_);
  tokens_.reserve(capacity_ * block_tokens_);
  blocks_.reserve(capacity_ * num_groups_);
  pool->set_on_recycle([this](BlockId block) { Forget(block); });
}

bool PrefixIndex::Is(Node node, const Key& key) const {
  return entries_[node].parent == key.parent && std::ranges::equal(tokens(node), key.tokens);
}

PrefixIndex::Key PrefixIndex::KeyOf(Node parent, std::span<const TokenId> tokens) const {
  LUNA_CHECK_EQ(tokens.size(), block_tokens_);
  const uint64_t hash = absl::HashOf(parent, absl::MakeConstSpan(tokens.data(), tokens.size()));
  return {.parent = parent, .tokens = tokens, .hash = hash & hash_mask_};
}

PrefixIndex::Node PrefixIndex::New() {
  if (unused_ != kNone) {
    const Node node = unused_;
    unused_ = entries_[node].parent;
    entries_[node] = {};
    return node;
  }
  entries_.emplace_back();
  tokens_.resize(tokens_.size() + block_tokens_);
  blocks_.resize(blocks_.size() + num_groups_, kNoBlock);
  return static_cast<Node>(entries_.size() - 1);
}

PrefixIndex::Node PrefixIndex::AcquireRoot(std::string_view scope) {
  const auto [it, is_new] = roots_.try_emplace(std::string(scope), kNone);
  if (is_new) {
    it->second = New();
    scopes_.emplace(it->second, scope);
  }
  ++entries_[it->second].acquired;
  return it->second;
}

void PrefixIndex::Release(Node node) {
  LUNA_CHECK(entries_[node].acquired > 0);
  --entries_[node].acquired;
  RemoveIfUnused(node);
}

PrefixIndex::Node PrefixIndex::Find(Node parent, std::span<const TokenId> tokens) const {
  const auto it = found_.find(KeyOf(parent, tokens));
  return it == found_.end() ? kNone : *it;
}

PrefixIndex::Node PrefixIndex::FindOrAdd(Node parent, std::span<const TokenId> tokens) {
  const Key key = KeyOf(parent, tokens);
  if (const auto it = found_.find(key); it != found_.end()) return *it;
  if (found_.size() >= capacity_) return kNone;
  const Node node = New();
  entries_[node].parent = parent;
  entries_[node].hash = key.hash;
  std::ranges::copy(tokens, tokens_.begin() + static_cast<ptrdiff_t>(node * block_tokens_));
  ++entries_[parent].children;
  found_.insert(node);
  return node;
}

void PrefixIndex::SetBlock(Node node, int group, BlockId block) {
  int32_t& slot = blocks_[Slot(node, group)];
  LUNA_CHECK_EQ(slot, kNoBlock) << "node " << node << " has a block in group " << group;
  LUNA_CHECK_EQ(node_of_block_[block.value()], kNone) << "block " << block << " is in a node";
  slot = block.value();
  ++entries_[node].blocks;
  node_of_block_[block.value()] = node;
  pool_->Keep(block);
}

void PrefixIndex::Forget(BlockId block) {
  const Node node = std::exchange(node_of_block_[block.value()], kNone);
  if (node == kNone) return;
  const auto begin = blocks_.begin() + static_cast<ptrdiff_t>(Slot(node, 0));
  const auto it = std::find(begin, begin + static_cast<ptrdiff_t>(num_groups_), block.value());
  *it = kNoBlock;
  --entries_[node].blocks;
  pool_->Unkeep(block);
  RemoveIfUnused(node);
}

void PrefixIndex::RemoveIfUnused(Node node) {
  while (node != kNone) {
    Entry& entry = entries_[node];
    if (entry.blocks > 0 || entry.children > 0 || entry.acquired > 0) return;
    const Node parent = entry.parent;
    if (parent == kNone) {
      roots_.erase(scopes_.at(node));
      scopes_.erase(node);
    } else {
      found_.erase(node);
      --entries_[parent].children;
    }
    entry.parent = unused_;
    unused_ = node;
    node = parent;
  }
}

void PrefixIndex::CheckInvariants(std::vector<BlockPool::Found>& found,
                                  std::vector<std::string>& differences) const {
  std::vector<int32_t> children(entries_.size(), 0);
  for (const Node node : found_) {
    const Entry& entry = entries_[node];
    ++children[entry.parent];
    int32_t blocks = 0;
    for (size_t group = 0; group < num_groups_; ++group) {
      const int32_t block = this->block(node, static_cast<int>(group));
      if (block == kNoBlock) continue;
      ++blocks;
      found[block].kept = true;
      if (node_of_block_[block] == node) continue;
      differences.push_back(absl::StrCat("block ", block, " of node ", node, " says it is of node ",
                                         node_of_block_[block]));
    }
    if (blocks != entry.blocks || blocks + entry.children + entry.acquired == 0) {
      differences.push_back(absl::StrCat("node ", node, " counts ", entry.blocks, " blocks and ",
                                         entry.children, " children; it has ", blocks, " blocks"));
    }
  }
  for (size_t node = 0; node < entries_.size(); ++node) {
    const Node id = static_cast<Node>(node);
    if (!scopes_.contains(id) && !found_.contains(id)) continue;
    if (children[node] == entries_[node].children) continue;
    differences.push_back(absl::StrCat("node ", node, " counts ", entries_[node].children,
                                       " children; ", children[node], " were found"));
  }
}

}  // namespace luna::kv
