// Redraws a frame in place on standard output. On construction it takes the alternate screen and
// hides the cursor; the destructor, and only it, gives both back, so what was on the terminal
// before is there again. Not thread-safe.
#ifndef LUNA_CLIENT_TERM_SCREEN_H_
#define LUNA_CLIENT_TERM_SCREEN_H_

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
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // What the destructor does, for a process that is about to end without it.
  static void GiveBack();

  // Each line must fit the columns; lines beyond the rows are not shown. One write, so that a frame
  // is never seen half drawn.
  void Draw(const std::vector<std::string>& lines);
};

}  // namespace luna::term

#endif  // LUNA_CLIENT_TERM_SCREEN_H_
