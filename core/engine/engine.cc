#include "core/engine/engine.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/base/status_details.h"
#include "core/engine/engine_impl.h"
#include "core/sched/batch_builder.h"

namespace luna::engine {
namespace {

// Commands, not generations: far more than one tick can bring in, and a bound all the same.
constexpr size_t kInboxCapacity = 4096;
constexpr absl::Duration kInboxRetryAfter = absl::Milliseconds(100);

int64_t QuotaBlocksByDefault(const EngineOptions& options, int context) {
  if (options.default_quota_bytes > 0) {
    return options.default_quota_bytes / options.layout.block_bytes();
  }
  return options.layout.BlocksForTokens(context, options.max_batch_tokens);
}

}  // namespace

Engine::Impl::Impl(EngineOptions options, backend::Backend* backend,
                   const text::Tokenizer* tokenizer, const Clock* clock,
                   std::function<void()> on_published)
    : options_(std::move(options)),
      backend_(backend),
      tokenizer_(tokenizer),
      clock_(clock),
      on_published_(std::move(on_published)),
      default_quota_blocks_(QuotaBlocksByDefault(options_, backend->info().context_length)),
      default_guarantee_blocks_(options_.default_guarantee_bytes / options_.layout.block_bytes()),
      inbox_(kInboxCapacity),
      blocks_(options_.num_blocks),
      scheduler_({.max_batch_tokens = options_.max_batch_tokens,
                  .max_running = options_.max_running,
                  .keep_kv = options_.keep_kv},
                 &options_.layout, &blocks_),
      prefixes_(&options_.layout, &blocks_, options_.prefix_hash_bits),
      sessions_(&options_.layout, &blocks_, options_.keep_kv ? &prefixes_ : nullptr),
      started_(clock->Now()),
      now_(started_) {
  sched::ReserveBatch(options_.layout, options_.max_batch_tokens, options_.max_running,
                      options_.num_blocks, context(), batch_);
  result_.samples.reserve(options_.max_running);
}

void Engine::Impl::Post(Command command) {
  if (inbox_.Push(std::move(command))) return;
  if (inbox_.closed()) return command.refuse(absl::UnavailableError("the server is stopping"));
  command.refuse(WithRetryAfter(
      absl::ResourceExhaustedError("the engine's inbox is full: " + std::to_string(kInboxCapacity) +
                                   " commands wait"),
      kInboxRetryAfter));
}

// What changes sessions finds no step in flight; what it brought has gone out by then.
void Engine::Impl::RunCommands() {
  const auto only_looks = [](const Command& command) { return command.only_looks; };
  if (num_flights_ > 0 && !std::ranges::all_of(commands_, only_looks)) {
    Settle();
    WakeWriter();
  }
  for (Command& command : commands_) command.run();
  commands_.clear();  // what they captured must not outlive this tick
}

bool Engine::Impl::Tick() {
  now_ = clock_->Now();
  inbox_.TakeAll(commands_);
  if (commands_.empty() && live_.empty() && num_flights_ == 0) return false;
  ++tick_;
  RunCommands();
  EndCancelledAndLate();
  RunStep();
  for (Done<Snapshot>& done : std::exchange(snapshot_requests_, {})) done(TakeSnapshot());
  WakeWriter();
  return true;
}

void Engine::Impl::WakeWriter() {
  if (std::exchange(published_, false) && on_published_) on_published_();
}

void Engine::Impl::Start() {
  LUNA_CHECK(!thread_.joinable());
  thread_ = std::thread([this] { Loop(); });
}

// While a generation lives or a step is in flight every tick has something to do, so the thread
// never sleeps on one.
void Engine::Impl::Loop() {
  while (!inbox_.closed()) {
    if (!Tick()) inbox_.Wait();
  }
}

void Engine::Impl::Stop() {
  inbox_.Close();
  if (thread_.joinable()) thread_.join();
  Shutdown();
}

// The engine thread is gone, so this one owns its state now.
void Engine::Impl::Shutdown() {
  const absl::Status stopping = absl::UnavailableError("the server is stopping");
  inbox_.TakeAll(commands_);
  for (Command& command : commands_) command.refuse(stopping);
  commands_.clear();
  for (Done<Snapshot>& done : std::exchange(snapshot_requests_, {})) done(stopping);
  Settle();
  while (!live_.empty()) EndWithError(*live_.begin()->second, stopping);
  WakeWriter();
}

// --- The face. ---

Engine::Engine(EngineOptions options, backend::Backend* backend, const text::Tokenizer* tokenizer,
               const Clock* clock, std::function<void()> on_published)
    : impl_(std::make_unique<Impl>(std::move(options), backend, tokenizer, clock,
                                   std::move(on_published))) {}

Engine::~Engine() { impl_->Stop(); }

void Engine::Submit(Request request, std::shared_ptr<TokenStream> stream) {
  impl_->Post({.run = [impl = impl_.get(), request = std::move(request),
                       stream]() mutable { impl->Submit(std::move(request), std::move(stream)); },
               .refuse = [stream](absl::Status status) { stream->Reject(std::move(status)); }});
}

void Engine::SubmitMany(Request request, std::vector<std::shared_ptr<TokenStream>> streams) {
  impl_->Post({.run = [impl = impl_.get(), request = std::move(request),
                       streams]() mutable { impl->SubmitMany(std::move(request), streams); },
               .refuse =
                   [streams](const absl::Status& status) {
                     for (const auto& stream : streams) stream->Reject(status);
                   }});
}

void Engine::Abort(std::string generation_id, bool keep_partial, Done<bool> done) {
  impl_->Ask<bool>(std::move(done), [impl = impl_.get(), id = std::move(generation_id),
                                     keep_partial] { return impl->Abort(id, keep_partial); });
}

void Engine::CreateSession(SessionSpec spec, Done<SessionInfo> done) {
  impl_->Ask<SessionInfo>(std::move(done), [impl = impl_.get(), spec = std::move(spec)] {
    return impl->CreateSession(spec);
  });
}

void Engine::GetSession(std::string key, Done<SessionInfo> done) {
  impl_->Ask<SessionInfo>(std::move(done), [impl = impl_.get(), key = std::move(key)] {
    return impl->GetSession(key);
  });
}

void Engine::ListSessions(std::string caller, Done<std::vector<SessionInfo>> done) {
  impl_->Ask<std::vector<SessionInfo>>(
      std::move(done),
      [impl = impl_.get(), caller = std::move(caller)] { return impl->ListSessions(caller); });
}

void Engine::UpdateSession(std::string key, SessionUpdate update, Done<SessionInfo> done) {
  impl_->Ask<SessionInfo>(std::move(done),
                          [impl = impl_.get(), key = std::move(key), update = std::move(update)] {
                            return impl->UpdateSession(key, update);
                          });
}

void Engine::ResetSession(std::string key, uint32_t to_turn, Done<SessionInfo> done) {
  impl_->Ask<SessionInfo>(std::move(done), [impl = impl_.get(), key = std::move(key), to_turn] {
    return impl->ResetSession(key, to_turn);
  });
}

void Engine::CloseSession(std::string key, Done<bool> done) {
  impl_->Ask<bool>(std::move(done),
                   [impl = impl_.get(), key = std::move(key)] { return impl->CloseSession(key); });
}

void Engine::ForkSession(std::string key, ForkSpec spec, Done<SessionInfo> done) {
  impl_->Ask<SessionInfo>(std::move(done),
                          [impl = impl_.get(), key = std::move(key), spec = std::move(spec)] {
                            return impl->ForkSession(key, spec);
                          });
}

void Engine::SaveSession(std::string key, Done<SavedSession> done) {
  impl_->Ask<SavedSession>(std::move(done), [impl = impl_.get(), key = std::move(key)] {
    return impl->SaveSession(key);
  });
}

void Engine::RestoreSession(SavedSession saved, RestoreSpec spec, Done<SessionInfo> done) {
  impl_->Ask<SessionInfo>(std::move(done),
                          [impl = impl_.get(), saved = std::move(saved), spec = std::move(spec)] {
                            return impl->RestoreSession(saved, spec);
                          });
}

void Engine::SetLimits(SessionRef session, LimitsUpdate update, Done<SessionLimits> done) {
  impl_->Ask<SessionLimits>(std::move(done), [impl = impl_.get(), session = std::move(session),
                                              update] { return impl->SetLimits(session, update); });
}

void Engine::EvictSession(SessionRef session, bool force, Done<Eviction> done) {
  impl_->Ask<Eviction>(std::move(done), [impl = impl_.get(), session = std::move(session), force] {
    return impl->EvictSession(session, force);
  });
}

void Engine::TakeSnapshot(Done<Snapshot> done) {
  impl_->Post({.run = [impl = impl_.get(), done] { impl->AddSnapshotRequest(done); },
               .refuse = [done](absl::Status status) { done(std::move(status)); },
               .only_looks = true});
}

void Engine::CheckInvariants(Done<std::vector<std::string>> done) {
  impl_->Post({.run = [impl = impl_.get(), done] { done(impl->CheckInvariants()); },
               .refuse = [done](absl::Status status) { done(std::move(status)); },
               .only_looks = true});
}

void Engine::Drain(Done<uint32_t> done) {
  impl_->Ask<uint32_t>(std::move(done), [impl = impl_.get()] { return impl->Drain(); });
}

void Engine::Start() { impl_->Start(); }
void Engine::Stop() { impl_->Stop(); }
bool Engine::Tick() { return impl_->Tick(); }
bool Engine::Idle() const { return impl_->Idle(); }

}  // namespace luna::engine
