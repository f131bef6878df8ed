#include "server/rpc/byte_budget.h"

#include <gtest/gtest.h>

#include <optional>

#include "core/base/status_details.h"

namespace luna::rpc {
namespace {

TEST(ByteBudgetTest, ACallersCallsShareAnAmount) {
  ByteBudget budget(100);
  ByteBudget::Share first(&budget, "a");
  std::optional<ByteBudget::Share> second(std::in_place, &budget, "a");
  EXPECT_TRUE(first.Grow(60).ok());
  EXPECT_TRUE(second->Grow(40).ok());
  const absl::Status refused = first.Grow(1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  ByteBudget::Share other(&budget, "b");
  EXPECT_TRUE(other.Grow(100).ok()) << "of another caller";
  second.reset();
  EXPECT_TRUE(first.Grow(40).ok()) << "what a call has goes back";
}

TEST(ByteBudgetTest, ACallThatIsAloneMayHaveAnyAmount) {
  ByteBudget budget(100);
  ByteBudget::Share large(&budget, "a");
  EXPECT_TRUE(large.Grow(90).ok());
  EXPECT_TRUE(large.Grow(90).ok());
  ByteBudget::Share small(&budget, "a");
  EXPECT_TRUE(small.Grow(0).ok());
  EXPECT_FALSE(small.Grow(1).ok());
}

}  // namespace
}  // namespace luna::rpc
