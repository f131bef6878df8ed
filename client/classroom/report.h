// What is told when the class is over: figures first, then the students, then some of their
// stories.
#ifndef LUNA_CLIENT_CLASSROOM_REPORT_H_
#define LUNA_CLIENT_CLASSROOM_REPORT_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/classroom/options.h"
#include "client/classroom/student.h"
#include "client/json.h"
#include "client/load/statistics.h"
#include "client/term/style.h"
#include "luna/v1/inference.pb.h"
#include "luna/v1/monitor.pb.h"

namespace luna::classroom {

// Everything that happened.
struct ClassRecord {
  Options options;
  v1::GetModelResponse model;
  std::vector<StudentRecord> students;
  absl::Duration elapsed;
  v1::PoolMemory pool;               // after the last student left
  v1::Load load;                     // the last one seen
  uint64_t peak_charged_blocks = 0;  // seen during the class
  double peak_tokens_per_s = 0;      // of all together, over a second of the class
  bool stopped = false;              // before its end
};

// True for what counts as an answer: whole, cut, or left by its reader, but not ended by an error.
bool IsAnswer(const TurnRecord& turn);

// The figures of a class. Gaps between tokens and the speed leave out the student who reads slowly:
// they would measure the student.
struct Report {
  uint64_t tokens = 0;  // received by all students
  size_t answers = 0;
  // From the first request to the last token of those who keep up; pauses between turns are in it.
  double seconds = 0;
  double tokens_per_s = 0;  // what everybody received in that time, over that time
  load::Summary ttft_ms;
  load::Summary itl_ms;
  load::Summary peak_bytes;                   // of the sessions, each at its largest
  std::map<std::string, int> finish_reasons;  // "length (max_tokens)" -> how often
  int restarts = 0;
  int retries = 0;
  std::vector<std::string> errors;  // "name: what"
};

Report Summarize(const ClassRecord& record);

// For the terminal, `columns` wide; up to `num_stories` stories, from as many students and in turns
// from both languages.
std::string RenderText(const ClassRecord& record, const Report& report, int columns,
                       size_t num_stories, const term::Style& style);
std::string RenderMarkdown(const ClassRecord& record, const Report& report);
client::Json ToJson(const ClassRecord& record, const Report& report);
// Every answer whole, with its prompt.
std::string RenderStories(const ClassRecord& record);

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_REPORT_H_
