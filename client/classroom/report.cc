// The figures, for programs too.
#include "client/classroom/report.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace luna::classroom {
namespace {

std::string ReasonInWords(const TurnRecord& turn) {
  std::string words(client::Name(turn.reason));
  if (turn.limit != v1::LIMIT_UNSPECIFIED) {
    absl::StrAppend(&words, " (", AbslView(client::Name(turn.limit)), ")");
  }
  return words;
}

client::Json OrNull(const std::optional<double>& value) {
  return value ? client::Json(*value) : client::Json();
}

client::Json ToJson(const TurnRecord& turn) {
  client::Json json = {{"turn", turn.turn},
                       {"prompt", turn.prompt},
                       {"text", turn.text},
                       {"finish_reason", client::Name(turn.reason)}};
  if (turn.limit != v1::LIMIT_UNSPECIFIED) json["limit"] = client::Name(turn.limit);
  json["tokens"] = turn.timing.tokens();
  json["seed"] = turn.seed;
  json["ttft_ms"] = OrNull(turn.timing.TtftMs());
  json["tpot_ms"] = OrNull(turn.timing.TpotMs());
  json["usage"] = client::ToJson(turn.usage);
  return json;
}

client::Json ToJson(const StudentRecord& student) {
  client::Json turns = client::Json::array();
  for (const TurnRecord& turn : student.turns) turns.push_back(ToJson(turn));
  return {{"name", student.name},
          {"note", Describe(student.manner)},
          {"tokens", student.tokens},
          {"peak_bytes", student.memory.peak_bytes()},
          {"evictions", student.memory.evictions()},
          {"recomputed_tokens", student.memory.recomputed_tokens()},
          {"restarts", student.restarts},
          {"retries", student.retries},
          {"errors", student.errors},
          {"turns", turns}};
}

bool KeepsUp(const StudentRecord& student) { return student.manner != Manner::kReadsSlowly; }

void MeasureSpeed(const ClassRecord& record, Report& report) {
  absl::Time start = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();
  for (const StudentRecord& student : record.students) {
    for (const TurnRecord& turn : student.turns) {
      start = std::min(start, turn.timing.start());
      if (KeepsUp(student)) end = std::max(end, turn.timing.last().value_or(absl::InfinitePast()));
    }
  }
  if (end <= start) return;
  uint64_t tokens = 0;
  for (const StudentRecord& student : record.students) {
    for (const TurnRecord& turn : student.turns) tokens += turn.timing.TokensUntil(end);
  }
  report.seconds = absl::ToDoubleSeconds(end - start);
  report.tokens_per_s = static_cast<double>(tokens) / report.seconds;
}

}  // namespace

bool IsAnswer(const TurnRecord& turn) { return turn.reason != v1::FINISH_REASON_ERROR; }

Report Summarize(const ClassRecord& record) {
  Report report;
  std::vector<double> ttft_ms, itl_ms, peak_bytes;
  for (const StudentRecord& student : record.students) {
    report.restarts += student.restarts;
    report.retries += student.retries;
    for (const auto& error : student.errors) {
      report.errors.push_back(absl::StrCat(student.name, ": ", error));
    }
    if (student.memory.peak_bytes() > 0) {
      peak_bytes.push_back(static_cast<double>(student.memory.peak_bytes()));
    }
    for (const TurnRecord& turn : student.turns) {
      if (IsAnswer(turn)) ++report.answers;
      ++report.finish_reasons[ReasonInWords(turn)];
      report.tokens += turn.timing.tokens();
      if (const auto ttft = turn.timing.TtftMs()) ttft_ms.push_back(*ttft);
      if (KeepsUp(student)) turn.timing.AppendGapsMs(absl::InfinitePast(), itl_ms);
    }
  }
  MeasureSpeed(record, report);
  report.ttft_ms = load::Summarize(std::move(ttft_ms));
  report.itl_ms = load::Summarize(std::move(itl_ms));
  report.peak_bytes = load::Summarize(std::move(peak_bytes));
  return report;
}

client::Json ToJson(const ClassRecord& record, const Report& report) {
  client::Json students = client::Json::array();
  for (const StudentRecord& student : record.students) students.push_back(ToJson(student));
  client::Json reasons = client::Json::object();
  for (const auto& [reason, count] : report.finish_reasons) reasons[reason] = count;
  return {{"model", client::ToJson(record.model)},
          {"students", record.options.students},
          {"turns", record.options.turns},
          {"max_tokens", record.options.max_tokens},
          {"seed", record.options.seed},
          {"stopped", record.stopped},
          {"elapsed_s", absl::ToDoubleSeconds(record.elapsed)},
          {"answers", report.answers},
          {"tokens", report.tokens},
          {"tokens_per_s", report.tokens_per_s},
          {"peak_tokens_per_s", record.peak_tokens_per_s},
          {"ttft_ms", load::ToJson(report.ttft_ms)},
          {"itl_ms", load::ToJson(report.itl_ms)},
          {"session_peak_bytes", load::ToJson(report.peak_bytes)},
          {"peak_charged_blocks", record.peak_charged_blocks},
          {"pool", client::ToJson(record.pool)},
          {"finish_reasons", reasons},
          {"restarts", report.restarts},
          {"retries", report.retries},
          {"errors", report.errors},
          {"per_student", students}};
}

std::string RenderStories(const ClassRecord& record) {
  std::string text;
  for (const StudentRecord& student : record.students) {
    for (const TurnRecord& turn : student.turns) {
      absl::StrAppend(&text, "== ", student.name, ", turn ", turn.turn, " (", ReasonInWords(turn),
                      ", ", turn.timing.tokens(), " tokens, seed ", turn.seed, ")\n");
      absl::StrAppend(&text, turn.prompt, record.model.has_chat_template() ? "\n--\n" : "",
                      turn.text, "\n\n");
    }
  }
  return text;
}

}  // namespace luna::classroom
