// Attention over paged keys and values against sums in double: single tokens and chunks, splits
// that one block walks over and splits that many share out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include "core/backend/checks.h"
#include "core/backend/cuda/kernel_args.h"
#include "core/backend/cuda/step_builder.h"
#include "core/backend/kv_geometry.h"
#include "core/backend/rounding.h"
#include "tests/backend/cuda/kernel_runner.h"

namespace luna::backend::cuda {
namespace {

struct Case {
  bool is_bf16;
  int num_heads, num_kv_heads, head_dim;
  int window;
  int block_tokens;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << (c.is_bf16 ? "bf16" : "f32") << "_" << c.num_heads << "of" << c.num_kv_heads
               << "x" << c.head_dim << "_window" << c.window << "_blocks" << c.block_tokens;
  }
};

class AttentionTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr int kContext = 700;  // three splits

  AttentionTest() : c_(GetParam()), random_(7) {
    config_.num_layers = 1;
    config_.num_heads = c_.num_heads;
    config_.num_kv_heads = c_.num_kv_heads;
    config_.head_dim = c_.head_dim;
    config_.context_length = kContext;
    config_.layers = {{.sliding_window = c_.window}};
    padded_ = PaddedHeadDim(c_.head_dim);
    element_ = c_.is_bf16 ? 2 : 4;
    const int windows[] = {c_.window};
    const int64_t head_bytes = int64_t{padded_} * element_;
    layout_ =
        kv::MakeLayout(windows, c_.block_tokens, KvGeometry::TokenLayerBytes(config_, head_bytes));
    const int num_blocks = 2 * (kContext / c_.block_tokens + 1);
    geometry_ = *KvGeometry::Make(config_, head_bytes, layout_, num_blocks);
    for (int s = 0; s < 2; ++s) Fill(s, num_blocks);
    pool_ = runner_.Put(pool_bytes_);
    ChooseKernels();
  }

  void ChooseKernels() {
    const auto& all = c_.is_bf16 ? TestKernels().bf16_attention : TestKernels().f32_attention;
    for (const AttentionKernel& kernel : all) {
      if (kernel.max_head_dim < c_.head_dim || kernel.columns < c_.num_heads / c_.num_kv_heads)
        continue;
      if (narrow_ == nullptr) narrow_ = &kernel;
      if (kernel.max_head_dim == narrow_->max_head_dim) wide_ = &kernel;
    }
  }

  // Keys and values of sequence `s`, rounded as they are stored, in scrambled blocks.
  void Fill(int s, int num_blocks) {
    if (free_.empty()) {
      free_.resize(num_blocks);
      std::iota(free_.begin(), free_.end(), 0);
      std::shuffle(free_.begin(), free_.end(), random_);
      pool_bytes_.resize(geometry_.bytes());
    }
    for (int i = 0; i <= (kContext - 1) / c_.block_tokens; ++i) {
      tables_[s].push_back(free_.back());
      free_.pop_back();
    }
    std::normal_distribution<float> normal;
    const int64_t row = int64_t{c_.num_kv_heads} * c_.head_dim;
    for (std::vector<float>* values : {&keys_[s], &values_[s]}) {
      values->resize(kContext * row);
      for (float& value : *values) {
        value = normal(random_);
        if (c_.is_bf16) value = std::bit_cast<float>(uint32_t{ToBf16(value)} << 16);
      }
    }
    const KvLayerPlace& place = geometry_.place(0);
    for (int p = 0; p < kContext; ++p) {
      for (int h = 0; h < c_.num_kv_heads; ++h) {
        for (int d = 0; d < c_.head_dim; ++d) {
          const int64_t at = place.offset + tables_[s][p / c_.block_tokens] * place.block_stride +
                             h * place.head_stride +
                             (int64_t{p % c_.block_tokens} * padded_ + d) * element_;
          const int64_t from = p * row + h * c_.head_dim + d;
          Write(at, keys_[s][from]);
          Write(at + place.values_offset, values_[s][from]);
        }
      }
    }
  }
  void Write(int64_t at, float value) {
    if (c_.is_bf16) {
      const uint16_t bits = ToBf16(value);
      std::memcpy(&pool_bytes_[at], &bits, sizeof(bits));
    } else {
      std::memcpy(&pool_bytes_[at], &value, sizeof(value));
    }
  }

