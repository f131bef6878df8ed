#include "server/options.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "server/version.h"

namespace luna::server {
namespace {

// What CLI11 fills in: flags whose form it does not know stay text.
struct Raw {
  std::string listen = "127.0.0.1:50051";
  std::string kv_cache_bytes;
  std::string session_quota_bytes;
  std::string weights = "auto", kv_dtype = "auto";
  std::string session_guarantee_bytes;
  std::string prefix_sharing = "peer";
  std::string session_idle_timeout = "30m";
  std::string drain_timeout = "30s";
  std::string seed;
  std::string autosave = "turn";
  std::string state_ttl = "720h";
};

// CLI11's own messages do not always say the limits.
CLI::Validator InRange(int64_t low, int64_t high) {
  const std::string limits = absl::StrCat("[", low, ", ", high, "]");
  return CLI::Validator(
      [low, high, limits](std::string& text) -> std::string {
        int64_t value = 0;
        if (absl::SimpleAtoi(text, &value) && value >= low && value <= high) return "";
        return absl::StrCat("'", text, "' is not a whole number in ", limits);
      },
      limits);
}

CLI::Validator OneOf(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) absl::StrAppend(&list, list.empty() ? "" : "|", name);
  return CLI::Validator(
      [names, list](std::string& text) -> std::string {
        for (const std::string& name : names) {
          if (text == name) return "";
        }
        return absl::StrCat("'", text, "' is not one of ", list);
      },
      list);
}

void AddModelFlags(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--model", options.model,
                 "A Hugging Face directory, a .gguf file, or dummy:luna, dummy:smollm2-135m; "
                 "models/luna-tiny is a good first one. Required")
      ->type_name("PATH");
  app.add_option("--model-name", options.model_name, "The name clients see (default: the model's)")
      ->type_name("NAME");
  app.add_option("--context", options.context,
                 "Tokens a conversation may have; 0: what the model has")
      ->check(InRange(0, 1 << 24))
      ->type_name("TOKENS")
      ->capture_default_str();
  app.add_option(
         "--backend", options.backend,
         "What computes: cuda (a GPU), cpu, reference (plain and slow), or auto: cuda where "
         "there is a GPU, else cpu")
      ->check(OneOf({"auto", "cuda", "cpu", "reference"}))
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads that compute; 0: every core it may use")
      ->check(InRange(0, 1024))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--weights", raw.weights,
         "What weights are kept in: f32, bf16 (half the memory), int8 (a quarter), int4 (the "
         "file's "
         "own 4 bits where it has Q4_0 or Q4_1, int8 elsewhere), or what is fastest with these "
         "instructions")
      ->check(OneOf({"auto", "f32", "bf16", "int8", "int4"}))
      ->type_name("FORMAT")
      ->capture_default_str();
  app.add_option("--kv-dtype", raw.kv_dtype,
                 "What keys and values are kept in: f32, bf16 (half the memory), int8 (a quarter), "
                 "or what is fastest with these instructions")
      ->check(OneOf({"auto", "f32", "bf16", "int8"}))
      ->type_name("DTYPE")
      ->capture_default_str();
  app.add_option("--cpu", options.code_path,
                 "Instructions that the cpu backend uses (default: the best this machine has)")
      ->type_name("PATH");
  app.add_flag("--no-kv-cache", options.no_kv_cache,
               "Keep no keys and values: compute the whole text anew at each step");
}

void AddMemoryFlags(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--kv-cache-bytes", raw.kv_cache_bytes,
                 "Memory for keys and values, with K, M or G (default: max-sessions times the "
                 "context, at most half of what the weights leave)")
      ->type_name("BYTES");
  app.add_option("--block-tokens", options.block_tokens, "Tokens in one block of it")
      ->check(InRange(1, 1024))
      ->type_name("TOKENS")
      ->capture_default_str();
  app.add_option("--session-quota-bytes", raw.session_quota_bytes,
                 "Of it, what one session may hold (default: one full context)")
      ->type_name("BYTES");
  app.add_option("--session-guarantee-bytes", raw.session_guarantee_bytes,
                 "Of it, what is kept for each session while it lives (default: nothing)")
      ->type_name("BYTES");
  app.add_option("--prefix-sharing", raw.prefix_sharing,
                 "Who shares the memory of texts that begin alike: all that use the server, those "
                 "of one address (peer), or each session with its own forks alone")
      ->check(OneOf({"server", "peer", "session"}))
      ->type_name("SCOPE")
      ->capture_default_str();
}

