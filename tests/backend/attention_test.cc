// Attention in each code path and KV dtype against the reference operator, in odd shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "core/backend/checks.h"
#include "core/backend/cpu/bf16_format.h"
#include "core/backend/cpu/kernels.h"
#include "core/backend/kv_pool.h"
#include "core/backend/reference/operators.h"
#include "tests/backend/random_values.h"

namespace luna::backend::cpu {
namespace {

struct Case {
  const Kernels* kernels;
  KvDtype dtype;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.kernels->name << " " << KvDtypeName(c.dtype);
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const Kernels* kernels : AvailableKernels()) {
    for (const auto dtype : {KvDtype::kF32, KvDtype::kBf16, KvDtype::kInt8}) {
      cases.push_back({kernels, dtype});
    }
  }
  return cases;
}

// What is read back of x [head_dim] once it was stored.
std::vector<float> Stored(KvDtype dtype, std::vector<float> x) {
  if (dtype == KvDtype::kBf16) {
    for (float& v : x) v = std::bit_cast<float>(uint32_t{ToBf16(v)} << 16);
  }
  if (dtype == KvDtype::kInt8) {
    float top = 0;
    for (const float v : x) top = std::max(top, std::abs(v));
    for (float& v : x) v = top == 0 ? 0 : std::nearbyint(v * (127.0f / top)) * (top / 127.0f);
  }
  return x;
}

struct Shape {
  int head_dim, block_tokens, heads;
};

// One kv head's blocks with random keys and values of positions [0, kPositions), twice: as the
// kernels keep them, in blocks in descending order, and as the reference reads them, in one block.
class Cache {
 public:
  static constexpr int kPositions = 53;

  Cache(const Case& c, const Shape& shape)
      : shape_(shape),
        half_(KvHeadBytes(c.dtype, shape.head_dim) * shape.block_tokens),
        num_blocks_(kPositions / shape.block_tokens + 1),
        bytes_(2 * half_ * num_blocks_, std::byte{0x7f}),
        reference_(int64_t{2} * kPositions * shape.head_dim),
        scores_(int64_t{AttendQueries(shape.heads)} * kScoreStride) {
    for (int i = 0; i < num_blocks_; ++i) table_.push_back(num_blocks_ - 1 - i);
    for (int p = 0; p < kPositions; ++p) {
      const std::vector<float> key = Random(shape.head_dim, 2 * p);
      const std::vector<float> value = Random(shape.head_dim, 2 * p + 1);
      Store(c, p, key, value);
      const auto keep = [&](const std::vector<float>& x, int64_t at) {
        std::ranges::copy(Stored(c.dtype, x), reference_.begin() + at * shape.head_dim);
      };
      keep(key, p);
      keep(value, kPositions + p);
    }
  }

  void Store(const Case& c, int position, const std::vector<float>& key,
             const std::vector<float>& value) {
    std::byte* keys = bytes_.data() + table_[position / shape_.block_tokens] * 2 * half_;
    c.kernels->kv_formats.Of(c.dtype).store(key.data(), value.data(), shape_.head_dim,
                                            shape_.block_tokens, position % shape_.block_tokens,
                                            keys, keys + half_);
  }

  // out [tokens, heads, head_dim] of `tokens` tokens from `position`; q is as long.
  std::vector<float> Attend(const Case& c, const std::vector<float>& q, int position, int window) {
    const int64_t row = int64_t{shape_.heads} * shape_.head_dim;
    std::vector<float> out(q.size());
    c.kernels->kv_formats.Of(c.dtype).attend({.q = q.data(),
                                              .q_stride = row,
                                              .out = out.data(),
                                              .out_stride = row,
                                              .tokens = static_cast<int>(q.size() / row),
                                              .heads = shape_.heads,
                                              .head_dim = shape_.head_dim,
                                              .position = position,
                                              .window = window,
                                              .scale = scale(),
                                              .keys = bytes_.data(),
                                              .values_offset = half_,
                                              .block_stride = 2 * half_,
                                              .table = table_.data(),
                                              .block_tokens = shape_.block_tokens,
                                              .scores = scores_.data(),
                                              .score_stride = kScoreStride});
    return out;
  }

  // Of one head of one token.
  std::vector<float> Expected(std::span<const float> q, int position, int window) {
    const int64_t half =
        int64_t{kPositions} * shape_.head_dim * static_cast<int64_t>(sizeof(float));
    const KvLayerView view{.data = reinterpret_cast<std::byte*>(reference_.data()),
                           .block_stride = 2 * half,
                           .head_stride = 2 * half,
                           .values_offset = half,
                           .group = 0};
    const int32_t table[] = {0};
    std::vector<float> scores(kPositions), out(shape_.head_dim);
    reference::Attend(q, view, 0, table, kPositions, FirstVisible(position, window), position,
                      scale(), scores, out);
    return out;
  }

 private:
  static constexpr int kScoreStride = 96;
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }

