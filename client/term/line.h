// One line of a table: cells one after the other, never wider than the terminal, whatever is in
// them.
#ifndef LUNA_CLIENT_TERM_LINE_H_
#define LUNA_CLIENT_TERM_LINE_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "client/term/style.h"
#include "client/term/width.h"

namespace luna::term {

class Line {
 public:
  Line(const Style& style, int columns) : style_(style), left_(columns) {}

  // A cell of exactly `columns`, or of what is left of the line.
  Line& Cell(std::string_view text, int columns, Align align = Align::kLeft,
             Color color = Color::kPlain) {
    const int take = std::min(columns, left_);
    if (take <= 0) return *this;
    text_ += style_.Paint(color, Fit(text, take, align));
    left_ -= take;
    return *this;
  }

  // A cell as wide as its text.
  Line& Text(std::string_view text, Color color = Color::kPlain) {
    const std::string cut = CutToWidth(text, left_);
    left_ -= DisplayWidth(cut);
    text_ += style_.Paint(color, cut);
    return *this;
  }

  Line& Bar(double fraction, int columns) {
    const int take = std::min(columns, left_);
    if (take <= 0) return *this;
    text_ += style_.Bar(fraction, take);
    left_ -= take;
    return *this;
  }

  int left() const { return left_; }
  std::string str() const { return text_; }

 private:
  const Style& style_;
  int left_;
  std::string text_;
};

}  // namespace luna::term

#endif  // LUNA_CLIENT_TERM_LINE_H_
