// Redraws a frame in place on standard output. The first frame takes the alternate screen, hides
// the cursor and keeps what is typed out of the picture: keys are neither echoed nor held back
// until the line ends. The destructor gives everything back, so what was on the terminal before is
// there again. Not thread-safe but for GiveBack.
#ifndef LUNA_CLIENT_TERM_SCREEN_H_
#define LUNA_CLIENT_TERM_SCREEN_H_

#include <termios.h>

#include <atomic>
#include <optional>
#include <string>
#include <vector>

namespace luna::term {

struct Size {
  int columns = 80;
  int rows = 24;
};

// Of the terminal at standard output; COLUMNS and LINES, else 80x24, where it cannot be asked.
Size TerminalSize();

class Screen {
 public:
  Screen() = default;
  ~Screen() { GiveBack(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Each line must fit the columns; lines beyond the rows are not shown. One write, so that a frame
  // is never seen half drawn.
  void Draw(const std::vector<std::string>& lines);

  // What the destructor does, for a process that is about to end without it. From any thread.
  void GiveBack();

 private:
  void Take();

  std::atomic<bool> taken_{false};
  std::optional<termios> before_;  // what the terminal did with keys; written before taken_
};

}  // namespace luna::term

#endif  // LUNA_CLIENT_TERM_SCREEN_H_
