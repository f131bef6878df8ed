#include "client/cli/top_frame.h"

#include <algorithm>
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
// All columns but the name take 62.
constexpr int kNameColumns = 18;
constexpr int kOtherColumns = 62;

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

std::string PoolLine(const v1::PoolMemory& pool, int columns, const Style& style) {
  const double used = Share(pool.charged_blocks(), pool.total_blocks());
  Line line(style, columns);
  line.Text(" KV pool ", Color::kDim).Bar(used, 16);
  line.Text(absl::StrFormat(" %3.0f%%", 100 * used), Color::kBold);
  line.Text(absl::StrCat("  ", term::Bytes(pool.charged_blocks() * pool.block_bytes()), " of ",
                         term::Bytes(pool.total_blocks() * pool.block_bytes())));
  return line.str();
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

std::string HeadLine(int name_columns, int columns, const Style& style) {
  Line line(style, columns);
  const auto head = [&line](std::string_view text, int width, Align align) {
    line.Cell(text, width, align, Color::kDim);
  };
  head(" SESSION", name_columns, Align::kLeft);
  head("STATE", 8, Align::kLeft);
  head("TURN", 5, Align::kRight);
  head("TOKENS", 8, Align::kRight);
  head("TOK/S", 7, Align::kRight);
  head("BLOCKS", 7, Align::kRight);
  head("KV", 9, Align::kRight);
  head("  OF QUOTA", 2 + kQuotaBarColumns + 5, Align::kLeft);
  return line.str();
}

// The label, else the beginning of the id or the handle.
std::string NameOf(const v1::SessionMemory& memory) {
  const std::string label = term::OneLine(memory.label());
  if (!label.empty()) return label;
  return absl::StrCat(memory.ephemeral() ? "one-off " : "", memory.session_id().substr(0, 8));
}

std::string RowLine(const v1::SessionMemory& memory, int name_columns, int columns,
                    const Style& style) {
  const double share = Share(memory.charged_bytes(), memory.quota_bytes());
  Line line(style, columns);
  line.Cell(" ", 1).Cell(NameOf(memory), name_columns - 2, Align::kLeft, Color::kBold).Cell(" ", 1);
  line.Cell(client::Name(memory.state()), 8, Align::kLeft, ColorOf(memory.state()));
  line.Cell(absl::StrCat(memory.turn()), 5, Align::kRight);
  line.Cell(term::WithCommas(memory.tokens()), 8, Align::kRight);
  const bool writing = memory.state() == v1::SESSION_STATE_DECODE;
  line.Cell(absl::StrFormat("%.1f", memory.tokens_per_s()), 7, Align::kRight,
            writing ? Color::kPlain : Color::kDim);
  line.Cell(absl::StrCat(memory.private_blocks() + memory.shared_blocks()), 7, Align::kRight);
  line.Cell(term::Bytes(memory.charged_bytes()), 9, Align::kRight);
  line.Cell("", 2).Bar(share, kQuotaBarColumns);
  line.Cell(absl::StrFormat("%.0f%%", 100 * share), 5, Align::kRight, Color::kDim);
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
int NameColumns(const std::vector<const v1::SessionMemory*>& rows, int columns) {
  int longest = 0;
  for (const auto* memory : rows) longest = std::max(longest, term::DisplayWidth(NameOf(*memory)));
  return std::max(kNameColumns, std::min(longest + 2, columns - kOtherColumns));
}

}  // namespace

std::vector<std::string> RenderTop(const v1::MemorySnapshot& snapshot, term::Size size,
                                   const Style& style) {
  const auto order = InOrder(snapshot);
  const int name_columns = NameColumns(order, size.columns);
  std::vector<std::string> lines = {PoolLine(snapshot.pool(), size.columns, style),
                                    BlocksLine(snapshot.pool(), size.columns, style),
                                    SpeedLine(snapshot.load(), size.columns, style),
                                    LoadLine(snapshot.load(), size.columns, style),
                                    HeadLine(name_columns, size.columns, style)};
  const size_t rows = static_cast<size_t>(std::max(size.rows, 1));
  const size_t room = rows > lines.size() ? rows - lines.size() : 0;
  const size_t shown = order.size() <= room ? order.size() : (room > 0 ? room - 1 : 0);
  for (size_t i = 0; i < shown; ++i) {
    lines.push_back(RowLine(*order[i], name_columns, size.columns, style));
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
