#include "server/state/saved_session_check.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/ids.h"
#include "core/base/status_details.h"
#include "core/base/status_macros.h"
#include "core/sample/params.h"
#include "core/text/utf8.h"

namespace luna::state {
namespace {

using engine::SavedSession;
using engine::TurnRecord;

constexpr size_t kKeyDigits = 32;
constexpr uint64_t kMaxCount = uint64_t{1} << 62;
constexpr int64_t kFirstSecond = -62'135'596'800;  // year 1
constexpr int64_t kLastSecond = 253'402'300'799;   // year 9999

absl::Status CheckText(std::string_view field, std::string_view text) {
  const absl::Status status = text::CheckUtf8(text);
  return status.ok() ? status : InvalidField(field, StdView(status.message()));
}

absl::Status CheckShortText(std::string_view field, std::string_view text, size_t limit) {
  if (text.size() <= limit) return CheckText(field, text);
  return InvalidField(field, absl::StrCat(text.size(), " bytes; the limit is ", limit));
}

absl::Status CheckTokens(std::string_view field, const std::vector<TokenId>& tokens) {
  if (tokens.size() > kMaxSavedTokens) {
    return InvalidField(field,
                        absl::StrCat(tokens.size(), " tokens; the limit is ", kMaxSavedTokens));
  }
  const auto wrong = std::find_if(tokens.begin(), tokens.end(), [](TokenId id) { return id < 0; });
  if (wrong == tokens.end()) return absl::OkStatus();
  return InvalidField(absl::StrCat(AbslView(field), "[", wrong - tokens.begin(), "]"),
                      absl::StrCat("token id ", *wrong, " is below 0"));
}

absl::Status CheckNames(const SavedSession& session) {
  LUNA_RETURN_IF_ERROR(CheckShortText("model_digest", session.model_digest, kMaxSavedNameBytes));
  LUNA_RETURN_IF_ERROR(CheckShortText("numerics", session.numerics, kMaxSavedNameBytes));
  if (!IsSessionKey(session.key)) {
    // The value may be most of a key; messages do not carry those.
    return InvalidField("key", absl::StrCat("its ", session.key.size(), " bytes are not ",
                                            kKeyDigits, " lower-case hexadecimal digits"));
  }
  LUNA_RETURN_IF_ERROR(CheckShortText("caller", session.caller, kMaxSavedNameBytes));
  return CheckShortText("label", session.label, kMaxSavedLabelBytes);
}

// The vocabulary is the model's, and the engine knows it.
absl::Status CheckSampling(const sample::SamplingOverrides& sampling) {
  const absl::Status status =
      sample::Validate(sample::Resolve(sampling), std::numeric_limits<int>::max());
  if (status.ok()) return status;
  constexpr char kPrefix[] = "default_sampling.";
  return WithField(absl::InvalidArgumentError(absl::StrCat(kPrefix, status.message())),
                   absl::StrCat(kPrefix, FieldOf(status)));
}

absl::Status CheckTurn(const TurnRecord& turn, const std::string& field, int begin, size_t size) {
  if (turn.begin != begin) {
    return InvalidField(
        absl::StrCat(field, ".begin"),
        absl::StrCat(turn.begin, "; the turn before it, or the session, leaves off at ", begin));
  }
  if (turn.body < turn.begin || turn.answer < turn.body || turn.end < turn.answer ||
      static_cast<size_t>(turn.end) > size) {
    return InvalidField(field, absl::StrCat("begin ", turn.begin, ", body ", turn.body, ", answer ",
                                            turn.answer, " and end ", turn.end,
                                            " do not rise within a history of ", size, " tokens"));
  }
  LUNA_RETURN_IF_ERROR(CheckText(absl::StrCat(field, ".text"), turn.text));
  return CheckTokens(absl::StrCat(field, ".after_system"), turn.after_system);
}

absl::Status CheckTurns(const SavedSession& session) {
  if (session.turns.size() > kMaxSavedTurns) {
    return InvalidField(
        "turns", absl::StrCat(session.turns.size(), " entries; the limit is ", kMaxSavedTurns));
  }
  int end = 0;
  for (size_t i = 0; i < session.turns.size(); ++i) {
    LUNA_RETURN_IF_ERROR(
        CheckTurn(session.turns[i], absl::StrCat("turns[", i, "]"), end, session.history.size()));
    end = session.turns[i].end;
  }
  if (static_cast<size_t>(end) == session.history.size()) return absl::OkStatus();
  return InvalidField("turns", absl::StrCat("they end at ", end, "; the history has ",
                                            session.history.size(), " tokens"));
}

absl::Status CheckBytes(std::string_view field, int64_t bytes) {
  if (bytes >= 0) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(bytes, " is below 0"));
}

absl::Status CheckCount(std::string_view field, uint64_t count, uint64_t limit) {
  if (count <= limit) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(count, " is above ", limit));
}

absl::Status CheckTime(std::string_view field, absl::Time time) {
  if (time >= absl::FromUnixSeconds(kFirstSecond) &&
      time < absl::FromUnixSeconds(kLastSecond + 1)) {
    return absl::OkStatus();
  }
  return InvalidField(field, absl::StrCat(absl::ToUnixSeconds(time),
                                          " seconds since 1970 is outside the years 1 to 9999"));
}

}  // namespace

bool IsSessionKey(std::string_view text) {
  return text.size() == kKeyDigits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

absl::Status CheckSavedSession(const SavedSession& session) {
  LUNA_RETURN_IF_ERROR(CheckNames(session));
  LUNA_RETURN_IF_ERROR(CheckSampling(session.default_sampling));
  if (session.system.has_value()) {
    LUNA_RETURN_IF_ERROR(CheckText("system.text", session.system->text));
    LUNA_RETURN_IF_ERROR(CheckTokens("system.opening", session.system->opening));
  }
  LUNA_RETURN_IF_ERROR(CheckBytes("quota_bytes", session.quota_bytes));
  LUNA_RETURN_IF_ERROR(CheckBytes("guarantee_bytes", session.guarantee_bytes));
  LUNA_RETURN_IF_ERROR(CheckTokens("history", session.history));
  LUNA_RETURN_IF_ERROR(CheckTurns(session));
  // What is shown as the session's turn is the sum of both kinds.
  LUNA_RETURN_IF_ERROR(CheckCount("dropped_turns", session.dropped_turns,
                                  std::numeric_limits<int32_t>::max() - kMaxSavedTurns));
  LUNA_RETURN_IF_ERROR(CheckCount("generated_tokens", session.generated_tokens, kMaxCount));
  LUNA_RETURN_IF_ERROR(CheckCount("seeds.drawn", session.seeds.drawn, kMaxCount));
  LUNA_RETURN_IF_ERROR(CheckTime("created", session.created));
  return CheckTime("last_active", session.last_active);
}

}  // namespace luna::state
