#include "client/cli/block_printer.h"

#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/json.h"
#include "client/term/width.h"
#include "core/base/absl_view.h"

namespace luna::cli {

BlockPrinter::BlockPrinter(size_t n, Write write, Note note, bool to_terminal,
                           const term::Style& style)
    : write_(std::move(write)),
      note_(std::move(note)),
      to_terminal_(to_terminal),
      style_(style),
      blocks_(n) {
  Open();
}

void BlockPrinter::Show(const std::string& text) {
  if (text.empty()) return;
  writable_ = writable_ && write_(text);
  line_open_ = text.back() != '\n';
}

// The heading waits for the first word, so that nothing is shown of a request that is refused.
void BlockPrinter::Open() { opened_ = blocks_.size() == 1; }

void BlockPrinter::Close() {
  if (line_open_) Show("\n");
  if (note_ && blocks_[current_].ended) note_(NoteOf(blocks_[current_]));
}

bool BlockPrinter::Add(const v1::GenerateEvent& event) {
  Block& block = blocks_[event.index()];
  if (event.has_accepted()) block.accepted = event.accepted();
  const std::string& text = event.delta().text();
  block.waiting += to_terminal_ ? term::WithoutControls(text) : text;
  if (event.has_finished()) block.finished = event.finished();
  block.ended = block.ended || event.has_finished() || event.has_error();
  if (event.index() == current_) Advance();
  return writable_;
}

// Shows what there is of the current block, and of those behind it as far as each has ended.
void BlockPrinter::Advance() {
  while (current_ < blocks_.size()) {
    Block& block = blocks_[current_];
    if (!opened_ && (block.ended || !block.waiting.empty())) {
      const std::string heading = absl::StrCat("-- ", current_ + 1, " of ", blocks_.size(), " --");
      Show(absl::StrCat(headed_ ? "\n" : "", style_.Paint(term::Color::kDim, heading), "\n"));
      opened_ = headed_ = true;
    }
    Show(std::exchange(block.waiting, ""));
    if (!block.ended) return;
    Close();
    ++current_;
    Open();
  }
}

void BlockPrinter::End() {
  if (line_open_) Show("\n");
  while (current_ < blocks_.size()) {
    if (blocks_[current_].ended) {
      Advance();
    } else {
      ++current_;
      Open();
    }
  }
}

std::string BlockPrinter::NoteOf(const Block& block) const {
  const v1::Usage& usage = block.finished.usage();
  const std::string_view reason =
      block.finished.reason() == v1::FINISH_REASON_UNSPECIFIED
          ? client::Name(v1::FINISH_REASON_ERROR)  // an error event has no more to say
          : client::Name(block.finished.reason());
  const std::string_view limit = client::Name(block.finished.limit());
  return absl::StrCat("(", usage.completion_tokens(), " tokens after ", usage.prompt_tokens(), ", ",
                      usage.cached_tokens(), " of them cached; ", AbslView(reason),
                      limit.empty() ? "" : ": ", AbslView(limit), "; seed ", block.accepted.seed(),
                      ")");
}

}  // namespace luna::cli
