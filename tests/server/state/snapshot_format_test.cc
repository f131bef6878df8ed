#include "server/state/snapshot_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/server/state/saved_sessions.h"

namespace luna::state {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

absl::Status Decode(std::string_view bytes) { return DecodeSnapshot(bytes, "file x").status(); }

TEST(SnapshotFormatTest, AnySessionComesBackAsItWas) {
  RandomSessions sessions(20261130);
  for (int i = 0; i < 500; ++i) {
    SCOPED_TRACE(i);
    const engine::SavedSession session = sessions.Next();
    const auto decoded = DecodeSnapshot(EncodeSnapshot(session), "file x");
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    ExpectSame(*decoded, session);
  }
}

TEST(SnapshotFormatTest, ASessionWithoutATurnComesBackAsItWas) {
  engine::SavedSession session;
  session.key = KeyOf(1);
  const auto decoded = DecodeSnapshot(EncodeSnapshot(session), "file x");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectSame(*decoded, session);
}

TEST(SnapshotFormatTest, AnEmptyBiasIsNotAnUnsetOne) {
  engine::SavedSession session = SmallSession();
  session.default_sampling.logit_bias.emplace();
  const auto decoded = DecodeSnapshot(EncodeSnapshot(session), "file x");
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ExpectSame(decoded->default_sampling, session.default_sampling);
}

TEST(SnapshotFormatTest, TheHeaderIsAsDocumented) {
  const std::string bytes = SealPayload("abc");
  EXPECT_EQ(absl::BytesToHexString(bytes),
            "934c554e41534553"
            "01000000"
            "0300000000000000"
            // python3: sha256(bytes.fromhex("934c554e41534553010000000300000000000000") + b"abc")
            "2de03bfe01188f5d6407458c29f6dd2131f682b584da032d8a9be5b00bdf2e11"
            "616263");
}

TEST(SnapshotFormatTest, EveryFlippedBitIsRefused) {
  const std::string whole = EncodeSnapshot(SmallSession());
  ASSERT_TRUE(Decode(whole).ok());
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string bytes = whole;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const absl::Status status = Decode(bytes);
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << "bit " << bit << ": " << status;
    ASSERT_TRUE(absl::StartsWith(status.message(), "file x: ")) << status;
  }
}

TEST(SnapshotFormatTest, EveryCutIsRefused) {
  const std::string whole = EncodeSnapshot(SmallSession());
  for (size_t size = 0; size < whole.size(); ++size) {
    const absl::Status status = Decode(std::string_view(whole).substr(0, size));
    ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << " bytes: " << status;
  }
}

TEST(SnapshotFormatTest, BytesBehindTheEndAreRefused) {
  std::string bytes = EncodeSnapshot(SmallSession());
  const size_t payload = bytes.size() - kSnapshotHeaderBytes;
  bytes.push_back('\0');
  const absl::Status status = Decode(bytes);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), absl::StrCat("file x: has ", payload + 1,
                                           " bytes behind its header, which says ", payload));
}

TEST(SnapshotFormatTest, WhatIsNoSnapshotIsNamed) {
  EXPECT_EQ(Decode("").message(), "file x: has 0 bytes; the header alone takes 52");
  EXPECT_EQ(Decode(std::string(60, 'a')).message(),
            "file x: begins with 6161616161616161; a saved session begins with 934c554e41534553");
}

TEST(SnapshotFormatTest, DamageSaysWhichChecksumWasExpected) {
  std::string bytes = SealPayload("abc");
  bytes.back() = 'd';
  EXPECT_THAT(std::string(Decode(bytes).message()),
              AllOf(HasSubstr("its checksum says "), HasSubstr("; it is damaged")));
}

TEST(SnapshotFormatTest, ALaterVersionIsRefusedAsOne) {
  const absl::Status status = Decode(SealPayload("what later servers write", 2));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "file x: is of version 2 of the format; this server reads up to version 1");
  EXPECT_EQ(Decode(SealPayload("", 0)).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace luna::state
