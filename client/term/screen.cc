#include "client/term/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "client/term/keyboard.h"

namespace luna::term {
namespace {

// Without line wrap: a line that a terminal draws wider than it counts here is cut at the margin
// instead of moving all that is below it.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

int FromEnvironment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  const int value = text == nullptr ? 0 : std::atoi(text);
  return value > 0 ? value : otherwise;
}

void WriteAll(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // a terminal that went away: the next read of the program finds out
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

Size TerminalSize() {
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 0) {
    return {window.ws_col, window.ws_row};
  }
  return {FromEnvironment("COLUMNS", 80), FromEnvironment("LINES", 24)};
}

void Screen::Take() {
  termios now{};
  if (HasKeyboard() && tcgetattr(STDIN_FILENO, &now) == 0) {
    before_ = now;
    now.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
    now.c_cc[VMIN] = 1;
    now.c_cc[VTIME] = 0;
    now.c_cc[VSUSP] = _POSIX_VDISABLE;  // a stop would leave the shell with this screen
    tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
  }
  taken_ = true;
  WriteAll(kEnter);
}

void Screen::GiveBack() {
  if (!taken_.exchange(false)) return;
  WriteAll(kLeave);
  // Keys that nobody read are dropped: they were not meant for the shell.
  if (before_.has_value()) tcsetattr(STDIN_FILENO, TCSAFLUSH, &*before_);
}

void Screen::Draw(const std::vector<std::string>& lines) {
  if (!taken_) Take();
  const size_t rows = static_cast<size_t>(TerminalSize().rows);
  std::string frame = "\x1b[H";
  // A row is cleared before it is written: where it fills all columns the cursor stays on the last
  // character, and clearing to the end of the row would take that away.
  size_t row = 0;
  for (; row < lines.size() && row < rows; ++row) {
    if (row > 0) frame += "\r\n";
    frame += "\x1b[K";
    frame += lines[row];
  }
  if (row < rows) frame += row > 0 ? "\r\n\x1b[J" : "\x1b[J";
  WriteAll(frame);
}

}  // namespace luna::term
