#include "client/cli/top_frame.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string_view>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/json.h"
#include "client/term/line.h"
#include "client/term/width.h"

namespace luna::cli {
namespace {

using term::Align;
using term::Color;
using term::Line;
using term::Style;

constexpr int kQuotaBarColumns = 11;
// With the blanks around the name.
constexpr int kNameColumns = 18;       // where all names are short
constexpr int kLeastNameColumns = 12;  // where there is little room

Color ColorOf(v1::SessionState state) {
  switch (state) {
    case v1::SESSION_STATE_DECODE:
      return Color::kGreen;
    case v1::SESSION_STATE_PREFILL:
      return Color::kYellow;
    case v1::SESSION_STATE_WAITING:
      return Color::kMagenta;
    default:
      return Color::kDim;
  }
}

double Share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// How much of some memory is used, both in units of `unit_bytes`: a bar, percent, bytes.
Line UseLine(std::string_view head, uint64_t used, uint64_t total, uint64_t unit_bytes, int columns,
             const Style& style) {
  Line line(style, columns);
  line.Text(head, Color::kDim).Bar(Share(used, total), 16);
  line.Text(absl::StrFormat(" %3.0f%%", 100 * Share(used, total)), Color::kBold);
  line.Text(
      absl::StrCat("  ", term::Bytes(used * unit_bytes), " of ", term::Bytes(total * unit_bytes)));
  return line;
}

std::string PoolLine(const v1::PoolMemory& pool, int columns, const Style& style) {
  return UseLine(" KV pool ", pool.charged_blocks(), pool.total_blocks(), pool.block_bytes(),
                 columns, style)
      .str();
}

std::string BlocksLine(const v1::PoolMemory& pool, int columns, const Style& style) {
  Line line(style, columns);
  line.Text(" Blocks  ", Color::kDim);
  line.Text(absl::StrCat(term::WithCommas(pool.charged_blocks()), " charged + ",
                         term::WithCommas(pool.cached_blocks()), " cached + ",
                         term::WithCommas(pool.free_blocks()),
                         " free = ", term::WithCommas(pool.total_blocks())));
  line.Text(absl::StrCat(" of ", term::Bytes(pool.block_bytes())), Color::kDim);
  return line.str();
}

// All that the driver counts as used: weights, pool and scratch, and other programs.
std::string DeviceLine(const v1::PoolMemory& pool, int columns, const Style& style) {
  const uint64_t total = pool.device_total_bytes();
  const uint64_t used = total - std::min(total, pool.device_free_bytes());
  Line line = UseLine(" GPU     ", used, total, 1, columns, style);
  line.Text(absl::StrCat(", weights ", term::Bytes(pool.weights_bytes())), Color::kDim);
  return line.str();
}

std::string SpeedLine(const v1::Load& load, int columns, const Style& style) {
  Line line(style, columns);
  line.Text(" Speed   ", Color::kDim);
  line.Text(absl::StrFormat("%.0f tokens/s", load.tokens_per_s()), Color::kBold);
  line.Text(absl::StrFormat("  step %.1f ms", load.step_ms()));
  line.Text(absl::StrFormat("  +%.0f prompt tokens/s", load.prefill_tokens_per_s()), Color::kDim);
  return line.str();
}

std::string LoadLine(const v1::Load& load, int columns, const Style& style) {
  Line line(style, columns);
  line.Text(" Load    ", Color::kDim);
  line.Text(absl::StrFormat("%d running, %d waiting  %d of %d sessions", load.running(),
                            load.waiting(), load.sessions(), load.max_sessions()));
  if (load.draining()) line.Text("  draining", Color::kRed);
  return line.str();
}

// What sessions hold in full, each shared block with every one of them, fits in less.
std::string SharedLine(const v1::MemorySnapshot& snapshot, int columns, const Style& style) {
  const v1::PoolMemory& pool = snapshot.pool();
  Line line(style, columns);
  line.Text(" Shared  ", Color::kDim);
  if (pool.shared_blocks() == 0) return line.Text("nothing", Color::kDim).str();
  uint64_t sessions_bytes = 0;
  for (const auto& memory : snapshot.sessions()) sessions_bytes += memory.charged_bytes();
  const uint64_t held_bytes = pool.charged_blocks() * pool.block_bytes();
  const uint64_t saved_bytes = sessions_bytes > held_bytes ? sessions_bytes - held_bytes : 0;
  line.Text(term::Bytes(pool.shared_blocks() * pool.block_bytes()), Color::kBold);
  line.Text(absl::StrCat("  saves ", term::Bytes(saved_bytes)));
  const std::string in_full = term::Bytes(sessions_bytes);
  const std::string held = term::Bytes(held_bytes);
  const std::string words = absl::StrCat(": sessions' ", in_full, " fit in ", held);
  const bool fits = term::DisplayWidth(words) <= line.left();
  line.Text(fits ? words : absl::StrCat(": ", in_full, " in ", held), Color::kDim);
  return line.str();
}

// The label, else the beginning of the id or the handle.
std::string NameOf(const v1::SessionMemory& memory) {
  const std::string label = term::OneLine(memory.label());
  if (!label.empty()) return label;
  return absl::StrCat(memory.ephemeral() ? "one-off " : "", memory.session_id().substr(0, 8));
}

// A column beside the name: its head, its width with the blank before it, and what it says of a
// session.
struct Column {
  std::string_view head;
  int width;
  Align align;
  void (*draw)(Line& line, const Column& column, const v1::SessionMemory& memory,
               const v1::PoolMemory& pool);
};

void Count(Line& line, const Column& column, uint64_t count) {
  line.Cell(absl::StrCat(count), column.width, column.align);
}

void Memory(Line& line, const Column& column, uint64_t bytes) {
  line.Cell(term::Bytes(bytes), column.width, column.align);
}

constexpr Column kState = {
    "STATE", 8, Align::kLeft,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      line.Cell(client::Name(memory.state()), column.width, column.align, ColorOf(memory.state()));
    }};
constexpr Column kTurn = {"TURN", 5, Align::kRight,
                          [](Line& line, const Column& column, const v1::SessionMemory& memory,
                             const v1::PoolMemory&) { Count(line, column, memory.turn()); }};
constexpr Column kTokens = {
    "TOKENS", 8, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      line.Cell(term::WithCommas(memory.tokens()), column.width, column.align);
    }};
