// Whole numbers on the command line, taken strictly: decimal digits, within their range. The
// parser's own conversion reads 010 as eight and lets -5 and what overflows wrap around.
#ifndef LUNA_CLIENT_CLI_NUMBER_H_
#define LUNA_CLIENT_CLI_NUMBER_H_

#include <CLI/CLI.hpp>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace luna::cli {

// For CLI::Option::transform, of an option that holds a T, or several.
template <typename T>
CLI::Validator Whole(T least = std::numeric_limits<T>::min(),
                     T most = std::numeric_limits<T>::max()) {
  const bool any = least == std::numeric_limits<T>::min() && most == std::numeric_limits<T>::max();
  return CLI::Validator(
      [least, most](std::string& text) -> std::string {
        T value = 0;
        if (!absl::SimpleAtoi(text, &value) || value < least || value > most) {
          return absl::StrCat("'", text, "' is not a whole number from ", least, " to ", most);
        }
        text = absl::StrCat(value);
        return "";
      },
      any ? "" : absl::StrCat(least, "..", most));
}

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_NUMBER_H_
