// Whole numbers and sizes on the command line, taken strictly: decimal digits, within their range.
// The parser's own conversions read 010 as eight and let -5 and what overflows wrap around.
#ifndef LUNA_CLIENT_CLI_NUMBER_H_
#define LUNA_CLIENT_CLI_NUMBER_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
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

// For an option that holds a number of bytes in a uint64_t: alone, or with K, M, G or T, which
// count in steps of 1024 as those of luna-server do.
inline CLI::Validator Bytes() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        constexpr std::string_view kUnits = "KMGT";
        std::string digits = text;
        int shift = 0;
        if (!text.empty()) {
          const size_t unit = kUnits.find(absl::ascii_toupper(text.back()));
          if (unit != kUnits.npos) {
            shift = 10 * (static_cast<int>(unit) + 1);
            digits.pop_back();
          }
        }
        uint64_t value = 0;
        if (digits.find_first_not_of("0123456789") != digits.npos ||
            !absl::SimpleAtoi(digits, &value) ||
            value > (std::numeric_limits<uint64_t>::max() >> shift)) {
          return absl::StrCat("'", text, "' is not a number of bytes from 0 to ",
                              std::numeric_limits<uint64_t>::max(), ", alone or with K, M, G or T");
        }
        text = absl::StrCat(value << shift);
        return "";
      },
      "");
}

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_NUMBER_H_
