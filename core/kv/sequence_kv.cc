#include "core/kv/sequence_kv.h"

#include <algorithm>

#include "core/base/check.h"

namespace luna::kv {

SequenceKv::SequenceKv(const KvLayout* layout, SessionPool* pool, PrefixIndex* index,
                       std::string_view scope)
    : layout_(layout),
      blocks_(&pool->blocks()),
      pool_(pool),
      index_(index),
      root_(index == nullptr ? PrefixIndex::kNone : index->AcquireRoot(scope)) {
  for (const LayerGroup& group : layout->groups) {
    tables_.push_back({.window = group.window, .first_live = 0, .blocks = {}});
  }
}

SequenceKv::~SequenceKv() {
  Truncate(0);
  if (index_ != nullptr) index_->Release(root_);
}

int SequenceKv::NumBlocks(int num_tokens) const {
  return (num_tokens + layout_->block_tokens - 1) / layout_->block_tokens;
}

int SequenceKv::FirstSeen(const Table& table, int position) const {
  if (table.window == 0) return 0;
  return std::max(0, position - table.window + 1) / layout_->block_tokens;
}

int64_t SequenceKv::held_blocks() const {
  int64_t count = 0;
  for (const Table& table : tables_) count += NumEntries() - table.first_live;
  return count;
}

int64_t SequenceKv::used_bytes() const {
  int64_t tokens = 0;
  for (const Table& table : tables_) {
    tokens += std::max(0, computed_ - table.first_live * layout_->block_tokens);
  }
  return tokens * layout_->token_layer_bytes * layout_->layers_per_group();
}

template <typename Matches>
int64_t SequenceKv::CountWindowed(int from, Matches matches) const {
  int64_t count = 0;
  for (const Table& table : tables_) {
    if (table.window == 0) continue;
    for (int entry = std::max(from, table.first_live); entry < NumEntries(); ++entry) {
      count += matches(OtherProtectors(table, entry)) ? 1 : 0;
    }
  }
  return count;
}

int64_t SequenceKv::paid_blocks() const {
  return held_blocks() - CountWindowed(0, [](int others) { return others > 0; });
}

int64_t SequenceKv::PaidByAnother() const {
  return CountWindowed(protected_, [](int others) { return others == 1; });
}

int SequenceKv::OtherProtectors(const Table& table, int entry) const {
  return blocks_->protectors(BlockId(table.blocks[entry])) - (entry < protected_ ? 1 : 0);
}

int64_t SequenceKv::unprotected_blocks() const {
  int64_t count = 0;
  ForEachBlock([&](BlockId block) { count += blocks_->protectors(block) > 0 ? 0 : 1; });
  return count;
}

int64_t SequenceKv::FreedByStopping() const {
  int64_t freed = 0, stay = 0;
  const int guaranteed = EntriesToProtect(/*running=*/false);
  for (const Table& table : tables_) {
    stay += std::max(0, guaranteed - table.first_live);
    for (int entry = std::max(guaranteed, table.first_live); entry < protected_; ++entry) {
      freed += IsShared(table, entry) ? 0 : 1;
    }
  }
  const int64_t owed = std::max<int64_t>(0, pool_->guaranteed_blocks() - stay);
  return freed - (owed - pool_->unused_guarantee());
}

void SequenceKv::Reserve(int num_tokens) {
  for (Table& table : tables_) table.blocks.reserve(NumBlocks(num_tokens));
  nodes_.reserve(NumBlocks(num_tokens));
}

// --- Protection. ---

void SequenceKv::SetRunning(bool running) {
  running_ = running;
  UpdateProtection();
}

// Whole entries, and not a block more than is guaranteed: all guarantees together were admitted.
// None, if what comes after them cannot go without them.
int SequenceKv::EntriesToProtect(bool running) const {
  if (running) return NumEntries();
  int64_t left = pool_->guaranteed_blocks();
  for (int entry = 0; entry < NumEntries(); ++entry) {
    left -= std::ranges::count_if(tables_, [&](const Table& t) { return entry >= t.first_live; });
    if (left < 0) return CanTruncate(entry * layout_->block_tokens) ? entry : 0;
  }
  return NumEntries();
}

// Not where a window has left behind what position `to_tokens` sees.
bool SequenceKv::CanTruncate(int to_tokens) const {
  return std::ranges::all_of(
      tables_, [&](const Table& t) { return FirstSeen(t, to_tokens) >= t.first_live; });
}

void SequenceKv::UpdateProtection() {
  const int wanted = EntriesToProtect(running_);
  const int begin = std::min(wanted, protected_), end = std::max(wanted, protected_);
  for (const Table& table : tables_) {
    for (int entry = std::max(begin, table.first_live); entry < end; ++entry) {
      const BlockId block(table.blocks[entry]);
      wanted > protected_ ? pool_->Protect(block) : pool_->Unprotect(block);
    }
  }
  protected_ = wanted;
}

void SequenceKv::GiveBack(int entry, int32_t& block) {
  if (block == kNoBlock) return;
  if (entry < protected_) pool_->Unprotect(BlockId(block));
  pool_->GiveBack(BlockId(block));
  block = kNoBlock;
}

// --- Growth. ---

std::optional<int> SequenceKv::PartialEntry() const {
  if (computed_ % layout_->block_tokens == 0) return std::nullopt;
  return computed_ / layout_->block_tokens;
}

bool SequenceKv::IsShared(const Table& table, int entry) const {
  return blocks_->holders(BlockId(table.blocks[entry])) > 1;
}

int64_t SequenceKv::CopiesNeeded() const {
  const std::optional<int> entry = PartialEntry();
  if (!entry.has_value()) return 0;
  return std::ranges::count_if(tables_, [&](const Table& t) { return IsShared(t, *entry); });
}

// Where nobody else counts on the block, its copy costs nothing: the block can be had then.
int64_t SequenceKv::CopiesToPay() const {
  const std::optional<int> entry = PartialEntry();
  if (!entry.has_value()) return 0;
  return std::ranges::count_if(tables_, [&](const Table& t) {
    return IsShared(t, *entry) && OtherProtectors(t, *entry) > 0;
  });
}

int64_t SequenceKv::MissingBlocks(int to_tokens) const {
  const int64_t copies = to_tokens > computed_ ? CopiesNeeded() : 0;
  return int64_t{std::max(0, NumBlocks(to_tokens) - NumEntries())} * layout_->num_groups() + copies;
}

int64_t SequenceKv::ReachWith(int64_t num_blocks) const {
  const int64_t left = std::min(num_blocks - CopiesToPay(), pool_->left_in_quota());
  if (left < 0) return computed_;
  return (NumEntries() + left / layout_->num_groups()) * layout_->block_tokens;
}

bool SequenceKv::Extend(int to_tokens, std::vector<BlockCopy>& copies) {
  const int64_t missing = MissingBlocks(to_tokens);
  const int64_t more = missing - (to_tokens > computed_ ? CopiesNeeded() : 0);
  if (missing > pool_->Available() || more > pool_->left_in_quota()) return false;
  if (to_tokens > computed_) MakePartialWritable(copies);
  const size_t size = NumBlocks(to_tokens);
  for (Table& table : tables_) {
    while (table.blocks.size() < size) table.blocks.push_back(pool_->Take()->value());
  }
  UpdateProtection();
  return true;
}

void SequenceKv::MakePartialWritable(std::vector<BlockCopy>& copies) {
  const std::optional<int> entry = PartialEntry();
  if (!entry.has_value()) return;
  for (Table& table : tables_) {
    int32_t& block = table.blocks[*entry];
    if (!IsShared(table, *entry)) {
      if (index_ != nullptr) index_->Forget(BlockId(block));
      continue;
    }
    if (*entry < protected_) pool_->Unprotect(BlockId(block));
    const BlockId copy = *pool_->TakeInsteadOf(BlockId(block));
    if (*entry < protected_) pool_->Protect(copy);
    copies.push_back({.from = BlockId(block), .to = copy});
    block = copy.value();
  }
}

void SequenceKv::Advance(int to_tokens, std::span<const TokenId> tokens) {
  LUNA_CHECK_LE(computed_, to_tokens);
  LUNA_CHECK_LE(NumBlocks(to_tokens), NumEntries());
  computed_ = to_tokens;
  if (index_ != nullptr) Register(tokens);
  for (Table& table : tables_)
    LeaveBehind(table, std::min(FirstSeen(table, computed_), NumEntries()));
  UpdateProtection();
}

void SequenceKv::LeaveBehind(Table& table, int end) {
  for (; table.first_live < end; ++table.first_live) {
    GiveBack(table.first_live, table.blocks[table.first_live]);
  }
}

// --- Shrinking. ---

void SequenceKv::DropEntriesFrom(int size) {
  for (Table& table : tables_) {
    while (static_cast<int>(table.blocks.size()) > size) {
      GiveBack(static_cast<int>(table.blocks.size()) - 1, table.blocks.back());
      table.blocks.pop_back();
    }
    table.first_live = std::min(table.first_live, size);
  }
  protected_ = std::min(protected_, size);
}

void SequenceKv::Truncate(int to_tokens) {
  int keep = std::min(computed_, to_tokens);
  if (!CanTruncate(keep)) keep = 0;
  DropEntriesFrom(NumBlocks(keep));
  computed_ = keep;
  nodes_.resize(std::min<size_t>(nodes_.size(), keep / layout_->block_tokens));
  AcquireLast();
  UpdateProtection();
}

void SequenceKv::GiveBackTail(int64_t num_blocks) {
  const int64_t target = std::max<int64_t>(0, held_blocks() - num_blocks);
  while (held_blocks() > target) GiveBackLast();
}

void SequenceKv::GiveBackLast() { Truncate((NumEntries() - 1) * layout_->block_tokens); }

bool SequenceKv::CanGiveBackLast(bool alone) const {
  const int last = NumEntries() - 1;
  if (last < protected_) return false;
  return !alone || std::ranges::none_of(tables_, [&](const Table& t) { return IsShared(t, last); });
}

// --- Does it add up. ---

int64_t SequenceKv::Recount(std::vector<BlockPool::Found>& found) const {
  int64_t count = 0;
  for (const Table& table : tables_) {
    for (int entry = 0; entry < static_cast<int>(table.blocks.size()); ++entry) {
      const int32_t block = table.blocks[entry];
      if (block == kNoBlock) continue;
      ++found[block].holders;
      if (entry < protected_) ++found[block].protectors;
      ++count;
    }
  }
  return count;
}

}  // namespace luna::kv