  const Shape shape_;
  const int64_t half_;  // bytes of a block's keys
  const int num_blocks_;
  std::vector<std::byte> bytes_;
  std::vector<float> reference_;
  std::vector<int32_t> table_;
  std::vector<float> scores_;
};

class AttentionTest : public testing::TestWithParam<Case> {
 protected:
  static std::vector<Shape> Shapes() {
    std::vector<Shape> shapes;
    for (const int head_dim : {1, 8, 12, 20, 64, 72, 256}) {
      for (const int block_tokens : {1, 5, 16, 32}) {
        for (const int heads : {1, 3, 4, 9}) shapes.push_back({head_dim, block_tokens, heads});
      }
    }
    return shapes;
  }
};

TEST_P(AttentionTest, EqualsTheReference) {
  for (const Shape& shape : Shapes()) {
    Cache cache(GetParam(), shape);
    for (const auto& [position, window] : {std::pair{0, 0}, {40, 0}, {40, 25}, {17, 1}, {30, 64}}) {
      const int tokens = AttendTokens(shape.heads);
      const int64_t size = shape.head_dim;
      const std::vector<float> q = Random(tokens * shape.heads * size, 1000 + position);
      const std::vector<float> out = cache.Attend(GetParam(), q, position, window);
      for (int i = 0; i < tokens * shape.heads; ++i) {
        const std::vector<float> head(out.begin() + i * size, out.begin() + (i + 1) * size);
        const auto expected = cache.Expected(std::span(q).subspan(i * size, size),
                                             position + i / shape.heads, window);
        ASSERT_THAT(head, testing::Pointwise(testing::FloatNear(5e-6f), expected))
            << "head of " << size << ", blocks of " << shape.block_tokens << ", " << shape.heads
            << " heads, position " << position << ", window " << window << ", query " << i;
      }
    }
  }
}

TEST_P(AttentionTest, ATokenHasTheSameBitsWhicheverTokensAreBesideIt) {
  for (const Shape& shape : Shapes()) {
    Cache cache(GetParam(), shape);
    const int tokens = AttendTokens(shape.heads);
    const int64_t row = int64_t{shape.heads} * shape.head_dim;
    for (const int window : {0, 23}) {
      const std::vector<float> q = Random(tokens * row, 7);
      const std::vector<float> together = cache.Attend(GetParam(), q, 29, window);
      for (int t = 0; t < tokens; ++t) {
        const std::vector<float> own(q.begin() + t * row, q.begin() + (t + 1) * row);
        const std::vector<float> alone = cache.Attend(GetParam(), own, 29 + t, window);
        ASSERT_EQ(std::memcmp(alone.data(), together.data() + t * row, row * sizeof(float)), 0)
            << "head of " << shape.head_dim << ", blocks of " << shape.block_tokens << ", "
            << shape.heads << " heads, token " << t << ", window " << window;
      }
    }
  }
}

TEST_P(AttentionTest, AValueThatIsNotFiniteIsSeenByWhoAttendsToItAndByNobodyElse) {
  for (const float poison :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const Shape shape{.head_dim = 20, .block_tokens = 16, .heads = 1};
    Cache cache(GetParam(), shape);
    std::vector<float> value = Random(shape.head_dim, 3);
    value[13] = poison;
    cache.Store(GetParam(), 30, Random(shape.head_dim, 4), value);
    const std::vector<float> q = Random(shape.head_dim, 5);
    EXPECT_FALSE(std::isfinite(cache.Attend(GetParam(), q, 30, 0)[13]));
    EXPECT_THAT(cache.Attend(GetParam(), q, 29, 0),
                testing::Each(testing::Truly([](float v) { return std::isfinite(v); })));
    EXPECT_THAT(cache.Attend(GetParam(), q, 40, 10),
                testing::Each(testing::Truly([](float v) { return std::isfinite(v); })));
  }
}

// The first of some tokens sees the last position that the others have left behind.
TEST_P(AttentionTest, WhatAWindowHasLeftBehindIsNotSeenBesideATokenThatSeesIt) {
  const Shape shape{.head_dim = 20, .block_tokens = 16, .heads = 1};
  Cache cache(GetParam(), shape);
  std::vector<float> value = Random(shape.head_dim, 3);
  value[13] = std::numeric_limits<float>::quiet_NaN();
  cache.Store(GetParam(), 20, Random(shape.head_dim, 4), value);
  for (const int window : {1, 3, 10}) {
    const int tokens = AttendTokens(shape.heads);
    const std::vector<float> q = Random(tokens * shape.head_dim, 5);
    const std::vector<float> out = cache.Attend(GetParam(), q, 19 + window, window);
    EXPECT_FALSE(std::isfinite(out[13]));
    for (size_t i = shape.head_dim; i < out.size(); ++i) {
      EXPECT_TRUE(std::isfinite(out[i])) << "window " << window << ", " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Paths, AttentionTest, testing::ValuesIn(Cases()), [](const auto& info) {
  return std::string(info.param.kernels->name) + "_" + std::string(KvDtypeName(info.param.dtype));
});

}  // namespace
}  // namespace luna::backend::cpu
