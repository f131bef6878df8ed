// Shows continuations whose events come mixed as whole blocks, one below the other.
#ifndef LUNA_CLIENT_CLI_BLOCK_PRINTER_H_
#define LUNA_CLIENT_CLI_BLOCK_PRINTER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "client/term/style.h"
#include "luna/v1/inference.pb.h"

namespace luna::cli {

// The first continuation that has not ended is shown live, under its heading; those behind it wait
// for their turn. A single continuation has no heading. Single-threaded.
class BlockPrinter {
 public:
  // Gets what is shown; false where nothing can be shown any more.
  using Write = std::function<bool(const std::string&)>;
  // Gets a line about a block that has ended: its tokens, end and seed. May be null.
  using Note = std::function<void(const std::string&)>;

  // For n >= 1 continuations. On a terminal control characters are left out. `style` is borrowed.
  BlockPrinter(size_t n, Write write, Note note, bool to_terminal, const term::Style& style);

  // The next event, with an index below n. False where the writing failed.
  bool Add(const v1::GenerateEvent& event);
  // The stream is over: ends the line, and where not all have ended, shows those that have.
  void End();

 private:
  struct Block {
    std::string waiting;  // not shown yet
    v1::Accepted accepted;
    v1::Finished finished;
    bool ended = false;
  };

  void Show(const std::string& text);
  void Open();
  void Close();
  void Advance();
  std::string NoteOf(const Block& block) const;

  const Write write_;
  const Note note_;
  const bool to_terminal_;
  const term::Style& style_;
  std::vector<Block> blocks_;
  size_t current_ = 0;      // the block that is shown live, or n
  bool opened_ = false;     // its heading is shown
  bool headed_ = false;     // a heading was shown
  bool line_open_ = false;  // what was shown last does not end its line
  bool writable_ = true;
};

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_BLOCK_PRINTER_H_
