#include "client/classroom/frame.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/term/line.h"
#include "client/term/width.h"

namespace luna::classroom {
namespace {

using term::Align;
using term::Color;
using term::Line;
using term::Style;

struct Look {
  std::string_view word;
  std::string_view mark;
  Color color;
};

// ASCII marks: dots and diamonds take one column on some terminals and two on others.
Look LookOf(State state, bool prefill) {
  if (state == State::kWaiting && prefill) return {"reading", "=", Color::kYellow};
  switch (state) {
    case State::kComing:
      return {"coming", ".", Color::kDim};
    case State::kThinking:
      return {"thinking", "o", Color::kBlue};
    case State::kWaiting:
      return {"waiting", "-", Color::kMagenta};
    case State::kWriting:
      return {"writing", "*", Color::kGreen};
    case State::kLeaving:
      return {"leaving", ">", Color::kDim};
    case State::kLeft:
      return {"left", "x", Color::kRed};
    case State::kDone:
      return {"done", "+", Color::kCyan};
    case State::kFailed:
      return {"failed", "!", Color::kRed};
  }
  return {"", "", Color::kPlain};
}

bool Busy(const Row& row) { return row.state == State::kWriting || row.state == State::kWaiting; }

// "5 writing, 3 thinking".
std::string CountStates(const std::vector<const Row*>& rows) {
  static constexpr std::array<State, 8> kOrder = {
      State::kWriting, State::kWaiting, State::kThinking, State::kComing,
      State::kLeaving, State::kDone,    State::kLeft,     State::kFailed};
  std::vector<std::string> parts;
  for (const State state : kOrder) {
    const auto count = std::count_if(rows.begin(), rows.end(),
                                     [state](const Row* row) { return row->state == state; });
    if (count > 0) parts.push_back(absl::StrCat(count, " ", LookOf(state, false).word.data()));
  }
  return absl::StrJoin(parts, ", ");
}

std::vector<const Row*> Pointers(const std::vector<Row>& rows) {
  std::vector<const Row*> pointers;
  for (const Row& row : rows) pointers.push_back(&row);
  return pointers;
}

double UsedFraction(const v1::PoolMemory& pool) {
  if (pool.total_blocks() == 0) return 0;
  return static_cast<double>(pool.charged_blocks()) / static_cast<double>(pool.total_blocks());
}

std::string Rate(double tokens_per_s) {
  if (tokens_per_s < 99.95) return absl::StrFormat("%.1f", tokens_per_s);
  return term::WithCommas(static_cast<uint64_t>(tokens_per_s + 0.5));
}

std::string TitleLine(const Frame& frame, int columns, const Style& style) {
  Line line(style, columns);
  line.Text(" Luna ", Color::kBold).Text("classroom", Color::kBold);
  line.Text(absl::StrCat("  ", term::OneLine(frame.model)), Color::kCyan);
  line.Text(absl::StrFormat("  %d students  %.1f s", frame.rows.size(),
                            absl::ToDoubleSeconds(frame.elapsed)));
  return line.str();
}

std::string PoolLine(const Frame& frame, int columns, const Style& style) {
  Line line(style, columns);
  line.Text(" KV pool ", Color::kDim);
  if (frame.pool.total_blocks() == 0) return line.Text("not known yet", Color::kDim).str();
  line.Bar(UsedFraction(frame.pool), 16);
  const uint64_t bytes = frame.pool.charged_blocks() * frame.pool.block_bytes();
  line.Text(absl::StrFormat(" %3.0f%%", 100 * UsedFraction(frame.pool)), Color::kBold);
  line.Text(absl::StrCat("  ", term::WithCommas(frame.pool.charged_blocks()), " of ",
                         term::WithCommas(frame.pool.total_blocks()), " blocks  ",
                         term::Bytes(bytes)));
  line.Text(absl::StrCat("  +", term::WithCommas(frame.pool.cached_blocks()), " cached"),
            Color::kDim);
  return line.str();
}

std::string LoadLine(const Frame& frame, int columns, const Style& style) {
  Line line(style, columns);
  line.Text(" Speed   ", Color::kDim);
  line.Text(absl::StrCat(Rate(frame.tokens_per_s), " tokens/s"), Color::kBold);
  line.Text(absl::StrFormat("  %s tokens  step %.1f ms  %d running, %d waiting",
                            term::WithCommas(frame.tokens), frame.load.step_ms(),
                            frame.load.running(), frame.load.waiting()));
  return line.str();
}

std::string HeadLine(int columns, const Style& style) {
  Line line(style, columns);
  const auto head = [&line](std::string_view text, int width, Align align) {
    line.Cell(text, width, align, Color::kDim);
  };
  head(" STUDENT", 12, Align::kLeft);
  head("STATE", 11, Align::kLeft);
  head("TURN", 5, Align::kRight);
  head("TOKENS", 7, Align::kRight);
  head("TOK/S", 7, Align::kRight);
  head("BLOCKS", 7, Align::kRight);
  head("KV", 9, Align::kRight);
  head("  LAST WORDS", line.left(), Align::kLeft);
  return line.str();
}

std::string RowLine(const Row& row, int columns, const Style& style) {
  const Look look = LookOf(row.state, row.prefill);
  Line line(style, columns);
  line.Cell(" ", 1).Cell(row.name, 10, Align::kLeft, Color::kBold).Cell(" ", 1);
  line.Cell(std::string(look.mark) + " " + std::string(look.word), 11, Align::kLeft, look.color);
  line.Cell(row.turn == 0 ? "" : absl::StrCat(row.turn, "/", row.turns), 5, Align::kRight);
  line.Cell(row.tokens == 0 ? "" : term::WithCommas(row.tokens), 7, Align::kRight);
  line.Cell(row.tokens_per_s > 0 ? Rate(row.tokens_per_s) : "", 7, Align::kRight);
  line.Cell(row.blocks == 0 ? "" : term::WithCommas(row.blocks), 7, Align::kRight);
  line.Cell(row.kv_bytes == 0 ? "" : term::Bytes(row.kv_bytes), 9, Align::kRight);
  line.Cell("", 2);
  if (line.left() > 0) {
    const Color color = row.state == State::kWriting ? Color::kPlain : Color::kDim;
    line.Text(term::CutFrontToWidth(term::OneLine(row.words), line.left()), color);
  }
  return line.str();
}

// The rows that fit, in the order of their seats; the rest go to `hidden`.
std::vector<const Row*> Choose(const std::vector<Row>& rows, size_t room,
                               std::vector<const Row*>& hidden) {
  if (rows.size() <= room) return Pointers(rows);
  const size_t shown = room > 0 ? room - 1 : 0;  // one line counts the others
  std::vector<const Row*> order = Pointers(rows);
  std::stable_partition(order.begin(), order.end(), [](const Row* row) { return Busy(*row); });
  hidden.assign(order.begin() + static_cast<ptrdiff_t>(shown), order.end());
  order.resize(shown);
  std::sort(order.begin(), order.end());  // one array: the order of the seats
  return order;
}

// The end of a long text, from a character's first byte.
std::string Tail(const std::string& text) {
  constexpr size_t kBytes = 600;
  size_t begin = text.size() > kBytes ? text.size() - kBytes : 0;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) ++begin;
  return text.substr(begin);
}

}  // namespace

