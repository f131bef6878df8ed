#include "server/state/snapshot_format.h"

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "server/state/sha256.h"
#include "server/state/snapshot_payload.h"

namespace luna::state {
namespace {

constexpr std::string_view kMagic("\x93LUNASES", 8);
constexpr size_t kVersionOffset = 8;
constexpr size_t kLengthOffset = 12;
constexpr size_t kDigestOffset = 20;
static_assert(kDigestOffset + kSha256Bytes == kSnapshotHeaderBytes);

void AppendLittleEndian(uint64_t value, int bytes, std::string& out) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadLittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | static_cast<uint8_t>(bytes[i - 1]);
  }
  return value;
}

std::string Hex(std::string_view bytes) { return absl::BytesToHexString(AbslView(bytes)); }

absl::Status Damaged(std::string_view source, std::string_view what) {
  return absl::DataLossError(absl::StrCat(AbslView(source), ": ", AbslView(what)));
}

absl::Status CheckFrame(std::string_view bytes, std::string_view source) {
  if (bytes.size() < kSnapshotHeaderBytes) {
    return Damaged(source, absl::StrCat("has ", bytes.size(), " bytes; the header alone takes ",
                                        kSnapshotHeaderBytes));
  }
  if (const auto magic = bytes.substr(0, kMagic.size()); magic != kMagic) {
    return Damaged(source, absl::StrCat("begins with ", Hex(magic),
                                        "; a saved session begins with ", Hex(kMagic)));
  }
  const uint64_t told = ReadLittleEndian(bytes.substr(kLengthOffset, sizeof(uint64_t)));
  const size_t present = bytes.size() - kSnapshotHeaderBytes;
  if (told != present) {
    return Damaged(source, absl::StrCat("has ", present, " bytes behind its header, which says ",
                                        told, told > present ? "; it is cut" : ""));
  }
  if (bytes.size() > kMaxSnapshotBytes) {
    return absl::InvalidArgumentError(absl::StrCat(AbslView(source), ": has ", bytes.size(),
                                                   " bytes; the limit is ", kMaxSnapshotBytes));
  }
  return absl::OkStatus();
}

}  // namespace

std::string SealPayload(std::string_view payload, uint32_t version) {
  std::string bytes(kMagic);
  bytes.reserve(kSnapshotHeaderBytes + payload.size());
  AppendLittleEndian(version, sizeof(version), bytes);
  AppendLittleEndian(payload.size(), sizeof(uint64_t), bytes);
  bytes.append(Sha256({bytes, payload}));
  bytes.append(payload);
  return bytes;
}

absl::StatusOr<std::string_view> OpenPayload(std::string_view bytes, std::string_view source) {
  LUNA_RETURN_IF_ERROR(CheckFrame(bytes, source));
  const std::string_view payload = bytes.substr(kSnapshotHeaderBytes);
  const std::string_view stored = bytes.substr(kDigestOffset, kSha256Bytes);
  if (const std::string digest = Sha256({bytes.substr(0, kDigestOffset), payload});
      digest != stored) {
    return Damaged(source, absl::StrCat("its checksum says ", Hex(stored), ", its bytes have ",
                                        Hex(digest), "; it is damaged"));
  }
  // Only now: a version that damage has made is damage.
  const uint64_t version = ReadLittleEndian(bytes.substr(kVersionOffset, sizeof(uint32_t)));
  if (version > kSnapshotVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(AbslView(source), ": is of version ", version,
                     " of the format; this server reads up to version ", kSnapshotVersion));
  }
  if (version == 0) return Damaged(source, "is of version 0 of the format; there is none");
  return payload;
}

std::string EncodeSnapshot(const engine::SavedSession& session) {
  return SealPayload(EncodePayload(session));
}

absl::StatusOr<engine::SavedSession> DecodeSnapshot(std::string_view bytes,
                                                    std::string_view source) {
  LUNA_ASSIGN_OR_RETURN(const std::string_view payload, OpenPayload(bytes, source));
  return DecodePayload(payload, source);
}

}  // namespace luna::state
