// How entries of the state directory are named, and by whom.
#ifndef LUNA_SERVER_STATE_ENTRY_NAME_H_
#define LUNA_SERVER_STATE_ENTRY_NAME_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace luna::state {

inline constexpr size_t kMaxEntryNameBytes = 64;  // of what a caller chooses

// The entry that `caller` calls `name`. A session's key names its session's entry, whoever has it;
// any other name is each caller's own, so that nobody guesses or replaces another's: the entry is
// "<name>.<16 hexadecimal digits of the caller's SHA-256>". INVALID_ARGUMENT with the field "name"
// unless it is 1 to 64 of the letters a-z A-Z 0-9 and - _.
absl::StatusOr<std::string> EntryOf(std::string_view caller, std::string_view name);

// What EntryOf makes, and any name that it takes; no such entry is a path. As EntryOf.
absl::Status CheckEntryName(std::string_view entry);

// The caller's part of an entry's name; empty if it has none.
std::string_view OwnerOf(std::string_view entry);

// How messages and logs call an entry: by the name that its caller chose, of a session's key by the
// first digits alone, because whoever reads the key may use the session.
std::string ShownEntry(std::string_view entry);

}  // namespace luna::state

#endif  // LUNA_SERVER_STATE_ENTRY_NAME_H_
