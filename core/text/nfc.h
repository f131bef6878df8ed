// Unicode normalization form C.
#ifndef LUNA_CORE_TEXT_NFC_H_
#define LUNA_CORE_TEXT_NFC_H_

#include <string>
#include <string_view>

namespace luna::text {

// `text` must be valid UTF-8. Linear in its length but for the sorting of combining marks.
std::string NormalizeNfc(std::string_view text);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_NFC_H_