constexpr Column kSpeed = {
    "TOK/S", 7, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      const bool writing = memory.state() == v1::SESSION_STATE_DECODE;
      line.Cell(absl::StrFormat("%.1f", memory.tokens_per_s()), column.width, column.align,
                writing ? Color::kPlain : Color::kDim);
    }};
constexpr Column kPrivate = {
    "PRIV", 6, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      Count(line, column, memory.private_blocks());
    }};
constexpr Column kShared = {
    "SHARED", 7, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      Count(line, column, memory.shared_blocks());
    }};
constexpr Column kSharedBytes = {"SHARED KV", 10, Align::kRight,
                                 [](Line& line, const Column& column,
                                    const v1::SessionMemory& memory, const v1::PoolMemory& pool) {
                                   Memory(line, column,
                                          memory.shared_blocks() * pool.block_bytes());
                                 }};
constexpr Column kCharged = {
    "KV", 9, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      Memory(line, column, memory.charged_bytes());
    }};
constexpr Column kSplit = {
    "KV SPLIT", 9, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      Memory(line, column, memory.split_bytes());
    }};
constexpr Column kGuarantee = {
    "GUARANT", 9, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      Memory(line, column, memory.guaranteed_bytes());
    }};
constexpr Column kQuota = {
    "QUOTA", 9, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      Memory(line, column, memory.quota_bytes());
    }};
constexpr Column kOfQuota = {
    "USED", 5, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      const double share = Share(memory.charged_bytes(), memory.quota_bytes());
      line.Cell(absl::StrFormat("%.0f%%", 100 * share), column.width, column.align);
    }};
constexpr Column kQuotaBar = {
    "  OF QUOTA", 2 + kQuotaBarColumns, Align::kLeft,
    [](Line& line, const Column&, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      line.Cell("", 2).Bar(Share(memory.charged_bytes(), memory.quota_bytes()), kQuotaBarColumns);
    }};
constexpr Column kEvictions = {
    "EVICT", 6, Align::kRight,
    [](Line& line, const Column& column, const v1::SessionMemory& memory, const v1::PoolMemory&) {
      Count(line, column, memory.evictions());
    }};

using Columns = std::vector<const Column*>;

int WidthOf(const Columns& columns) {
  int width = 0;
  for (const Column* column : columns) width += column->width;
  return width;
}

// Those that fit beside the shortest name, in their order on the line. The first in the order of
// importance that does not fit is left out with all that matter less, so that a narrower terminal
// shows less and never something else.
Columns ColumnsFor(int columns) {
  constexpr std::array kInOrder = {&kState,  &kTurn,        &kTokens,   &kSpeed,    &kPrivate,
                                   &kShared, &kSharedBytes, &kCharged,  &kSplit,    &kGuarantee,
                                   &kQuota,  &kOfQuota,     &kQuotaBar, &kEvictions};
  constexpr std::array kByImportance = {&kState,  &kCharged,   &kOfQuota,  &kTokens,     &kPrivate,
                                        &kShared, &kGuarantee, &kQuota,    &kEvictions,  &kSpeed,
                                        &kTurn,   &kSplit,     &kQuotaBar, &kSharedBytes};
  int left = columns - kLeastNameColumns;
  std::set<const Column*> kept;
  for (const Column* column : kByImportance) {
    left -= column->width;
    if (left < 0) break;
    kept.insert(column);
  }
  Columns shown;
  std::copy_if(kInOrder.begin(), kInOrder.end(), std::back_inserter(shown),
               [&kept](const Column* column) { return kept.count(column) > 0; });
  return shown;
}

