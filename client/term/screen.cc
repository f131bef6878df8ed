#include "client/term/screen.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace luna::term {
namespace {

constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?25h\x1b[?1049l";

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

Screen::Screen() { WriteAll(kEnter); }

Screen::~Screen() { GiveBack(); }

void Screen::GiveBack() { WriteAll(kLeave); }

void Screen::Draw(const std::vector<std::string>& lines) {
  const size_t rows = static_cast<size_t>(TerminalSize().rows);
  std::string frame = "\x1b[H";
  for (size_t i = 0; i < lines.size() && i < rows; ++i) {
    if (i > 0) frame += "\r\n";
    frame += lines[i];
    frame += "\x1b[K";
  }
  frame += "\x1b[J";
  WriteAll(frame);
}

}  // namespace luna::term