void AddLoadFlags(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--max-batch-tokens", options.max_batch_tokens,
                 "Tokens computed in one step: bounds how long a long prompt delays the others")
      ->check(InRange(1, 65536))
      ->type_name("TOKENS")
      ->capture_default_str();
  app.add_option("--max-sessions", options.max_sessions, "Sessions that may exist at once")
      ->check(InRange(1, 100'000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option(
         "--session-idle-timeout", raw.session_idle_timeout,
         "Where they are all taken, one that has been idle for so long makes room; inf: never")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option("--queue-limit", options.queue_limit, "Generations that may wait at once")
      ->check(InRange(1, 1'000'000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--seed", raw.seed, "From which unset seeds of requests come (default: random)")
      ->type_name("N");
}

// What --autosave and --state-ttl mean nothing without.
void AddStateFlags(CLI::App& app, Options& options, Raw& raw) {
  CLI::Option* directory =
      app.add_option("--state-dir", options.state_dir,
                     "Where sessions are saved, to go on after a restart: a directory of this "
                     "server's own, for its user alone (default: nowhere)")
          ->type_name("PATH");
  app.add_option("--autosave", raw.autosave,
                 "With it, when: after every turn, or when a client asks for it (off)")
      ->check(OneOf({"off", "turn"}))
      ->needs(directory)
      ->type_name("WHEN")
      ->capture_default_str();
  app.add_option("--state-ttl", raw.state_ttl,
                 "With it, for how long after a session was last saved; inf: for ever")
      ->needs(directory)
      ->type_name("DURATION")
      ->capture_default_str();
}

void AddServerFlags(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--listen", raw.listen, "Where to listen; port 0: a free one")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  app.add_flag("--allow-remote", options.allow_remote,
               "Listen on an address that other machines reach: anybody there may use the server");
  app.add_option("--drain-timeout", raw.drain_timeout,
                 "How long live answers may go on after SIGTERM")
      ->type_name("DURATION")
      ->capture_default_str();
  app.add_option("--log-level", options.log_level, "What is logged on standard error")
      ->check(OneOf({"trace", "debug", "info", "warn", "error", "off"}))
      ->type_name("LEVEL")
      ->capture_default_str();
}

absl::Status BadFlag(std::string_view flag, std::string_view value, std::string_view takes) {
  return absl::InvalidArgumentError(
      absl::StrCat(AbslView(flag), ": '", AbslView(value), "' is not ", AbslView(takes)));
}

absl::Status ReadBytes(std::string_view flag, const std::string& text, int64_t& out) {
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<int64_t> bytes = ParseBytes(text);
  if (!bytes.ok()) {
    return BadFlag(flag, text, "a number of bytes, at least 1, alone or with K, M or G");
  }
  out = *bytes;
  return absl::OkStatus();
}

absl::Status ReadRaw(const Raw& raw, Options& options) {
  LUNA_ASSIGN_OR_RETURN(options.listen, ParseListenAddress(raw.listen));
  LUNA_RETURN_IF_ERROR(ReadBytes("--kv-cache-bytes", raw.kv_cache_bytes, options.kv_cache_bytes));
  LUNA_RETURN_IF_ERROR(
      ReadBytes("--session-quota-bytes", raw.session_quota_bytes, options.session_quota_bytes));
  LUNA_RETURN_IF_ERROR(ReadBytes("--session-guarantee-bytes", raw.session_guarantee_bytes,
                                 options.session_guarantee_bytes));
  options.prefix_sharing = raw.prefix_sharing == "server"    ? engine::PrefixSharing::kServer
                           : raw.prefix_sharing == "session" ? engine::PrefixSharing::kSession
                                                             : engine::PrefixSharing::kPeer;
  for (const auto format : backend::kWeightsFormats) {
    if (raw.weights == backend::WeightsFormatName(format)) options.weights = format;
  }
  for (const auto dtype :
       {backend::KvDtype::kF32, backend::KvDtype::kBf16, backend::KvDtype::kInt8}) {
    if (raw.kv_dtype == backend::KvDtypeName(dtype)) options.kv_dtype = dtype;
  }
  if (!raw.seed.empty()) {
    uint64_t seed = 0;
    if (!absl::SimpleAtoi(raw.seed, &seed)) {
      return BadFlag("--seed", raw.seed, "a whole number in [0, 2^64)");
    }
    options.seed = seed;
  }
  if (!absl::ParseDuration(raw.session_idle_timeout, &options.session_idle_timeout) ||
      options.session_idle_timeout < absl::ZeroDuration()) {
    return BadFlag("--session-idle-timeout", raw.session_idle_timeout,
                   "a duration of at least 0, such as 30m, or inf");
  }
  if (!absl::ParseDuration(raw.drain_timeout, &options.drain_timeout) ||
      options.drain_timeout < absl::ZeroDuration() || options.drain_timeout > absl::Hours(24)) {
    return BadFlag("--drain-timeout", raw.drain_timeout, "a duration in [0, 24h], such as 30s");
  }
  options.autosave = !options.state_dir.empty() && raw.autosave == "turn";
  if (!absl::ParseDuration(raw.state_ttl, &options.state_ttl) ||
      options.state_ttl <= absl::ZeroDuration()) {
    return BadFlag("--state-ttl", raw.state_ttl, "a duration above 0, such as 720h, or inf");
  }
  return absl::OkStatus();
}

// The reference backend has no other.
template <typename Format>
absl::Status CheckF32(std::string_view flag, std::optional<Format> format, std::string_view name) {
  if (format.value_or(Format::kF32) == Format::kF32) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(AbslView(flag), ": '", AbslView(name),
                                                 "': the reference backend keeps f32 alone"));
}

