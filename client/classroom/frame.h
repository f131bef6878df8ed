// The live picture of a class: pure functions from what is known to lines of text.
#ifndef LUNA_CLIENT_CLASSROOM_FRAME_H_
#define LUNA_CLIENT_CLASSROOM_FRAME_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/classroom/student.h"
#include "client/term/screen.h"
#include "client/term/style.h"
#include "luna/v1/monitor.pb.h"

namespace luna::classroom {

// One student's row.
struct Row {
  std::string name;
  State state = State::kComing;
  bool prefill = false;  // waits for the prompt to be computed
  int turn = 0;          // 1-based; 0 before the first
  int turns = 0;
  uint64_t tokens = 0;
  double tokens_per_s = 0;  // of the answer being written; 0: none
  uint64_t blocks = 0;
  uint64_t kv_bytes = 0;
  std::string words;  // the end of the text so far
};

struct Frame {
  std::string model;
  absl::Duration elapsed;
  std::vector<Row> rows;
  v1::PoolMemory pool;  // total_blocks 0: not known yet
  v1::Load load;
  uint64_t tokens = 0;      // of the whole class
  double tokens_per_s = 0;  // of the whole class, over the last second or so
};

Row MakeRow(const Student& student, absl::Time now);

// At most size.rows lines of at most size.columns columns. Where not all students fit, those who
// write or wait are shown first, in the order of their seats, and the last line counts the others.
std::vector<std::string> Render(const Frame& frame, term::Size size, const term::Style& style);

// One plain line, for pipes.
std::string ProgressLine(const Frame& frame);

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_FRAME_H_
