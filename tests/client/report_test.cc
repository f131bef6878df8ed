#include "client/classroom/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "client/classroom/plan.h"
#include "client/classroom/report_files.h"
#include "client/term/width.h"
#include "tests/fakes/temp_dir.h"

namespace luna::classroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

absl::Time At(int milliseconds) { return absl::UnixEpoch() + absl::Milliseconds(milliseconds); }

TurnRecord Turn(int start_ms, int gap_ms, int tokens, v1::FinishReason reason, v1::Limit limit) {
  TurnRecord turn;
  turn.turn = 1;
  turn.prompt = "옛날 옛적에";
  turn.text = " 토끼가 살았어요. 끝.";
  turn.reason = reason;
  turn.limit = limit;
  turn.timing.Start(At(start_ms));
  for (int i = 1; i <= tokens; ++i) turn.timing.Arrive(At(start_ms + i * gap_ms), 1);
  return turn;
}

ClassRecord Class() {
  ClassRecord record;
  record.options.students = 3;
  record.model.set_name("luna-tiny");
  record.elapsed = absl::Seconds(2);
  record.peak_charged_blocks = 20;
  record.pool.set_total_blocks(100);
  record.pool.set_free_blocks(100);
  record.pool.set_block_bytes(1024);
  StudentRecord quick;
  quick.name = "민준";
  quick.turns = {Turn(0, 10, 11, v1::FINISH_REASON_STOP, v1::LIMIT_UNSPECIFIED),
                 Turn(500, 10, 11, v1::FINISH_REASON_LENGTH, v1::LIMIT_MAX_TOKENS)};
  quick.tokens = 22;
  quick.restarts = 1;
  quick.full_contexts = 1;
  quick.memory.set_peak_bytes(4096);
  StudentRecord slow;
  slow.name = "Emma";
  slow.manner = Manner::kReadsSlowly;
  slow.turns = {Turn(0, 100, 10, v1::FINISH_REASON_STOP, v1::LIMIT_UNSPECIFIED)};
  slow.tokens = 10;
  slow.memory.set_peak_bytes(8192);
  StudentRecord failed;
  failed.name = "서연";
  failed.errors = {"turn 1: Not found: no session | x"};
  record.students = {quick, slow, failed};
  return record;
}

TEST(ReportTest, AddsUp) {
  const Report report = Summarize(Class());
  EXPECT_EQ(report.tokens, 32u);
  EXPECT_EQ(report.answers, 3u);
  // From 0 to the quick one's last token, when the slow reader had 6 of 10.
  EXPECT_DOUBLE_EQ(report.seconds, 0.61);
  EXPECT_DOUBLE_EQ(report.tokens_per_s, 28 / 0.61);
  EXPECT_EQ(report.ttft_ms.count, 3u);
  EXPECT_EQ(report.ttft_ms.max, 100);
  EXPECT_EQ(report.itl_ms.max, 10);  // the slow reader's own pauses are not the server's
  EXPECT_EQ(report.peak_bytes.max, 8192);
  EXPECT_EQ(report.finish_reasons.at("stop"), 2);
  EXPECT_EQ(report.finish_reasons.at("length (max_tokens)"), 1);
  EXPECT_EQ(report.restarts, 1);
  EXPECT_THAT(report.errors, ElementsAre("서연: turn 1: Not found: no session | x"));
}

TEST(ReportTest, OfAClassWithoutAnAnswer) {
  ClassRecord record;
  const Report report = Summarize(record);
  EXPECT_EQ(report.tokens_per_s, 0);
  EXPECT_THAT(RenderText(record, report, 80, 3, term::Style(false)), HasSubstr("0 students"));
}

TEST(ReportTest, TextFitsAndTellsWhatATeacherAsks) {
  const ClassRecord record = Class();
  for (const int columns : {40, 80, 200}) {
    const std::string text = RenderText(record, Summarize(record), columns, 3, term::Style(false));
    size_t begin = 0;
    while (begin < text.size()) {
      const size_t end = text.find('\n', begin);
      if (columns >= 80) {
        EXPECT_LE(term::DisplayWidth(text.substr(begin, end - begin)), columns);
      }
      begin = end + 1;
    }
    EXPECT_THAT(text, HasSubstr("46 tokens/s"));
    if (columns >= 80) {
      EXPECT_THAT(text, HasSubstr("민준 (the context was full)"));
    }
    EXPECT_THAT(text, HasSubstr("토끼가 살았어요."));
    EXPECT_THAT(text, HasSubstr("Not found"));
  }
}

TEST(ReportTest, AFirstTokenThatNeverCameHasNoTime) {
  ClassRecord record = Class();
  record.students[2].turns = {Turn(0, 10, 0, v1::FINISH_REASON_ERROR, v1::LIMIT_UNSPECIFIED)};
  const Report report = Summarize(record);
  EXPECT_EQ(report.answers, 3u);  // a turn that failed is none
  EXPECT_EQ(report.finish_reasons.at("error"), 1);
  EXPECT_THAT(RenderMarkdown(record, report), HasSubstr("| 서연 | 0 | 0 | - | - | 0 B |"));
  const auto json = ToJson(record, report);
  EXPECT_TRUE(json["per_student"][2]["turns"][0]["ttft_ms"].is_null());
}

TEST(ReportTest, TellsWhySessionsStartedAnew) {
  ClassRecord record = Class();
  record.students[0].restarts = 3;
  record.students[0].full_contexts = 2;
  record.students[1].restarts = 1;
  EXPECT_THAT(RenderMarkdown(record, Summarize(record)),
              HasSubstr("민준 2x (the context was full); 민준, Emma (the quota or the pool was too "
                        "small)"));
}