Row MakeRow(const Student& student, absl::Time now) {
  const StudentRecord& record = student.record();
  Row row;
  row.name = record.name;
  row.state = student.state();
  row.prefill = record.memory.state() == v1::SESSION_STATE_PREFILL;
  row.turns = static_cast<int>(student.plan().turns.size());
  const bool arrived = row.state != State::kComing;
  row.turn = arrived ? std::min(student.turn() + 1, row.turns) : 0;
  row.tokens = record.tokens;
  if (row.state == State::kWriting && student.current().timing.first().has_value()) {
    const double seconds = absl::ToDoubleSeconds(now - *student.current().timing.first());
    if (seconds > 0.05) {
      row.tokens_per_s = static_cast<double>(student.current().timing.tokens()) / seconds;
    }
  }
  if (!student.gone()) {  // a closed session holds nothing
    row.blocks = uint64_t{record.memory.private_blocks()} + record.memory.shared_blocks();
    row.kv_bytes = record.memory.charged_bytes();
  }
  row.words = Tail(student.current().text);
  return row;
}

std::vector<std::string> Render(const Frame& frame, term::Size size, const term::Style& style) {
  std::vector<std::string> lines = {TitleLine(frame, size.columns, style),
                                    PoolLine(frame, size.columns, style),
                                    LoadLine(frame, size.columns, style)};
  if (size.rows >= 12) lines.push_back("");
  lines.push_back(HeadLine(size.columns, style));
  const size_t rows = static_cast<size_t>(std::max(size.rows, 1));
  const size_t room = rows > lines.size() ? rows - lines.size() : 0;
  std::vector<const Row*> hidden;
  for (const Row* row : Choose(frame.rows, room, hidden)) {
    lines.push_back(RowLine(*row, size.columns, style));
  }
  if (!hidden.empty()) {
    Line line(style, size.columns);
    line.Text(absl::StrCat(" .. ", hidden.size(), " more: ", CountStates(hidden)), Color::kDim);
    lines.push_back(line.str());
  }
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

std::string ProgressLine(const Frame& frame) {
  std::string line = absl::StrFormat(
      "[%6.1f s] %s; %s tokens, %s tokens/s", absl::ToDoubleSeconds(frame.elapsed),
      CountStates(Pointers(frame.rows)), term::WithCommas(frame.tokens), Rate(frame.tokens_per_s));
  if (frame.pool.total_blocks() > 0) {
    absl::StrAppend(&line, "; KV ",
                    term::Bytes(frame.pool.charged_blocks() * frame.pool.block_bytes()),
                    absl::StrFormat(" (%.0f%%)", 100 * UsedFraction(frame.pool)));
  }
  return line;
}

}  // namespace luna::classroom