absl::Status CheckTogether(const Options& options, const Raw& raw) {
  if (options.model.empty()) {
    return absl::InvalidArgumentError(
        "--model: is required; for a first try: --model models/luna-tiny");
  }
  if (!options.listen.IsLoopback() && !options.allow_remote) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen: '", options.listen.ToString(),
                     "' can be reached from other machines; that takes --allow-remote too"));
  }
  if (options.backend == "reference") {
    LUNA_RETURN_IF_ERROR(CheckF32("--weights", options.weights, raw.weights));
    LUNA_RETURN_IF_ERROR(CheckF32("--kv-dtype", options.kv_dtype, raw.kv_dtype));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(std::string_view text) {
  int64_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        unit = int64_t{1} << 10;
        break;
      case 'm':
      case 'M':
        unit = int64_t{1} << 20;
        break;
      case 'g':
      case 'G':
        unit = int64_t{1} << 30;
        break;
      default:
        break;
    }
    if (unit > 1) text.remove_suffix(1);
  }
  int64_t value = 0;
  if (!absl::SimpleAtoi(AbslView(text), &value) || value < 1 ||
      value > std::numeric_limits<int64_t>::max() / unit) {
    return absl::InvalidArgumentError("not a number of bytes");
  }
  return value * unit;
}

absl::StatusOr<Parsed> ParseOptions(int argc, const char* const* argv) {
  // CLI11 rather than Abseil's flags: a table of our own, without globals, so that --help lists
  // exactly these, a bad value is a status instead of an exit, and tests can call it twice.
  CLI::App app("A server that holds many conversations with one language model.", "luna-server");
  app.set_version_flag("--version", absl::StrCat("luna-server ", kVersion));
  Options options;
  Raw raw;
  AddModelFlags(app, options, raw);
  AddServerFlags(app, options, raw);
  AddMemoryFlags(app, options, raw);
  AddLoadFlags(app, options, raw);
  AddStateFlags(app, options, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& version) {
    return absl::StrCat(version.what(), "\n");
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(error.what());
  }
  LUNA_RETURN_IF_ERROR(ReadRaw(raw, options));
  LUNA_RETURN_IF_ERROR(CheckTogether(options, raw));
  return options;
}

}  // namespace luna::server
