// What a class and `luna top` look like: aligned, cut to any terminal, and honest about what is
// cut.
#include "client/classroom/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/cli/top_frame.h"
#include "client/term/width.h"

namespace luna::classroom {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const term::Style kPlain(false);

Frame ClassOf(int students) {
  Frame frame;
  frame.model = "luna-tiny";
  frame.elapsed = absl::Seconds(12);
  frame.tokens_per_s = 1834;
  frame.tokens = 12345;
  frame.pool.set_total_blocks(3600);
  frame.pool.set_charged_blocks(1234);
  frame.pool.set_block_bytes(512 * 1024);
  for (int i = 0; i < students; ++i) {
    Row row;
    row.name = StudentName(i);
    row.state = i % 3 == 0 ? State::kThinking : State::kWriting;
    row.turn = 1;
    row.turns = 2;
    row.tokens = 87;
    row.tokens_per_s = 61.2;
    row.blocks = 6;
    row.kv_bytes = 3 * 1024 * 1024;
    row.words = i % 2 == 0 ? "그래서 토끼는\n숲으로 갔어요." : "and so the rabbit went home.";
    frame.rows.push_back(row);
  }
  return frame;
}

TEST(FrameTest, FitsAnyTerminal) {
  for (const int students : {1, 30, 200}) {
    const Frame frame = ClassOf(students);
    for (const term::Size size : {term::Size{80, 24}, term::Size{120, 50}, term::Size{40, 10},
                                  term::Size{7, 3}, term::Size{1, 1}, term::Size{300, 300}}) {
      const auto lines = Render(frame, size, kPlain);
      EXPECT_LE(lines.size(), static_cast<size_t>(size.rows));
      for (const auto& line : lines) EXPECT_LE(term::DisplayWidth(line), size.columns) << line;
    }
  }
}

TEST(FrameTest, ColumnsAlignWhateverTheScript) {
  const auto lines = Render(ClassOf(4), {80, 24}, kPlain);
  const std::string& korean = lines[5];
  const std::string& english = lines[6];
  ASSERT_THAT(korean, HasSubstr("민준"));
  ASSERT_THAT(english, HasSubstr("Emma"));
  EXPECT_EQ(term::DisplayWidth(korean.substr(0, korean.find("1/2"))),
            term::DisplayWidth(english.substr(0, english.find("1/2"))));
  EXPECT_EQ(term::DisplayWidth(korean.substr(0, korean.find("3 MiB"))),
            term::DisplayWidth(english.substr(0, english.find("3 MiB"))));
}

TEST(FrameTest, ASmallTerminalShowsThoseAtWorkAndCountsTheOthers) {
  const auto lines = Render(ClassOf(30), {80, 24}, kPlain);
  ASSERT_EQ(lines.size(), 24u);
  EXPECT_EQ(lines.back(), " .. 12 more: 2 writing, 10 thinking");
  for (size_t i = 5; i + 1 < lines.size(); ++i) EXPECT_THAT(lines[i], HasSubstr("* writing"));
}

TEST(FrameTest, AllAreShownWhereThereIsRoom) {
  const auto lines = Render(ClassOf(30), {80, 40}, kPlain);
  EXPECT_EQ(lines.size(), 35u);
  EXPECT_THAT(lines.back(), HasSubstr("Ruby"));  // the last seat
}

TEST(FrameTest, IsOfCharactersThatEveryTerminalDrawsAsWide) {
  Frame frame = ClassOf(40);
  for (size_t i = 0; i < frame.rows.size(); ++i) {
    Row& row = frame.rows[i];
    row.name = "Emma";
    row.words = "and so on, until the line is full and its beginning has to be cut";
    row.state = static_cast<State>(i % 8);
    row.prefill = i % 16 < 8;
  }
  for (const auto& line : Render(frame, {80, 30}, kPlain)) {
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  }
}

TEST(FrameTest, ShowsPoolAndSpeed) {
  const auto lines = Render(ClassOf(3), {100, 24}, kPlain);
  EXPECT_THAT(lines[1], HasSubstr("34%  1,234 of 3,600 blocks  617 MiB"));
  EXPECT_THAT(lines[2], HasSubstr("1,834 tokens/s"));
  EXPECT_THAT(Render(Frame{}, {80, 24}, kPlain)[1], HasSubstr("not known yet"));
}

TEST(FrameTest, WordsOfAModelCannotMoveTheCursor) {
  Frame frame = ClassOf(1);
  frame.rows[0].words = "evil \x1b[2J\r\nend";
  for (const auto& line : Render(frame, {80, 24}, kPlain)) {
    EXPECT_EQ(line.find_first_of("\x1b\r\n"), std::string::npos);
  }
}

TEST(FrameTest, ProgressIsOnePlainLine) {
  const std::string line = ProgressLine(ClassOf(30));
  EXPECT_EQ(line,
            "[  12.0 s] 20 writing, 10 thinking; 12,345 tokens, 1,834 tokens/s; KV 617 MiB (34%)");
}

v1::MemorySnapshot Snapshot(int sessions) {
  v1::MemorySnapshot snapshot;
  snapshot.mutable_pool()->set_total_blocks(100);
  snapshot.mutable_pool()->set_charged_blocks(25);
  for (int i = 0; i < sessions; ++i) {
    v1::SessionMemory* const memory = snapshot.add_sessions();
    memory->set_session_id("handle-" + std::to_string(i));
    memory->set_label(i % 2 == 0 ? "서연" : "Emma");
    memory->set_state(i < 2 ? v1::SESSION_STATE_IDLE : v1::SESSION_STATE_DECODE);
    memory->set_charged_bytes(512);
    memory->set_quota_bytes(1024);
  }
  return snapshot;
}

TEST(TopFrameTest, FitsAnyTerminalAndShowsThoseAtWorkFirst) {
  for (const term::Size size : {term::Size{80, 24}, term::Size{30, 5}, term::Size{1, 1}}) {
    const auto lines = cli::RenderTop(Snapshot(60), size, kPlain);
    EXPECT_LE(lines.size(), static_cast<size_t>(size.rows));
    for (const auto& line : lines) EXPECT_LE(term::DisplayWidth(line), size.columns);
  }
  const auto lines = cli::RenderTop(Snapshot(4), {80, 24}, kPlain);
  ASSERT_EQ(lines.size(), 10u);
  EXPECT_THAT(lines[0], HasSubstr("25%"));
  EXPECT_THAT(lines[6], HasSubstr("decode"));
  EXPECT_THAT(lines[9], HasSubstr("idle"));
  EXPECT_THAT(lines[6], HasSubstr("50%"));  // of its quota
}

// Figures as large as a class makes them.
v1::MemorySnapshot FullSnapshot() {
  v1::MemorySnapshot snapshot = Snapshot(1);
  snapshot.mutable_pool()->set_block_bytes(512 * 1024);
  snapshot.mutable_pool()->set_total_blocks(123'456);
  snapshot.mutable_pool()->set_charged_blocks(100'000);
  snapshot.mutable_pool()->set_cached_blocks(12'345);
  snapshot.mutable_pool()->set_free_blocks(11'111);
  v1::Load& load = *snapshot.mutable_load();
  load.set_tokens_per_s(12'345);
  load.set_prefill_tokens_per_s(12'345);
  load.set_step_ms(123.4);
  load.set_running(200);
  load.set_waiting(100);
  load.set_sessions(1000);
  load.set_max_sessions(1000);
  load.set_draining(true);
  v1::SessionMemory& memory = *snapshot.mutable_sessions(0);
  memory.set_label("a label that is longer than its column is wide");
  memory.set_state(v1::SESSION_STATE_PREFILL);
  memory.set_turn(123);
  memory.set_tokens(131'072);
  memory.set_tokens_per_s(1234.5);
  memory.set_private_blocks(12'345);
  memory.set_shared_blocks(54'321);
  memory.set_charged_bytes(999u << 20);
  memory.set_split_bytes(888u << 20);
  memory.set_guaranteed_bytes(777u << 20);
  memory.set_quota_bytes(999u << 20);
  memory.set_evictions(12'345);
  return snapshot;
}

TEST(TopFrameTest, EightyColumnsHoldAFullSessionAndEveryFigure) {
  const auto lines = cli::RenderTop(FullSnapshot(), {80, 24}, kPlain);
  for (const auto& line : lines) EXPECT_LE(term::DisplayWidth(line), 80);
  EXPECT_THAT(lines[1], HasSubstr("11,111 free = 123,456 of 512 KiB"));
  EXPECT_THAT(lines[3], HasSubstr("+12345 prompt tokens/s"));
  EXPECT_THAT(lines[4], HasSubstr("1000 of 1000 sessions  draining"));
  EXPECT_EQ(lines[5],
            " SESSION     STATE     TOKENS  PRIV SHARED       KV  GUARANT    QUOTA USED EVICT");
  EXPECT_EQ(lines[6],
            " a label t.. prefill  131,072 12345  54321  999 MiB  777 MiB  999 MiB 100% 12345");
}

TEST(TopFrameTest, WhereThereIsRoomNothingIsCut) {
  const auto lines = cli::RenderTop(FullSnapshot(), {1000, 1000}, kPlain);
  EXPECT_THAT(lines[6], HasSubstr("a label that is longer than its column is wide prefill"));
  EXPECT_THAT(lines[6],
              HasSubstr(" 26.5 GiB  999 MiB  888 MiB  777 MiB  999 MiB 100%  ###########"));
}

TEST(TopFrameTest, IsOfCharactersThatEveryTerminalDrawsAsWide) {
  v1::MemorySnapshot snapshot = FullSnapshot();
  for (int i = 0; i < 9; ++i) *snapshot.add_sessions() = snapshot.sessions(0);
  for (const auto& line : cli::RenderTop(snapshot, {80, 8}, kPlain)) {
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
  }
}

TEST(TopFrameTest, CountsWhatDoesNotFit) {
  EXPECT_EQ(cli::RenderTop(Snapshot(60), {80, 24}, kPlain).back(), " .. 43 more");
}

// Two that share four blocks, one of them with a Korean name, and one alone.
v1::MemorySnapshot SharingSnapshot() {
  constexpr uint64_t kBlock = 512 * 1024;
  v1::MemorySnapshot snapshot;
  v1::PoolMemory& pool = *snapshot.mutable_pool();
  pool.set_block_bytes(kBlock);
  pool.set_total_blocks(64);
  pool.set_charged_blocks(16);
  pool.set_cached_blocks(8);
  pool.set_free_blocks(40);
  pool.set_shared_blocks(4);
  const auto add = [&snapshot](const std::string& label, uint32_t own, uint32_t shared) {
    v1::SessionMemory& memory = *snapshot.add_sessions();
    memory.set_label(label);
    memory.set_state(v1::SESSION_STATE_DECODE);
    memory.set_turn(3);
    memory.set_tokens(16 * (own + shared));
    memory.set_tokens_per_s(61.25);
    memory.set_private_blocks(own);
    memory.set_shared_blocks(shared);
    memory.set_charged_bytes((own + shared) * kBlock);
    memory.set_split_bytes(own * kBlock + shared * kBlock / 2);
    memory.set_guaranteed_bytes(4 * kBlock);
    memory.set_quota_bytes(16 * kBlock);
    memory.set_evictions(own);
  };
  add("alone", 5, 0);
  add("fork", 2, 4);
  add("옛날 옛적에 살던 토끼", 5, 4);
  return snapshot;
}

TEST(TopFrameTest, SixtyColumnsHoldWhatASessionHolds) {
  const std::vector<std::string> expected = {
      " KV pool ####............  25%  8 MiB of 32 MiB",
      " Blocks  16 charged + 8 cached + 40 free = 64 of 512 KiB",
      " Shared  2 MiB  saves 2 MiB: sessions' 10 MiB fit in 8 MiB",
      " Speed   0 tokens/s  step 0.0 ms  +0 prompt tokens/s",
      " Load    0 running, 0 waiting  0 of 0 sessions",
      " SESSION         STATE     TOKENS  PRIV SHARED       KV USED",
      " alone           decode        80     5      0 2.50 MiB  31%",
      " fork            decode        96     2      4    3 MiB  38%",
      " 옛날 옛적에 ..  decode       144     5      4 4.50 MiB  56%"};
  EXPECT_EQ(cli::RenderTop(SharingSnapshot(), {60, 24}, kPlain), expected);
}

TEST(TopFrameTest, AGpuHasALineOfItsOwn) {
  v1::MemorySnapshot snapshot = SharingSnapshot();
  const auto without = cli::RenderTop(snapshot, {80, 24}, kPlain);
  snapshot.mutable_pool()->set_device_total_bytes(uint64_t{80} << 30);
  snapshot.mutable_pool()->set_device_free_bytes(uint64_t{60} << 30);
  snapshot.mutable_pool()->set_weights_bytes(uint64_t{256} << 20);
  auto with = cli::RenderTop(snapshot, {80, 24}, kPlain);
  EXPECT_EQ(with.at(3), " GPU     ####............  25%  20 GiB of 80 GiB, weights 256 MiB");
  with.erase(with.begin() + 3);
  EXPECT_EQ(with, without);
}

TEST(TopFrameTest, EightyColumnsHoldItsLimitsAndEvictionsToo) {
  const auto lines = cli::RenderTop(SharingSnapshot(), {80, 24}, kPlain);
  const std::vector<std::string> expected = {
      " SESSION     STATE     TOKENS  PRIV SHARED       KV  GUARANT    QUOTA USED EVICT",
      " alone       decode        80     5      0 2.50 MiB    2 MiB    8 MiB  31%     5",
      " fork        decode        96     2      4    3 MiB    2 MiB    8 MiB  38%     2",
      " 옛날 옛적.. decode       144     5      4 4.50 MiB    2 MiB    8 MiB  56%     5"};
  EXPECT_EQ(std::vector<std::string>(lines.begin() + 5, lines.end()), expected);
}

TEST(TopFrameTest, AHundredAndTwentyColumnsHoldSpeedTurnsAndTheEqualSplit) {
  const auto lines = cli::RenderTop(SharingSnapshot(), {120, 24}, kPlain);
  const std::vector<std::string> expected = {
      " SESSION           STATE    TURN  TOKENS  TOK/S  PRIV SHARED       KV KV SPLIT  GUARANT    "
      "QUOTA USED  OF QUOTA    EVICT",
      " alone             decode      3      80   61.2     5      0 2.50 MiB 2.50 MiB    2 MiB    "
      "8 MiB  31%  ###........     5",
      " fork              decode      3      96   61.2     2      4    3 MiB    2 MiB    2 MiB    "
      "8 MiB  38%  ####.......     2",
      " 옛날 옛적에 살..  decode      3     144   61.2     5      4 4.50 MiB 3.50 MiB    2 MiB    "
      "8 MiB  56%  ######.....     5"};
  EXPECT_EQ(std::vector<std::string>(lines.begin() + 5, lines.end()), expected);
}

TEST(TopFrameTest, ATableIsNeverWiderThanItsTerminal) {
  for (int columns = 1; columns <= 160; ++columns) {
    for (const auto& snapshot : {SharingSnapshot(), FullSnapshot()}) {
      const auto lines = cli::RenderTop(snapshot, {columns, 24}, kPlain);
      for (const auto& line : lines) EXPECT_LE(term::DisplayWidth(line), columns) << line;
      // The head and the rows are equally wide.
      for (size_t i = 6; i < lines.size(); ++i) {
        EXPECT_EQ(term::DisplayWidth(lines[i]), term::DisplayWidth(lines[5])) << columns;
      }
    }
  }
}

TEST(TopFrameTest, NothingSharedIsSaid) {
  EXPECT_EQ(cli::RenderTop(Snapshot(1), {80, 24}, kPlain)[2], " Shared  nothing");
}

}  // namespace
}  // namespace luna::classroom
