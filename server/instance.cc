#include "server/instance.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "server/backend_choice.h"
#include "server/memory_limit.h"
#include "server/resume.h"
#include "server/rpc/rpc_server.h"
#include "server/state/snapshot_format.h"
#include "server/state/state_directory.h"
#include "server/version.h"

namespace luna::server {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

// The model with a shorter context, if one is asked for. Weights stay shared.
absl::StatusOr<std::shared_ptr<const model::Model>> CapContext(
    std::shared_ptr<const model::Model> model, int context) {
  const int own = model->config.context_length;
  if (context == 0 || context == own) return model;
  if (context > own) {
    return absl::InvalidArgumentError(
        absl::StrCat("--context: ", context, " is more than the model's ", own));
  }
  auto capped = std::make_shared<model::Model>(*model);
  capped->config.context_length = context;
  if (capped->config.learned_positions) capped->weights.position_embedding.rows = context;
  return capped;
}

uint64_t RandomSeed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// What begins every conversation that brings no opening of its own.
absl::StatusOr<std::vector<TokenId>> DefaultOpening(const text::Tokenizer& tokenizer,
                                                    const text::ChatTemplate* chat) {
  if (chat != nullptr) {
    const text::ChatMessage message{text::Role::kUser, ""};
    LUNA_ASSIGN_OR_RETURN(text::RenderedTurn turn, chat->RenderTurn({&message, 1}));
    return std::move(turn.opening);
  }
  const text::TokenizerData& data = tokenizer.data();
  if (data.add_bos && data.bos.has_value()) return std::vector<TokenId>{*data.bos};
  return std::vector<TokenId>{};
}

size_t LongestTokenBytes(const text::Tokenizer& tokenizer) {
  size_t longest = 1;
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    longest = std::max(longest, tokenizer.TokenBytes(id, /*show_special=*/true).size());
  }
  return longest;
}

// Of any session: tokens and text are bounded by the context, the system prompt by the message that
// brings it, a bias by the vocabulary.
size_t MaxSnapshotBytes(const rpc::Serving& serving) {
  const auto context = static_cast<size_t>(serving.context());
  const auto vocabulary = static_cast<size_t>(serving.model->config.vocab_size);
  constexpr size_t kTokenBytes = 3 * sizeof(TokenId);  // in history, after_system, the opening
  constexpr size_t kTurnBytes = 64;                    // beside its text; each has a token
  constexpr size_t kReplacement = 3;                   // U+FFFD for a byte that is not UTF-8
  constexpr size_t kBiasBytes = sizeof(TokenId) + sizeof(float);
  constexpr size_t kRest = size_t{64} << 10;  // labels, names, numbers
  const size_t text = context * serving.longest_token_bytes * kReplacement;
  return std::min(state::kMaxSnapshotBytes, context * (kTokenBytes + kTurnBytes) + text +
                                                vocabulary * kBiasBytes +
                                                size_t{rpc::kMaxReceiveBytes} + kRest);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Instance>> Instance::Load(const Options& options,
                                                         std::function<void()> on_published) {
  std::unique_ptr<Instance> instance(new Instance());
  LUNA_RETURN_IF_ERROR(instance->OpenState(options));
  LUNA_RETURN_IF_ERROR(instance->LoadModel(options));
  LUNA_RETURN_IF_ERROR(instance->MakeBackend(options));
  LUNA_ASSIGN_OR_RETURN(std::vector<TokenId> opening,
                        DefaultOpening(*instance->tokenizer_, instance->chat_.get()));
  instance->MakeEngine(options, std::move(opening), std::move(on_published));
  if (instance->keeper_ != nullptr) {
    LUNA_RETURN_IF_ERROR(ResumeSessions(*instance->keeper_, *instance->engine_));
  }
  return instance;
}

Instance::~Instance() { Stop(); }

void Instance::Stop() {
  if (engine_ != nullptr) engine_->Stop();
  if (keeper_ != nullptr) keeper_->Stop();
}

absl::Status Instance::OpenState(const Options& options) {
  if (options.state_dir.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<state::StateDirectory>> directory =
      state::StateDirectory::Open(options.state_dir);
  if (!directory.ok()) {
    return absl::Status(directory.status().code(),
                        absl::StrCat("--state-dir: ", directory.status().message()));
  }
  // A few generations of those that may live.
  const size_t max_keyed = std::max<size_t>(1024, 8 * static_cast<size_t>(options.max_sessions));
  keeper_ = std::make_unique<state::StateKeeper>(
      *std::move(directory), &clock_,
      state::KeeperOptions{.ttl = options.state_ttl, .max_keyed = max_keyed});
  return absl::OkStatus();
}

absl::Status Instance::LoadModel(const Options& options) {
  LUNA_ASSIGN_OR_RETURN(std::shared_ptr<const model::Model> model, model::LoadModel(options.model));
  LUNA_ASSIGN_OR_RETURN(model_, CapContext(std::move(model), options.context));
  LUNA_ASSIGN_OR_RETURN(tokenizer_, text::Tokenizer::Create(model_->tokenizer));
  absl::StatusOr<std::unique_ptr<text::ChatTemplate>> chat =
      text::ChatTemplate::Create(tokenizer_.get());
  if (chat.ok()) {
    chat_ = *std::move(chat);
  } else if (absl::IsUnimplemented(chat.status())) {
    spdlog::warn("{}: served as plain text", chat.status().ToString());
  } else {
    return chat.status();
  }
  const model::ModelConfig& config = model_->config;
  spdlog::info("model {}: {}, {} layers x {}, vocabulary {}, context {}, {} ({:.1f} MiB)",
               config.name, std::string(model::ArchitectureName(config.architecture)),
               config.num_layers, config.hidden_size, config.vocab_size, config.context_length,
               model_->source, static_cast<double>(model_->weights_bytes) / kMiB);
  return absl::OkStatus();
}

absl::Status Instance::MakeBackend(const Options& options) {
  LUNA_ASSIGN_OR_RETURN(backend_,
                        MakeChosenBackend(options, model_, [&](backend::Backend& backend) {
                          return MakePool(options, backend);
                        }));
  const backend::BackendInfo& info = backend_->info();
  spdlog::info("backend {}: {}{}", info.name, info.device.empty() ? "" : info.device + ", ",
               info.numerics);
  spdlog::info(
      "KV cache: {} blocks of {} tokens and {} bytes, {:.1f} MiB: {:.1f} sessions of full context",
      pool_size_.num_blocks, layout_.block_tokens, layout_.block_bytes(),
      static_cast<double>(pool_size_.bytes) / kMiB, pool_size_.full_sessions());
  if (const auto use = backend_->device_memory(); use.has_value()) {
    spdlog::info("device memory: {:.1f} of {:.1f} MiB free, as its driver says",
                 static_cast<double>(use->free_bytes) / kMiB,
                 static_cast<double>(use->total_bytes) / kMiB);
  }
  return absl::OkStatus();
}

absl::Status Instance::MakePool(const Options& options, backend::Backend& backend) {
  const std::optional<backend::DeviceMemoryUse> device = backend.device_memory();
  std::vector<int> windows;
  for (const model::LayerConfig& layer : model_->config.layers) {
    windows.push_back(layer.sliding_window);
  }
  layout_ = kv::MakeLayout(windows, options.block_tokens, backend.token_layer_bytes());
  LUNA_ASSIGN_OR_RETURN(
      pool_size_,
      ChoosePoolSize(layout_, {.kv_cache_bytes = options.kv_cache_bytes,
                               .available_bytes =
                                   device.has_value() ? device->free_bytes : AvailableMemoryBytes(),
                               .context = model_->config.context_length,
                               .max_batch_tokens = options.max_batch_tokens,
                               .max_sessions = options.max_sessions}));
  if (options.session_quota_bytes > 0 && options.session_quota_bytes < layout_.block_bytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--session-quota-bytes: ", options.session_quota_bytes,
                     " is less than one block of ", layout_.block_bytes(), " bytes"));
  }
  LUNA_RETURN_IF_ERROR(CheckGuarantee(options));
  return backend.AllocateKv(layout_, pool_size_.num_blocks);
}

