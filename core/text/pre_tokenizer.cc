#include "core/text/pre_tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/absl_view.h"

namespace luna::text {
namespace {

constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
    R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
// SmolLM first isolates every numeral and then applies GPT-2's pattern to what lies between, so
// that a numeral is also an end of text to the look-ahead: all spaces in front of it stay together.
constexpr std::string_view kSmolLmPattern =
    R"(\p{N}|'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?![^\s\p{N}])|\s+)";

struct NamedPattern {
  std::string_view name;
  std::string_view pattern;
};
constexpr NamedPattern kPatterns[] = {
    {"gpt-2", kGpt2Pattern},    {"smollm", kSmolLmPattern},   {"llama-bpe", kLlama3Pattern},
    {"llama3", kLlama3Pattern}, {"llama-v3", kLlama3Pattern}, {"qwen2", kQwen2Pattern},
};

// \s as the reference's engines have it: Unicode's White_Space. PCRE2's own adds U+180E.
std::string WithWhiteSpaceSpelledOut(std::string_view pattern) {
  constexpr std::string_view kSpaces = R"(\t-\r\x{85}\p{Z})";
  std::string spelled = absl::StrReplaceAll(
      AbslView(pattern), {{R"([^\s)", absl::StrCat("[^", AbslView(kSpaces))},
                          {R"(\s)", absl::StrCat("[", AbslView(kSpaces), "]")},
                          {R"(\S)", absl::StrCat("[^", AbslView(kSpaces), "]")}});
  return spelled;
}

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

std::string ErrorText(int code) {
  PCRE2_UCHAR text[128] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

class PcrePreTokenizer final : public PreTokenizer {
 public:
  explicit PcrePreTokenizer(std::unique_ptr<pcre2_code, FreeCode> code) : code_(std::move(code)) {}

  absl::Status Split(std::string_view text, std::vector<size_t>& ends) const override {
    const std::unique_ptr<pcre2_match_data, FreeMatchData> match(
        pcre2_match_data_create(1, nullptr));
    if (match == nullptr) return absl::ResourceExhaustedError("no memory for the pattern engine");
    ends.clear();
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    for (size_t offset = 0; offset < text.size();) {
      // The caller has validated the text; validating it again at each match would be quadratic.
      const int rc = pcre2_match(code_.get(), subject, text.size(), offset, PCRE2_NO_UTF_CHECK,
                                 match.get(), nullptr);
      if (rc == PCRE2_ERROR_NOMATCH) break;
      if (rc < 0) {
        return absl::InternalError(absl::StrCat("splitting the text failed at byte ", offset,
                                                " of ", text.size(), ": ", ErrorText(rc)));
      }
      const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
      if (range[0] > offset) ends.push_back(range[0]);
      if (range[1] <= range[0]) return absl::InternalError("the splitting pattern matched nothing");
      ends.push_back(range[1]);
      offset = range[1];
    }
    if (!text.empty() && (ends.empty() || ends.back() != text.size())) ends.push_back(text.size());
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PreTokenizer>> PreTokenizer::Create(std::string_view name) {
  for (const NamedPattern& known : kPatterns) {
    if (known.name != name) continue;
    const std::string pattern = WithWhiteSpaceSpelledOut(known.pattern);
    int error = 0;
    PCRE2_SIZE error_offset = 0;
    std::unique_ptr<pcre2_code, FreeCode> code(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                      PCRE2_UTF | PCRE2_UCP, &error, &error_offset, nullptr));
    if (code == nullptr) {
      return absl::InternalError(absl::StrCat("the pattern of pre-tokenizer ", AbslView(name),
                                              " does not compile: ", ErrorText(error)));
    }
    // Without JIT (a hardened kernel may forbid it) matching is slower and the same.
    pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    return std::make_unique<PcrePreTokenizer>(std::move(code));
  }
  return absl::UnimplementedError(
      absl::StrCat("pre-tokenizer \"", AbslView(name),
                   "\" is not supported; gpt-2, smollm, llama-bpe and qwen2 are"));
}

std::string_view PreTokenizerForPattern(std::string_view pattern) {
  for (const NamedPattern& known : kPatterns) {
    if (known.pattern == pattern) return known.name;
  }
  return {};
}

}  // namespace luna::text