  struct Chunk {
    int sequence, first, count;
  };
  // Outputs [tokens, num_heads * head_dim].
  std::vector<float> Run(const std::vector<Chunk>& chunks, int target_blocks) {
    batch::Batch batch;
    batch.sequence_starts.push_back(0);
    batch.block_table_starts.push_back(0);
    std::vector<float> q;
    for (const Chunk& chunk : chunks) {
      for (int p = chunk.first; p < chunk.first + chunk.count; ++p) {
        batch.token_ids.push_back(0);
        batch.positions.push_back(p);
        const std::vector<float> query = Query(chunk.sequence, p);
        q.insert(q.end(), query.begin(), query.end());
      }
      batch.sequence_starts.push_back(batch.num_tokens());
      batch.context_lengths.push_back(chunk.first + chunk.count);
      const std::vector<int32_t>& table = tables_[chunk.sequence];
      batch.block_tables.insert(batch.block_tables.end(), table.begin(), table.end());
      batch.block_table_starts.push_back(static_cast<int32_t>(batch.block_tables.size()));
    }
    const int heads = c_.num_heads / c_.num_kv_heads;
    constexpr int kMaxPartials = 64;
    StepBuilder builder(config_, layout_,
                        {.heads = heads,
                         .num_kv_heads = c_.num_kv_heads,
                         .narrow_columns = narrow_->columns,
                         .wide_columns = wide_->columns,
                         .target_blocks = target_blocks,
                         .max_partials = kMaxPartials,
                         .max_splits = 3},
                        800);
    std::vector<std::byte> step(builder.max_bytes());
    StepShape shape;
    const int64_t bytes = builder.Build(batch, step.data(), shape);
    EXPECT_LE(bytes, builder.max_bytes());
    step.resize(bytes);
    const AttentionKernel& kernel = shape.narrow_attention ? *narrow_ : *wide_;

    AttentionArgs args = {};
    args.header = reinterpret_cast<const StepHeader*>(runner_.Put(step));
    const int size = c_.num_heads * c_.head_dim;
    args.q = runner_.Put(q);
    args.q_stride = size;
    const KvLayerPlace& place = geometry_.place(0);
    args.kv = {.data = pool_ + place.offset,
               .block_stride = place.block_stride,
               .head_stride = place.head_stride,
               .values_offset = place.values_offset,
               .group = 0,
               .padded_dim = padded_,
               .block_tokens = c_.block_tokens,
               .is_bf16 = c_.is_bf16};
    args.num_kv_heads = c_.num_kv_heads;
    args.heads = heads;
    args.head_dim = c_.head_dim;
    args.window = c_.window;
    args.scale = Scale();
    args.out = runner_.Put(std::vector<float>(q.size(), 77.0f));
    args.out_stride = size;
    args.partials = runner_.Put(std::vector<float>(
        size_t{kMaxPartials} * c_.num_kv_heads * wide_->columns * (padded_ + 2), NAN));
    const std::vector<uint32_t> tickets(size_t{kMaxPartials} * c_.num_kv_heads, 0);
    args.tickets = runner_.Put(tickets);
    runner_.Run(kernel.sized, {.x = std::min(5, shape.attention_items), .y = c_.num_kv_heads},
                args);
    EXPECT_EQ(runner_.Get(args.tickets, tickets.size()), tickets) << "ready for the next step";
    items_ = shape.attention_items;
    return runner_.Get(args.out, q.size());
  }

  float Scale() const { return 1.0f / std::sqrt(static_cast<float>(c_.head_dim)); }
  std::vector<float> Query(int sequence, int position) const {
    std::mt19937 random(1000 * sequence + position);
    std::normal_distribution<float> normal;
    std::vector<float> q(c_.num_heads * c_.head_dim);
    for (float& value : q) value = 2 * normal(random);
    return q;
  }
  std::vector<double> Expected(int sequence, int position, int head) const {
    const std::vector<float> q = Query(sequence, position);
    const int kv_head = head / (c_.num_heads / c_.num_kv_heads);
    const int64_t row = int64_t{c_.num_kv_heads} * c_.head_dim;
    std::vector<double> out(c_.head_dim, 0.0);
    double total = 0;
    for (int p = FirstVisible(position, c_.window); p <= position; ++p) {
      double score = 0;
      for (int d = 0; d < c_.head_dim; ++d) {
        score += double{q[head * c_.head_dim + d]} *
                 keys_[sequence][p * row + kv_head * c_.head_dim + d];
      }
      const double weight = std::exp(score * Scale());
      total += weight;
      for (int d = 0; d < c_.head_dim; ++d) {
        out[d] += weight * values_[sequence][p * row + kv_head * c_.head_dim + d];
      }
    }
    for (double& value : out) value /= total;
    return out;
  }