absl::Status Instance::CheckGuarantee(const Options& options) const {
  if (options.session_guarantee_bytes == 0) return absl::OkStatus();
  const int64_t context_bytes = pool_size_.context_blocks * layout_.block_bytes();
  const int64_t quota =
      options.session_quota_bytes > 0 ? options.session_quota_bytes : context_bytes;
  const int64_t most = std::min(pool_size_.bytes - context_bytes, quota);
  if (options.session_guarantee_bytes <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--session-guarantee-bytes: ", options.session_guarantee_bytes, " is more than ",
                   most, ": a session's quota, or what the pool has beside one full context"));
}

void Instance::MakeEngine(const Options& options, std::vector<TokenId> opening,
                          std::function<void()> on_published) {
  engine::EngineOptions engine_options;
  engine_options.layout = layout_;
  engine_options.num_blocks = pool_size_.num_blocks;
  engine_options.max_batch_tokens = options.max_batch_tokens;
  engine_options.max_sessions = options.max_sessions;
  engine_options.session_idle_timeout = options.session_idle_timeout;
  engine_options.queue_limit = options.queue_limit;
  engine_options.default_quota_bytes = options.session_quota_bytes > 0
                                           ? options.session_quota_bytes
                                           : pool_size_.context_blocks * layout_.block_bytes();
  engine_options.default_guarantee_bytes = options.session_guarantee_bytes;
  engine_options.prefix_sharing = options.prefix_sharing;
  engine_options.model_digest = model_->digest;
  engine_options.seed = options.seed.has_value() ? *options.seed : RandomSeed();
  if (options.autosave) {
    engine_options.on_changed = [keeper = keeper_.get()](engine::SavedSession session) {
      keeper->AutoSave(std::move(session));
    };
  }
  engine_options.keep_kv = !options.no_kv_cache;
  engine_options.default_opening = opening;
  if (chat_ != nullptr) engine_options.markers = chat_->markers();

  serving_.name = options.model_name.empty() ? model_->config.name : options.model_name;
  serving_.server_version = kVersion;
  serving_.model = model_;
  serving_.backend = backend_->info();
  serving_.layout = layout_;
  serving_.tokenizer = tokenizer_.get();
  serving_.chat = chat_.get();
  serving_.has_opening = !opening.empty();
  serving_.longest_token_bytes = LongestTokenBytes(*tokenizer_);
  serving_.max_quota_bytes = engine_options.default_quota_bytes;
  serving_.max_snapshot_bytes = MaxSnapshotBytes(serving_);
  serving_.keeper = keeper_.get();

  engine_ = std::make_unique<engine::Engine>(std::move(engine_options), backend_.get(),
                                             tokenizer_.get(), &clock_, std::move(on_published));
  serving_.engine = engine_.get();
  engine_->Start();
}

}  // namespace luna::server