TEST(ReportTest, MarkdownKeepsItsTables) {
  const ClassRecord record = Class();
  const std::string text = RenderMarkdown(record, Summarize(record));
  EXPECT_THAT(text, HasSubstr("| 민준 | 2 | 22 | 100.0 | 10.0 ms |"));
  EXPECT_THAT(text, HasSubstr("no session \\| x"));
}

TEST(ReportTest, WritesThreeFiles) {
  const ClassRecord record = Class();
  const TempDir parent;
  const std::string directory = parent.path() + "/report/deep";
  auto files = ReportFiles::Open(directory);
  ASSERT_TRUE(files.ok()) << files.status();
  ASSERT_TRUE(files->Write(record, Summarize(record)).ok());
  std::ifstream json_file(directory + "/report.json");
  const auto json = nlohmann::json::parse(json_file);
  EXPECT_EQ(json["tokens"], 32);
  EXPECT_EQ(json["per_student"][0]["name"], "민준");
  EXPECT_EQ(json["per_student"][0]["turns"][1]["limit"], "max_tokens");
  EXPECT_EQ(json["finish_reasons"]["stop"], 2);
  for (const char* key : {"p50", "p90", "p99", "max"}) EXPECT_TRUE(json["ttft_ms"].contains(key));
  std::ifstream stories(directory + "/stories.txt");
  std::string line;
  std::getline(stories, line);
  EXPECT_EQ(line, "== 민준, turn 1 (stop, 11 tokens, seed 0)");
  std::getline(stories, line);
  EXPECT_EQ(line, "옛날 옛적에 토끼가 살았어요. 끝.");
  EXPECT_TRUE(std::filesystem::exists(directory + "/report.md"));
}

TEST(ReportTest, ADirectoryThatCannotBeMadeIsAnError) {
  const absl::Status status = ReportFiles::Open("/dev/null/x").status();
  EXPECT_EQ(status.message(), "cannot make the directory /dev/null/x: Not a directory");
}

TEST(PlanTest, TheSameSeedMakesTheSameClass) {
  Options options;
  const std::array<std::string, 2> long_texts = {"긴 글. ", "A long text. "};
  const auto plan = MakePlan(options, BuiltInPrompts(), false, long_texts);
  const auto again = MakePlan(options, BuiltInPrompts(), false, long_texts);
  options.seed = 2;
  const auto other = MakePlan(options, BuiltInPrompts(), false, long_texts);
  ASSERT_EQ(plan.size(), 30u);
  bool differs = false;
  for (size_t i = 0; i < plan.size(); ++i) {
    EXPECT_EQ(plan[i].turns[0].seed, again[i].turns[0].seed);
    EXPECT_EQ(plan[i].turns[0].text, again[i].turns[0].text);
    EXPECT_EQ(plan[i].manner, again[i].manner);
    differs = differs || plan[i].turns[0].seed != other[i].turns[0].seed;
  }
  EXPECT_TRUE(differs);
}

TEST(PlanTest, SomeLeaveOnePastesOneReadsSlowlyAndNamesDiffer) {
  Options options;
  options.students = 200;
  const auto plan = MakePlan(options, BuiltInPrompts(), true, {"긴 글. ", "A long text. "});
  std::map<Manner, int> manners;
  std::set<std::string> names;
  for (const auto& student : plan) {
    ++manners[student.manner];
    names.insert(student.name);
    EXPECT_LE(student.arrives, options.arrive_over);
    EXPECT_GE(student.turns[1].think, options.think_time / 2);
    EXPECT_LE(student.turns[1].think, options.think_time * 1.5);
    if (student.manner == Manner::kPastes) {
      EXPECT_THAT(student.turns[0].text, testing::ContainsRegex("긴 글|A long text"));
    }
  }
  EXPECT_EQ(manners[Manner::kPastes], 1);
  EXPECT_EQ(manners[Manner::kReadsSlowly], 1);
  EXPECT_EQ(manners[Manner::kLeaves], 20);
  EXPECT_EQ(names.size(), 200u);
}

TEST(PlanTest, ChatModelsAreAskedAndStoryModelsBegun) {
  Options options;
  options.students = 2;
  const auto chat = MakePlan(options, BuiltInPrompts(), true, {"", ""});
  const auto story = MakePlan(options, BuiltInPrompts(), false, {"", ""});
  EXPECT_THAT(BuiltInPrompts().In(Language::kEnglish).questions,
              testing::Contains(chat[1].turns[0].text));
  EXPECT_THAT(BuiltInPrompts().In(Language::kKorean).openings,
              testing::Contains(story[0].turns[0].text));
}

TEST(PromptsTest, OfAFile) {
  const TempDir directory;
  const std::string path = directory.Write("prompts.txt", "# comment\n\n하나\r\ntwo\n");
  const auto prompts = ReadPrompts(path);
  ASSERT_TRUE(prompts.ok());
  EXPECT_THAT(prompts->In(Language::kKorean).openings, ElementsAre("하나", "two"));
  EXPECT_THAT(prompts->In(Language::kEnglish).questions, ElementsAre("하나", "two"));
  std::ofstream(path) << "# nothing\n";
  EXPECT_TRUE(absl::IsInvalidArgument(ReadPrompts(path).status()));
  EXPECT_TRUE(absl::IsNotFound(ReadPrompts("/no/such/file").status()));
}

TEST(PromptsTest, LongTextIsAboutAsLongAsWanted) {
  EXPECT_EQ(LongText("ab", 10, 35), "ababab");
  EXPECT_EQ(LongText("ab", 10, 5), "ab");
  EXPECT_EQ(LongText("ab", 0, 2), "abab");
}

}  // namespace
}  // namespace luna::classroom
