#include "server/state/entry_name.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "server/state/saved_session_check.h"
#include "server/state/sha256.h"

namespace luna::state {
namespace {

constexpr char kBetween = '.';
constexpr size_t kOwnerDigits = 16;

// Name and owner.
std::pair<std::string_view, std::string_view> Split(std::string_view entry) {
  const size_t dot = entry.rfind(kBetween);
  if (dot == std::string_view::npos) return {entry, ""};
  return {entry.substr(0, dot), entry.substr(dot + 1)};
}

absl::Status CheckName(std::string_view name) {
  if (name.empty() || name.size() > kMaxEntryNameBytes) {
    return InvalidField("name",
                        absl::StrCat(name.size(), " bytes; it takes 1 to ", kMaxEntryNameBytes));
  }
  const bool plain = std::ranges::all_of(
      name, [](unsigned char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_'; });
  if (plain) return absl::OkStatus();
  return InvalidField("name", "it takes the letters a-z A-Z 0-9 and - _ alone");
}

}  // namespace

absl::StatusOr<std::string> EntryOf(std::string_view caller, std::string_view name) {
  LUNA_RETURN_IF_ERROR(CheckName(name));
  if (IsSessionKey(name)) return std::string(name);
  const std::string owner = absl::BytesToHexString(Sha256({caller}).substr(0, kOwnerDigits / 2));
  return absl::StrCat(AbslView(name), std::string(1, kBetween), owner);
}

absl::Status CheckEntryName(std::string_view entry) {
  const auto [name, owner] = Split(entry);
  LUNA_RETURN_IF_ERROR(CheckName(name));
  const bool is_owner =
      owner.size() == kOwnerDigits && std::ranges::all_of(owner, [](unsigned char c) {
        return absl::ascii_isxdigit(c) && !absl::ascii_isupper(c);
      });
  if (is_owner || name.size() == entry.size()) return absl::OkStatus();
  return InvalidField("name", "it takes the letters a-z A-Z 0-9 and - _ alone");
}

std::string_view OwnerOf(std::string_view entry) { return Split(entry).second; }

std::string ShownEntry(std::string_view entry) {
  constexpr size_t kShownDigits = 6;
  if (!IsSessionKey(entry)) return std::string(Split(entry).first);
  return absl::StrCat(AbslView(entry.substr(0, kShownDigits)), "...");
}

}  // namespace luna::state
