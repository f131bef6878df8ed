#include "core/backend/cuda/step_builder.h"

#include <algorithm>
#include <cstring>

#include "core/backend/checks.h"
#include "core/backend/cuda/device_memory.h"
#include "core/base/check.h"

namespace luna::backend::cuda {

// Appends arrays behind each other, each aligned.
class StepBuilder::Writer {
 public:
  explicit Writer(std::byte* out) : out_(out) {}

  template <typename T>
  int32_t Append(std::span<const T> values) {
    const int64_t at = bytes_;
    if (!values.empty()) std::memcpy(out_ + at, values.data(), values.size_bytes());
    bytes_ = Aligned(at + static_cast<int64_t>(values.size_bytes()));
    return static_cast<int32_t>(at);
  }
  // Room for `count` values that are written later.
  template <typename T>
  T* Room(int64_t count, int32_t& offset) {
    offset = static_cast<int32_t>(bytes_);
    T* room = reinterpret_cast<T*>(out_ + bytes_);
    bytes_ = Aligned(bytes_ + count * static_cast<int64_t>(sizeof(T)));
    return room;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::byte* const out_;
  int64_t bytes_ = 0;
};

StepBuilder::StepBuilder(const model::ModelConfig& config, const kv::KvLayout& layout,
                         const AttentionPlan& plan, int max_tokens)
    : plan_(plan),
      max_tokens_(max_tokens),
      context_length_(config.context_length),
      num_groups_(layout.num_groups()),
      block_tokens_(layout.block_tokens) {
  LUNA_CHECK_GE(plan.narrow_columns, plan.heads);
  LUNA_CHECK_GE(plan.wide_columns, plan.heads);
  for (const kv::LayerGroup& group : layout.groups) windows_.push_back(group.window);
  items_.reserve(max_tokens + plan.max_partials);
}

int64_t StepBuilder::MaxTableEntries() const {
  return int64_t{max_tokens_} * num_groups_ * (context_length_ / block_tokens_ + 1);
}

int64_t StepBuilder::max_bytes() const {
  const int64_t of_group =
      Aligned(max_tokens_ * static_cast<int64_t>(sizeof(KvSlot))) +
      Aligned((max_tokens_ + plan_.max_partials) * static_cast<int64_t>(sizeof(AttentionItem)));
  return Aligned(sizeof(StepHeader)) + 3 * Aligned(4 * int64_t{max_tokens_}) +
         Aligned(num_groups_ * static_cast<int64_t>(sizeof(GroupStep))) + num_groups_ * of_group +
         Aligned(4 * MaxTableEntries());
}

int64_t StepBuilder::CountTiles(const batch::Batch& batch) const {
  const int per_tile = columns_ / plan_.heads;
  int64_t tiles = 0;
  for (int s = 0; s < batch.num_sequences(); ++s) {
    const int tokens = batch.sequence_starts[s + 1] - batch.sequence_starts[s];
    tiles += (tokens + per_tile - 1) / per_tile;
  }
  return tiles;
}

// The items of one sequence's queries in one group.
void StepBuilder::AddItems(const batch::Batch& batch, int group, int sequence,
                           std::span<const int32_t> tables) {
  const int begin = batch.sequence_starts[sequence], end = batch.sequence_starts[sequence + 1];
  const int per_tile = columns_ / plan_.heads;
  const bool share_out = blocks_ < plan_.target_blocks;
  for (int row = begin; row < end; row += per_tile) {
    AttentionItem item = {};
    item.row = row;
    item.tokens = std::min(per_tile, end - row);
    item.position = batch.positions[row];
    item.table = tables[sequence];
    item.first_of_all = FirstVisible(item.position, windows_[group]) / kSplitTokens;
    const int last = (item.position + item.tokens - 1) / kSplitTokens;
    item.num_of_all = last - item.first_of_all + 1;
    item.first_split = item.first_of_all;
    item.num_splits = item.num_of_all;
    item.partial = -1;
    item.blocks = 1;
    const bool shared =
        share_out && item.num_of_all > 1 && partials_ + item.num_of_all <= plan_.max_partials;
    if (!shared) {
      items_.push_back(item);
      continue;
    }
    const int64_t wanted = (plan_.target_blocks + blocks_ - 1) / blocks_;
    item.blocks = static_cast<int32_t>(std::min<int64_t>(item.num_of_all, wanted));
    item.partial = partials_;
    item.ticket = tickets_++;
    partials_ += item.num_of_all;
    for (int b = 0; b < item.blocks; ++b) {
      const int from = item.num_of_all * b / item.blocks;
      const int to = item.num_of_all * (b + 1) / item.blocks;
      item.first_split = item.first_of_all + from;
      item.num_splits = to - from;
      items_.push_back(item);
    }
  }
}

int64_t StepBuilder::Build(const batch::Batch& batch, std::byte* out, StepShape& shape) {
  const int tokens = batch.num_tokens();
  const bool single_tokens = tokens == batch.num_sequences();
  shape = {.tokens = tokens,
           .samples = static_cast<int>(batch.samples.size()),
           .narrow_attention = single_tokens,
           .attention_items = 0};
  columns_ = shape.narrow_attention ? plan_.narrow_columns : plan_.wide_columns;

  Writer writer(out);
  int32_t offset = 0;
  auto& header = *writer.Room<StepHeader>(1, offset);
  header = {.num_tokens = tokens,
            .num_samples = shape.samples,
            .token_ids = writer.Append<int32_t>(batch.token_ids),
            .positions = writer.Append<int32_t>(batch.positions),
            .sample_rows = 0,
            .groups = 0,
            .tables = 0};
  int32_t* const rows = writer.Room<int32_t>(shape.samples, header.sample_rows);
  for (int i = 0; i < shape.samples; ++i) rows[i] = batch.samples[i].row;
  auto* const groups = writer.Room<GroupStep>(num_groups_, header.groups);
  blocks_ = CountTiles(batch) * plan_.num_kv_heads;
  for (int g = 0; g < num_groups_; ++g) {
    auto* slot = writer.Room<KvSlot>(tokens, groups[g].slots);
    items_.clear();
    partials_ = tickets_ = 0;
    const std::span starts =
        std::span(batch.block_table_starts).subspan(int64_t{g} * batch.num_sequences());
    for (int s = 0; s < batch.num_sequences(); ++s) {
      const std::span<const int32_t> table = batch.block_table(g, s);
      for (int row = batch.sequence_starts[s]; row < batch.sequence_starts[s + 1]; ++row) {
        const int position = batch.positions[row];
        *slot++ = {table[position / block_tokens_], position % block_tokens_};
      }
      AddItems(batch, g, s, starts);
    }
    groups[g].items = writer.Append<AttentionItem>(items_);
    groups[g].num_items = static_cast<int32_t>(items_.size());
    shape.attention_items = std::max(shape.attention_items, groups[g].num_items);
  }
  header.tables = writer.Append<int32_t>(batch.block_tables);
  return writer.bytes();
}

}  // namespace luna::backend::cuda