std::string HeadLine(const Columns& shown, int name_columns, int columns, const Style& style) {
  Line line(style, columns);
  line.Cell(" SESSION", name_columns, Align::kLeft, Color::kDim);
  for (const Column* column : shown) {
    line.Cell(column->head, column->width, column->align, Color::kDim);
  }
  return line.str();
}

std::string RowLine(const v1::SessionMemory& memory, const v1::PoolMemory& pool,
                    const Columns& shown, int name_columns, int columns, const Style& style) {
  Line line(style, columns);
  line.Cell(" ", 1).Cell(NameOf(memory), name_columns - 2, Align::kLeft, Color::kBold).Cell(" ", 1);
  for (const Column* column : shown) column->draw(line, *column, memory, pool);
  return line.str();
}

std::vector<const v1::SessionMemory*> InOrder(const v1::MemorySnapshot& snapshot) {
  std::vector<const v1::SessionMemory*> order;
  for (const auto& memory : snapshot.sessions()) order.push_back(&memory);
  const auto key = [](const v1::SessionMemory& memory) {
    const bool idle = memory.state() == v1::SESSION_STATE_IDLE;
    return std::tuple<bool, const std::string&, const std::string&>(idle, memory.label(),
                                                                    memory.session_id());
  };
  std::sort(order.begin(), order.end(),
            [&key](const auto* a, const auto* b) { return key(*a) < key(*b); });
  return order;
}

// As wide as the longest name where there is room.
int NameColumns(const std::vector<const v1::SessionMemory*>& rows, const Columns& shown,
                int columns) {
  int longest = 0;
  for (const auto* memory : rows) longest = std::max(longest, term::DisplayWidth(NameOf(*memory)));
  const int room = std::max(kLeastNameColumns, columns - WidthOf(shown));
  return std::clamp(longest + 2, std::min(kNameColumns, room), room);
}

}  // namespace

std::vector<std::string> RenderTop(const v1::MemorySnapshot& snapshot, term::Size size,
                                   const Style& style) {
  const auto order = InOrder(snapshot);
  const Columns shown_columns = ColumnsFor(size.columns);
  const int name_columns = NameColumns(order, shown_columns, size.columns);
  std::vector<std::string> lines = {PoolLine(snapshot.pool(), size.columns, style),
                                    BlocksLine(snapshot.pool(), size.columns, style),
                                    SharedLine(snapshot, size.columns, style)};
  if (snapshot.pool().device_total_bytes() > 0) {
    lines.push_back(DeviceLine(snapshot.pool(), size.columns, style));
  }
  lines.push_back(SpeedLine(snapshot.load(), size.columns, style));
  lines.push_back(LoadLine(snapshot.load(), size.columns, style));
  lines.push_back(HeadLine(shown_columns, name_columns, size.columns, style));
  const size_t rows = static_cast<size_t>(std::max(size.rows, 1));
  const size_t room = rows > lines.size() ? rows - lines.size() : 0;
  const size_t shown = order.size() <= room ? order.size() : (room > 0 ? room - 1 : 0);
  for (size_t i = 0; i < shown; ++i) {
    lines.push_back(
        RowLine(*order[i], snapshot.pool(), shown_columns, name_columns, size.columns, style));
  }
  if (shown < order.size()) {
    Line line(style, size.columns);
    line.Text(absl::StrCat(" .. ", order.size() - shown, " more"), Color::kDim);
    lines.push_back(line.str());
  }
  if (lines.size() > rows) lines.resize(rows);
  return lines;
}

std::vector<std::string> RenderSessions(const std::vector<v1::Session>& sessions, int columns,
                                        const Style& style) {
  Line head(style, columns);
  head.Cell("ID", 34, Align::kLeft, Color::kDim).Cell("LABEL", 16, Align::kLeft, Color::kDim);
  head.Cell("STATE", 8, Align::kLeft, Color::kDim).Cell("TURN", 5, Align::kRight, Color::kDim);
  head.Cell("TOKENS", 8, Align::kRight, Color::kDim).Cell("LEFT", 8, Align::kRight, Color::kDim);
  std::vector<std::string> lines = {head.str()};
  for (const v1::Session& session : sessions) {
    Line line(style, columns);
    line.Cell(session.id(), 33).Cell("", 1);
    line.Cell(term::OneLine(session.label()), 15, Align::kLeft, Color::kBold).Cell("", 1);
    line.Cell(client::Name(session.state()), 8, Align::kLeft, ColorOf(session.state()));
    line.Cell(absl::StrCat(session.turn()), 5, Align::kRight);
    line.Cell(term::WithCommas(session.tokens()), 8, Align::kRight);
    line.Cell(term::WithCommas(session.context_left()), 8, Align::kRight);
    lines.push_back(line.str());
  }
  return lines;
}

}  // namespace luna::cli
