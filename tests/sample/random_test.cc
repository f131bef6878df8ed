#include "core/sample/random.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace luna::sample {
namespace {

using ::testing::ElementsAre;

// The known answers published with the generator (Random123, kat_vectors, "philox4x32 10").
TEST(PhiloxTest, EqualsPublishedVectors) {
  EXPECT_THAT(Philox4x32({0, 0}, {0, 0, 0, 0}),
              ElementsAre(0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u));
  EXPECT_THAT(
      Philox4x32({0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
      ElementsAre(0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu));
  EXPECT_THAT(
      Philox4x32({0xa4093822, 0x299f31d0}, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
      ElementsAre(0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u));
}

TEST(UniformTest, TakesTheUpper24BitsOfTheFirstWord) {
  EXPECT_EQ(Uniform(0, 0), static_cast<float>(0x6627e8) / static_cast<float>(1 << 24));
}

TEST(UniformTest, AllBitsOfSeedAndCounterMatter) {
  std::set<float> values = {Uniform(0, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    values.insert(Uniform(uint64_t{1} << bit, 0));
    values.insert(Uniform(0, uint64_t{1} << bit));
  }
  EXPECT_EQ(values.size(), 129u);
}

TEST(UniformTest, FillsTheUnitIntervalEvenly) {
  constexpr int kDraws = 100'000;
  constexpr int kBins = 20;
  std::vector<int> bins(kBins, 0);
  for (int i = 0; i < kDraws; ++i) {
    const float value = Uniform(7, i);
    ASSERT_GE(value, 0.0f);
    ASSERT_LT(value, 1.0f);
    ++bins[static_cast<int>(value * kBins)];
  }
  double chi_square = 0.0;
  constexpr double kExpected = static_cast<double>(kDraws) / kBins;
  for (const int count : bins) chi_square += (count - kExpected) * (count - kExpected) / kExpected;
  EXPECT_LT(chi_square, 43.8);  // 99.9th percentile with 19 degrees of freedom
}

TEST(DeriveSeedTest, IndexZeroKeepsTheSeed) {
  EXPECT_EQ(DeriveSeed(42, 0), 42u);
  EXPECT_EQ(DeriveSeed(UINT64_MAX, 0), UINT64_MAX);
}

TEST(DeriveSeedTest, OtherIndicesGiveOtherSeeds) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (uint32_t index = 0; index < 20; ++index) seeds.insert(DeriveSeed(seed, index));
  }
  EXPECT_EQ(seeds.size(), 1000u);
}

TEST(DeriveSeedTest, IsFixed) {
  // Saved sessions and told seeds depend on it.
  EXPECT_EQ(DeriveSeed(42, 1), DeriveSeed(42, 1));
  const auto words = Philox4x32({42, 0}, {1, 0, 0, 1});
  EXPECT_EQ(DeriveSeed(42, 1), uint64_t{words[1]} << 32 | words[0]);
}

}  // namespace
}  // namespace luna::sample
