// The figures, and the files.
#include "client/classroom/report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::classroom {
namespace {

std::string ReasonInWords(const TurnRecord& turn) {
  std::string words(client::Name(turn.reason));
  if (turn.limit != v1::LIMIT_UNSPECIFIED) {
    absl::StrAppend(&words, " (", AbslView(client::Name(turn.limit)), ")");
  }
  return words;
}

client::Json ToJson(const TurnRecord& turn) {
  client::Json json = {{"turn", turn.turn},
                       {"prompt", turn.prompt},
                       {"text", turn.text},
                       {"finish_reason", client::Name(turn.reason)}};
  if (turn.limit != v1::LIMIT_UNSPECIFIED) json["limit"] = client::Name(turn.limit);
  json["tokens"] = turn.timing.tokens();
  json["seed"] = turn.seed;
  json["ttft_ms"] = turn.timing.TtftMs().value_or(0);
  json["tpot_ms"] = turn.timing.TpotMs().value_or(0);
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

absl::Status WriteFile(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) return absl::UnavailableError(absl::StrCat("cannot write ", path.string()));
  return absl::OkStatus();
}

}  // namespace

Report Summarize(const ClassRecord& record) {
  Report report;
  std::vector<double> ttft_ms, itl_ms, peak_bytes;
  absl::Time start = absl::InfiniteFuture();
  absl::Time end = absl::InfinitePast();
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
      ++report.answers;
      ++report.finish_reasons[ReasonInWords(turn)];
      report.tokens += turn.timing.tokens();
      start = std::min(start, turn.timing.start());
      if (turn.timing.tokens() == 0) continue;
      end = std::max(end, *turn.timing.last());
      ttft_ms.push_back(*turn.timing.TtftMs());
      if (student.manner != Manner::kReadsSlowly) {
        turn.timing.AppendGapsMs(absl::InfinitePast(), itl_ms);
      }
    }
  }
  if (report.tokens > 0) report.seconds = absl::ToDoubleSeconds(end - start);
  if (report.seconds > 0) report.tokens_per_s = static_cast<double>(report.tokens) / report.seconds;
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

absl::Status WriteFiles(const ClassRecord& record, const Report& report,
                        const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("cannot make the directory ", directory, ": ", error.message()));
  }
  const std::filesystem::path path(directory);
  LUNA_RETURN_IF_ERROR(WriteFile(path / "report.md", RenderMarkdown(record, report)));
  LUNA_RETURN_IF_ERROR(WriteFile(path / "report.json", client::Dump(ToJson(record, report))));
  return WriteFile(path / "stories.txt", RenderStories(record));
}

}  // namespace luna::classroom
