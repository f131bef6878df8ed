// Debian's Abseil has a string_view of its own, which does not convert to std::string_view. Ours is
// the standard one everywhere; these two stand where an Abseil function is called.
#ifndef LUNA_CORE_BASE_ABSL_VIEW_H_
#define LUNA_CORE_BASE_ABSL_VIEW_H_

#include <string_view>

#include "absl/strings/string_view.h"

namespace luna {

inline absl::string_view AbslView(std::string_view text) { return {text.data(), text.size()}; }
inline std::string_view StdView(absl::string_view text) { return {text.data(), text.size()}; }

}  // namespace luna

#endif  // LUNA_CORE_BASE_ABSL_VIEW_H_
