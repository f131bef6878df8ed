#include "core/base/check.h"

#include "core/base/ids.h"
#include "gtest/gtest.h"

namespace luna {
namespace {

TEST(CheckDeathTest, NamesTheConditionAndTheContext) {
  const BlockId block(3);
  EXPECT_DEATH(LUNA_CHECK(block.value() > 5) << "block " << block, "block.value\\(\\) > 5 block 3");
}

TEST(CheckTest, AHoldingConditionEvaluatesNothingMore) {
  int evaluated = 0;
  LUNA_CHECK(true) << ++evaluated;
  EXPECT_EQ(evaluated, 0);
}

}  // namespace
}  // namespace luna
