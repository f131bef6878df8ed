#include "server/state/entry_name.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/status_details.h"
#include "tests/server/state/saved_sessions.h"

namespace luna::state {
namespace {

TEST(EntryNameTest, NamesAreTheirCallersOwn) {
  const std::string mine = *EntryOf("ipv4:10.0.0.7", "lesson");
  const std::string theirs = *EntryOf("ipv4:10.0.0.8", "lesson");
  EXPECT_NE(mine, theirs);
  EXPECT_EQ(mine, *EntryOf("ipv4:10.0.0.7", "lesson"));
  EXPECT_NE(OwnerOf(mine), OwnerOf(theirs));
  EXPECT_EQ(OwnerOf(mine), OwnerOf(*EntryOf("ipv4:10.0.0.7", "another")));
  for (const std::string& entry : {mine, theirs}) {
    EXPECT_TRUE(CheckEntryName(entry).ok());
    EXPECT_EQ(ShownEntry(entry), "lesson");
  }
}

TEST(EntryNameTest, AKeyIsWhoeversHasIt) {
  EXPECT_EQ(*EntryOf("a", KeyOf(1)), KeyOf(1));
  EXPECT_EQ(OwnerOf(KeyOf(1)), "");
  EXPECT_EQ(ShownEntry(KeyOf(1)).size(), 9u);
}

TEST(EntryNameTest, AChosenNameHasNoOwnersPart) {
  const std::string digits(16, 'a');
  EXPECT_EQ(FieldOf(EntryOf("a", "lesson." + digits).status()), "name");
  EXPECT_EQ(FieldOf(EntryOf("a", std::string(65, 'x')).status()), "name");
  EXPECT_TRUE(EntryOf("a", std::string(64, 'x')).ok());
  EXPECT_TRUE(CheckEntryName("lesson." + digits).ok());
  for (const char* entry :
       {"lesson.", "lesson.AAAAAAAAAAAAAAAA", "lesson.aaaa", "lesson.aaaaaaaaaaaaaaag", "a.b.c"}) {
    EXPECT_EQ(FieldOf(CheckEntryName(entry)), "name") << entry;
  }
  EXPECT_FALSE(CheckEntryName("../x." + digits).ok());
}

}  // namespace
}  // namespace luna::state
