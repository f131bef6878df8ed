// What luna-server is asked for on its command line.
#ifndef LUNA_SERVER_OPTIONS_H_
#define LUNA_SERVER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/backend/backend.h"
#include "core/engine/session_info.h"
#include "server/listen_address.h"

namespace luna::server {

// A default of 0 in bytes, threads or context means: computed when the model is known.
struct Options {
  std::string model;
  std::string model_name;  // empty: from the model
  ListenAddress listen{.host = "127.0.0.1", .port = 50051};
  bool allow_remote = false;
  std::string backend = "auto";
  int threads = 0;
  std::optional<backend::WeightsFormat> weights;  // unset: the backend's fastest
  std::optional<backend::KvDtype> kv_dtype;       // likewise
  std::string code_path;  // of the cpu backend; empty: the fastest that this machine has
  int context = 0;        // tokens; a cap on the model's own
  bool no_kv_cache = false;
  int64_t kv_cache_bytes = 0;
  int block_tokens = 16;
  int max_batch_tokens = 512;
  int max_sessions = 64;
  int64_t session_quota_bytes = 0;
  int64_t session_guarantee_bytes = 0;
  engine::PrefixSharing prefix_sharing = engine::PrefixSharing::kPeer;
  absl::Duration session_idle_timeout = absl::Minutes(30);
  int queue_limit = 256;
  std::string state_dir;  // empty: nothing is saved
  bool autosave = false;  // of every session, after each turn
  absl::Duration state_ttl = absl::Hours(24) * 30;
  std::optional<uint64_t> seed;  // unset: chosen at start
  std::string log_level = "info";
  absl::Duration drain_timeout = absl::Seconds(30);
};

// What a command line asks for: to serve, or to print something on standard output and leave.
using Parsed = std::variant<Options, std::string>;

// INVALID_ARGUMENT names the flag, its value and what it takes.
absl::StatusOr<Parsed> ParseOptions(int argc, const char* const* argv);

// "1048576", "512K", "2G": powers of 1024. At least 1.
absl::StatusOr<int64_t> ParseBytes(std::string_view text);

}  // namespace luna::server

#endif  // LUNA_SERVER_OPTIONS_H_
