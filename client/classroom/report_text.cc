// The report for people: on a terminal and in Markdown.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/classroom/report.h"
#include "client/term/line.h"
#include "client/term/width.h"
#include "core/base/absl_view.h"

namespace luna::classroom {
namespace {

using term::Align;
using term::Color;
using term::Line;
using term::Style;

// Characters of a story on the terminal; the files have them whole.
constexpr size_t kStoryChars = 700;

std::string Percentiles(const load::Summary& summary, std::string (*format)(double)) {
  if (summary.count == 0) return "none";
  return absl::StrCat("p50 ", format(summary.p50), "   p90 ", format(summary.p90), "   p99 ",
                      format(summary.p99), "   max ", format(summary.max));
}

std::string BytesOf(double bytes) { return term::Bytes(static_cast<uint64_t>(bytes)); }

std::string PoolInWords(const ClassRecord& record) {
  const v1::PoolMemory& pool = record.pool;
  if (pool.total_blocks() == 0) return "not known";
  const double share = 100.0 * static_cast<double>(record.peak_charged_blocks) /
                       static_cast<double>(pool.total_blocks());
  return absl::StrFormat(
      "peak %s of %s blocks (%.0f%%), %s; now %s charged, %s cached, %s free",
      term::WithCommas(record.peak_charged_blocks), term::WithCommas(pool.total_blocks()), share,
      term::Bytes(record.peak_charged_blocks * pool.block_bytes()),
      term::WithCommas(pool.charged_blocks()), term::WithCommas(pool.cached_blocks()),
      term::WithCommas(pool.free_blocks()));
}

// "민준, Emma 2x (the context was full)".
std::string ForReason(const ClassRecord& record, int (*times)(const StudentRecord&),
                      std::string_view reason) {
  std::vector<std::string> who;
  for (const StudentRecord& student : record.students) {
    const int count = times(student);
    if (count == 1) who.push_back(student.name);
    if (count > 1) who.push_back(absl::StrCat(student.name, " ", count, "x"));
  }
  if (who.empty()) return "";
  return absl::StrCat(absl::StrJoin(who, ", "), " (", AbslView(reason), ")");
}

std::string RestartsInWords(const ClassRecord& record) {
  const std::string context = ForReason(
      record, [](const StudentRecord& student) { return student.full_contexts; },
      "the context was full");
  const std::string memory = ForReason(
      record, [](const StudentRecord& student) { return student.restarts - student.full_contexts; },
      "the quota or the pool was too small");
  if (context.empty() && memory.empty()) return "nobody";
  return absl::StrCat(context, context.empty() || memory.empty() ? "" : "; ", memory);
}

std::string ReasonsInWords(const Report& report) {
  std::vector<std::string> parts;
  for (const auto& [reason, count] : report.finish_reasons) {
    parts.push_back(absl::StrCat(reason, " ", count));
  }
  return parts.empty() ? "none" : absl::StrJoin(parts, ", ");
}

std::string SpeedInWords(const ClassRecord& record, const Report& report) {
  std::string words = absl::StrFormat("%.0f tokens/s over the whole class", report.tokens_per_s);
  if (record.peak_tokens_per_s > 0) {
    absl::StrAppend(&words, absl::StrFormat(", %.0f in its best second", record.peak_tokens_per_s));
  }
  return words;
}

// Name and value of every figure, as both renderings show them.
std::vector<std::pair<std::string, std::string>> Figures(const ClassRecord& record,
                                                         const Report& report) {
  return {{"Speed", SpeedInWords(record, report)},
          {"First token", Percentiles(report.ttft_ms, term::Millis)},
          {"Between tokens", Percentiles(report.itl_ms, term::Millis)},
          {"Cache a session", Percentiles(report.peak_bytes, BytesOf)},
          {"Cache pool", PoolInWords(record)},
          {"Answers ended by", ReasonsInWords(report)},
          {"Started anew", RestartsInWords(record)},
          {"Tried again", absl::StrCat(report.retries, " times")},
          {"Errors", report.errors.empty() ? "none" : absl::StrCat(report.errors.size())}};
}

std::string Headline(const ClassRecord& record, const Report& report) {
  return absl::StrFormat("%d students, %d answers, %s tokens in %.1f s", record.students.size(),
                         report.answers, term::WithCommas(report.tokens),
                         absl::ToDoubleSeconds(record.elapsed));
}

std::string ModelInWords(const ClassRecord& record) {
  return absl::StrCat(term::OneLine(record.model.name()), ", backend ", record.model.backend(),
                      ", seed ", record.options.seed);
}

// The median first-token time, and the tokens a second from asking to the last token, of all a
// student's answers; "-" where there is none. From asking and not from the first token: several
// tokens may come at once, and then the time between the first and the last says nothing.
struct StudentFigures {
  size_t answers = 0;
  std::string ttft = "-";
  std::string tokens_per_s = "-";
  std::string notes;
};

StudentFigures FiguresOf(const StudentRecord& student) {
  StudentFigures figures;
  std::vector<double> ttft_ms;
  absl::Duration asked;
  for (const TurnRecord& turn : student.turns) {
    if (IsAnswer(turn)) ++figures.answers;
    if (!turn.timing.last().has_value()) continue;
    ttft_ms.push_back(*turn.timing.TtftMs());
    asked += *turn.timing.last() - turn.timing.start();
  }
  if (!ttft_ms.empty()) figures.ttft = term::Millis(load::Median(std::move(ttft_ms)));
  if (asked > absl::ZeroDuration()) {
    const double rate = static_cast<double>(student.tokens) / absl::ToDoubleSeconds(asked);
    figures.tokens_per_s = absl::StrFormat("%.1f", rate);
  }
  std::vector<std::string> notes;
  // Who meant to leave may have had the whole answer before.
  const bool stayed =
      student.turns.empty() || student.turns.back().reason != v1::FINISH_REASON_CANCELLED;
  if (student.manner != Manner::kOrdinary && !(student.manner == Manner::kLeaves && stayed)) {
    notes.emplace_back(Describe(student.manner));
  }
  if (student.restarts > 0) notes.push_back("started anew");
  if (student.memory.evictions() > 0) {
    notes.push_back(absl::StrCat(student.memory.recomputed_tokens(), " tokens recomputed"));
  }
  if (!student.errors.empty()) notes.push_back(student.errors.front());
  figures.notes = term::OneLine(absl::StrJoin(notes, "; "));
  return figures;
}

void StudentTable(const ClassRecord& record, int columns, const Style& style, std::string& out) {
  Line head(style, columns);
  head.Cell(" STUDENT", 12, Align::kLeft, Color::kDim)
      .Cell("ANSWERS", 8, Align::kRight, Color::kDim);
  head.Cell("TOKENS", 8, Align::kRight, Color::kDim).Cell("TOK/S", 8, Align::kRight, Color::kDim);
  head.Cell("1ST TOKEN", 11, Align::kRight, Color::kDim);
  head.Cell("PEAK KV", 10, Align::kRight, Color::kDim).Text("  NOTES", Color::kDim);
  absl::StrAppend(&out, head.str(), "\n");
  for (const StudentRecord& student : record.students) {
    const StudentFigures figures = FiguresOf(student);
    Line line(style, columns);
    line.Cell(" ", 1).Cell(student.name, 10, Align::kLeft, Color::kBold).Cell(" ", 1);
    line.Cell(absl::StrCat(figures.answers), 8, Align::kRight);
    line.Cell(term::WithCommas(student.tokens), 8, Align::kRight);
    line.Cell(figures.tokens_per_s, 8, Align::kRight);
    line.Cell(figures.ttft, 11, Align::kRight);
    line.Cell(term::Bytes(student.memory.peak_bytes()), 10, Align::kRight);
    line.Text("  ").Text(figures.notes, student.errors.empty() ? Color::kDim : Color::kRed);
    absl::StrAppend(&out, line.str(), "\n");
  }
}

struct Story {
  const StudentRecord* student;
  const TurnRecord* turn;
};

// An answer that came to its own end and is long enough to be one, from as many students as asked
// for, spread over the class; shorter ones and ones that were cut fill up.
std::vector<Story> ChooseStories(const ClassRecord& record, size_t wanted) {
  constexpr uint64_t kStoryTokens = 40;
  std::vector<Story> ended, cut;
  for (const StudentRecord& student : record.students) {
    if (student.turns.empty() || student.manner == Manner::kPastes) continue;
    const TurnRecord* best = &student.turns.front();
    for (const TurnRecord& turn : student.turns) {
      const bool ends = turn.reason == v1::FINISH_REASON_STOP;
      const bool best_ends = best->reason == v1::FINISH_REASON_STOP;
      const bool longer = turn.timing.tokens() > best->timing.tokens();
      if ((ends && !best_ends) || (ends == best_ends && longer)) best = &turn;
    }
    const bool whole =
        best->reason == v1::FINISH_REASON_STOP && best->timing.tokens() >= kStoryTokens;
    (whole ? ended : cut).push_back({&student, best});
  }
  if (ended.size() > wanted) {
    std::vector<Story> spread;
    for (size_t i = 0; i < wanted; ++i) {
      // An odd step keeps both languages, which take turns in the seats, among the chosen.
      spread.push_back(ended[(i * ((ended.size() / wanted) | 1)) % ended.size()]);
    }
    return spread;
  }
  while (ended.size() < wanted && !cut.empty()) {
    ended.push_back(cut.front());
    cut.erase(cut.begin());
  }
  return ended;
}

void Stories(const ClassRecord& record, int columns, size_t count, const Style& style,
             std::string& out) {
  const std::vector<Story> stories = ChooseStories(record, count);
  if (stories.empty()) return;
  const bool chat = record.model.has_chat_template();
  absl::StrAppend(&out, "\n ",
                  style.Paint(Color::kBold, chat ? "Some of the answers" : "Some of the stories"),
                  "\n");
  for (const Story& story : stories) {
    absl::StrAppend(&out, "\n ", style.Paint(Color::kCyan, story.student->name),
                    style.Paint(Color::kDim, absl::StrCat(", turn ", story.turn->turn, ", ",
                                                          story.turn->timing.tokens(), " tokens")),
                    "\n");
    const std::string whole = chat ? absl::StrCat("\"", story.turn->prompt, "\" ", story.turn->text)
                                   : absl::StrCat(story.turn->prompt, story.turn->text);
    for (const auto& line : term::Wrap(term::CutAtSentence(whole, kStoryChars), columns - 4)) {
      absl::StrAppend(&out, "   ", line, "\n");
    }
  }
}

std::string ForMarkdown(std::string_view text) {
  return absl::StrReplaceAll(AbslView(term::OneLine(text)), {{"|", "\\|"}, {"<", "&lt;"}});
}

}  // namespace

std::string RenderText(const ClassRecord& record, const Report& report, int columns,
                       size_t num_stories, const term::Style& style) {
  const int width = std::clamp(columns, 20, 110);
  std::string out = absl::StrCat(
      "\n ",
      style.Paint(Color::kBold, record.stopped ? "The class was stopped" : "The class is over"),
      "  ", Headline(record, report), "\n ", style.Paint(Color::kDim, ModelInWords(record)),
      "\n\n");
  for (const auto& [name, value] : Figures(record, report)) {
    Line line(style, width);
    line.Cell("", 3).Cell(name, 18, Align::kLeft, Color::kDim);
    const std::vector<std::string> lines = term::Wrap(value, std::max(width - 21, 10));
    absl::StrAppend(&out, line.str(), absl::StrJoin(lines, "\n" + std::string(21, ' ')), "\n");
  }
  for (const std::string& error : report.errors) {
    absl::StrAppend(&out, "     ",
                    style.Paint(Color::kRed, term::CutToWidth(term::OneLine(error), width - 5)),
                    "\n");
  }
  out += "\n";
  StudentTable(record, width, style, out);
  Stories(record, width, num_stories, style, out);
  return out;
}

std::string RenderMarkdown(const ClassRecord& record, const Report& report) {
  std::string out =
      absl::StrCat("# A class on ", term::OneLine(record.model.name()), "\n\n",
                   Headline(record, report), ". ", ModelInWords(record), ".",
                   record.stopped ? " Stopped before its end." : "", "\n\n| | |\n|---|---|\n");
  for (const auto& [name, value] : Figures(record, report)) {
    absl::StrAppend(&out, "| ", name, " | ", ForMarkdown(value), " |\n");
  }
  for (const std::string& error : report.errors) {
    absl::StrAppend(&out, "| | ", ForMarkdown(error), " |\n");
  }
  absl::StrAppend(&out,
                  "\n| student | answers | tokens | tokens/s | first token | peak KV | notes |\n"
                  "|---|--:|--:|--:|--:|--:|---|\n");
  for (const StudentRecord& student : record.students) {
    const StudentFigures figures = FiguresOf(student);
    absl::StrAppend(&out, "| ", student.name, " | ", figures.answers, " | ", student.tokens, " | ",
                    figures.tokens_per_s, " | ", figures.ttft, " | ",
                    term::Bytes(student.memory.peak_bytes()), " | ", ForMarkdown(figures.notes),
                    " |\n");
  }
  return out;
}

}  // namespace luna::classroom
