// What is typed: keys one by one while a live table is shown, and lines that another thread can
// stop waiting for.
#ifndef LUNA_CLIENT_TERM_KEYBOARD_H_
#define LUNA_CLIENT_TERM_KEYBOARD_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "client/term/wake.h"

namespace luna::term {

// True where standard input is a terminal and this process is the one that it talks to: not in the
// background, where reading or setting the terminal would stop it.
bool HasKeyboard();

// Calls back for every byte typed at standard input, on a thread of its own, until destroyed or the
// end of the input. Without a keyboard it does nothing. What is typed comes at once, and not by
// lines, while a Screen is shown.
class Keys {
 public:
  explicit Keys(std::function<void(char key)> on_key);
  ~Keys();
  Keys(const Keys&) = delete;
  Keys& operator=(const Keys&) = delete;

 private:
  void Listen();

  const std::function<void(char key)> on_key_;
  Wake end_;
  std::thread listener_;
};

// Lines of a file descriptor, which is borrowed. One thread reads; any thread may stop it.
class LineReader {
 public:
  explicit LineReader(int fd) : fd_(fd) {}

  // The next line without its line end; blocks. The last one needs no line end. False at the end of
  // the input, and for ever after Stop.
  bool Next(std::string& line);
  void Stop();

 private:
  // Waits for more and adds it to `ahead_`; false where nothing more will come.
  bool Read();

  const int fd_;
  std::atomic<bool> stopped_{false};
  Wake stop_;
  std::string ahead_;  // read, not asked for yet
};

}  // namespace luna::term

#endif  // LUNA_CLIENT_TERM_KEYBOARD_H_