  const Case c_;
  std::mt19937 random_;
  model::ModelConfig config_;
  int padded_ = 0, element_ = 0;
  kv::KvLayout layout_;
  KvGeometry geometry_;
  std::vector<int32_t> free_, tables_[2];
  std::vector<float> keys_[2], values_[2];
  std::vector<std::byte> pool_bytes_;
  KernelRunner runner_;
  std::byte* pool_ = nullptr;
  const AttentionKernel* narrow_ = nullptr;
  const AttentionKernel* wide_ = nullptr;
  int items_ = 0;  // of the last run
};

TEST_P(AttentionTest, EqualsSumsInDouble) {
  const std::vector<Chunk> chunks = {
      {0, 600, 1}, {1, 0, 1}, {0, 250, 12}, {1, 511, 4}, {1, 699, 1}};
  const std::vector<float> out = Run(chunks, /*target_blocks=*/1000);
  size_t row = 0;
  for (const Chunk& chunk : chunks) {
    for (int p = chunk.first; p < chunk.first + chunk.count; ++p, ++row) {
      for (int h = 0; h < c_.num_heads; ++h) {
        const std::vector<double> expected = Expected(chunk.sequence, p, h);
        for (int d = 0; d < c_.head_dim; ++d) {
          ASSERT_NEAR(out[(row * c_.num_heads + h) * c_.head_dim + d], expected[d],
                      c_.is_bf16 ? 1e-4 : 2e-5)
              << "position " << p << ", head " << h << ", dimension " << d;
        }
      }
    }
  }
}

// Whole, in chunks, one by one; splits shared out or not; beside another sequence or alone.
TEST_P(AttentionTest, BitsDependOnTheQueryAlone) {
  const std::vector<float> whole = Run({{0, 240, 300}}, 0);
  const size_t size = whole.size() / 300;
  const auto same = [&](const std::vector<float>& out, size_t row, int position) {
    return std::memcmp(out.data() + row * size, whole.data() + (position - 240) * size,
                       size * sizeof(float)) == 0;
  };
  const std::vector<float> shared = Run({{0, 240, 300}}, 1000);
  for (int p = 240; p < 540; ++p) ASSERT_TRUE(same(shared, p - 240, p)) << "shared out, " << p;
  const std::vector<float> chunk = Run({{1, 5, 40}, {0, 500, 17}}, 0);
  for (int p = 500; p < 517; ++p) ASSERT_TRUE(same(chunk, 40 + p - 500, p)) << "a chunk, " << p;
  for (const int p : {240, 255, 256, 270, 511, 512, 539}) {
    ASSERT_TRUE(same(Run({{0, p, 1}}, 0), 0, p)) << "alone, " << p;
    ASSERT_TRUE(same(Run({{1, 3, 1}, {0, p, 1}}, 1000), 1, p)) << "splits shared out, " << p;
  }
}

TEST_P(AttentionTest, SplitsAreSharedOutWhereTheDeviceWouldBeIdle) {
  Run({{0, 699, 1}}, 0);
  EXPECT_EQ(items_, 1);
  Run({{0, 699, 1}}, 1000);
  EXPECT_EQ(items_, c_.window == 0 ? 3 : 2);  // the window of 300 reaches into two splits
  Run({{0, 699, 1}}, 2 * c_.num_kv_heads);
  EXPECT_EQ(items_, 2);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionTest,
                         testing::Values(Case{false, 2, 2, 12, 0, 16}, Case{true, 2, 2, 12, 0, 16},
                                         Case{false, 6, 2, 64, 0, 16},
                                         Case{true, 6, 2, 64, 300, 16}, Case{true, 9, 3, 64, 0, 32},
                                         Case{false, 4, 4, 80, 0, 16}, Case{true, 3, 1, 80, 0, 3},
                                         Case{true, 4, 1, 256, 300, 16},
                                         Case{false, 4, 1, 256, 0, 1}, Case{true, 8, 2, 128, 0, 16},
                                         Case{false, 4, 2, 128, 300, 16},
                                         Case{true, 10, 1, 32, 0, 16}),
                         [](const auto& info) { return testing::PrintToString(info.param); });

}  // namespace
}  // namespace luna::backend::cuda
