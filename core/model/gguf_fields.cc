#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/model/gguf.h"

namespace luna::model {
namespace {

std::string Shown(const GgufValue* value) {
  if (value == nullptr) return "absent";
  struct Visitor {
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(uint64_t v) const { return absl::StrCat(v); }
    std::string operator()(int64_t v) const { return absl::StrCat(v); }
    std::string operator()(double v) const { return absl::StrCat(v); }
    std::string operator()(std::string_view v) const {
      return absl::StrCat("\"", AbslView(v.substr(0, 60)), "\"");
    }
    std::string operator()(const GgufArray& v) const {
      return absl::StrCat("an array of ", v.count);
    }
  };
  return std::visit(Visitor{}, *value);
}

}  // namespace

const GgufValue* GgufFields::Find(std::string_view key) const {
  return file_.Find(absl::StrCat(prefix_, AbslView(key)));
}

void GgufFields::Fail(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void GgufFields::Invalid(std::string_view key, std::string_view why) {
  Fail(absl::InvalidArgumentError(absl::StrCat("metadata ", prefix_, AbslView(key), " is ",
                                               Shown(Find(key)), "; ", AbslView(why))));
}

void GgufFields::Unsupported(std::string_view key, std::string_view why) {
  Fail(absl::UnimplementedError(absl::StrCat("metadata ", prefix_, AbslView(key), " is ",
                                             Shown(Find(key)), ", which is not supported",
                                             why.empty() ? "" : "; ", AbslView(why))));
}

int GgufFields::RequiredInt(std::string_view key) {
  if (Find(key) == nullptr) {
    Fail(absl::InvalidArgumentError(
        absl::StrCat("metadata ", prefix_, AbslView(key), " is missing")));
    return 0;
  }
  return Int(key, 0);
}

int GgufFields::Int(std::string_view key, int fallback) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return fallback;
  constexpr int kHigh = std::numeric_limits<int>::max();
  constexpr int kLow = std::numeric_limits<int>::min();
  if (const auto* v = std::get_if<uint64_t>(value); v != nullptr && *v <= uint64_t{kHigh}) {
    return static_cast<int>(*v);
  }
  if (const auto* v = std::get_if<int64_t>(value); v != nullptr && *v >= kLow && *v <= kHigh) {
    return static_cast<int>(*v);
  }
  Invalid(key, "it must be one integer of 32 bits");
  return fallback;
}

double GgufFields::Number(std::string_view key, double fallback) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return fallback;
  if (const auto* v = std::get_if<double>(value)) return *v;
  if (const auto* v = std::get_if<uint64_t>(value)) return static_cast<double>(*v);
  if (const auto* v = std::get_if<int64_t>(value)) return static_cast<double>(*v);
  Invalid(key, "it must be a number");
  return fallback;
}

bool GgufFields::Bool(std::string_view key, bool fallback) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return fallback;
  if (const auto* v = std::get_if<bool>(value)) return *v;
  Invalid(key, "it must be true or false");
  return fallback;
}

std::string GgufFields::String(std::string_view key, std::string_view fallback) {
  const GgufValue* value = Find(key);
  if (value == nullptr) return std::string(fallback);
  if (const auto* v = std::get_if<std::string_view>(value)) return std::string(*v);
  Invalid(key, "it must be a string");
  return std::string(fallback);
}

}  // namespace luna::model
