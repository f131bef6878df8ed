#include "core/text/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "core/text/utf8.h"

namespace luna::text {
namespace {

constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Sorts each run of combining marks by class. utf8proc's own reordering swaps neighbours, which
// takes minutes for a hostile run of a hundred thousand marks.
void OrderCombiningMarks(std::vector<utf8proc_int32_t>& code_points) {
  for (auto it = code_points.begin(); it != code_points.end();) {
    if (CombiningClass(*it) == 0) {
      ++it;
      continue;
    }
    const auto end = std::find_if(
        it, code_points.end(), [](utf8proc_int32_t other) { return CombiningClass(other) == 0; });
    std::stable_sort(it, end, [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return CombiningClass(a) < CombiningClass(b);
    });
    it = end;
  }
}

}  // namespace

std::string NormalizeNfc(std::string_view text) {
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const auto code_point = static_cast<utf8proc_int32_t>(NextCodePoint(text, offset));
    utf8proc_int32_t parts[8];  // a canonical decomposition has at most four
    int boundary_class = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(code_point, parts, 8, kOptions, &boundary_class);
    LUNA_CHECK(count >= 0 && count <= 8) << "decomposition of U+" << std::hex << code_point;
    code_points.insert(code_points.end(), parts, parts + count);
  }
  OrderCombiningMarks(code_points);
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), kOptions);
  LUNA_CHECK(count >= 0) << utf8proc_errmsg(count);
  std::string normalized;
  normalized.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    AppendUtf8(static_cast<char32_t>(code_points[i]), normalized);
  }
  return normalized;
}

}  // namespace luna::text
