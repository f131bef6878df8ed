// The engine with its thread, and four others that ask. Run under ThreadSanitizer.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

using fakes::Ask;
using testing::IsEmpty;

class ThreadTest : public ::testing::Test {
 protected:
  ThreadTest() : backend_(128), layout_(kv::MakeLayout(std::vector<int>{0, 0}, 4, 16)) {
    EXPECT_TRUE(backend_.AllocateKv(layout_, 120).ok());
    backend_.set_depth(fakes::UsualDepth());
    EngineOptions options;
    options.layout = layout_;
    options.num_blocks = 120;
    options.max_batch_tokens = 64;
    engine_ = std::make_unique<Engine>(options, &backend_, &tokenizer_, &clock_,
                                       [this] { ++published_; });
  }

  // Blocks until the generation has ended; a reader like any other.
  struct Waiter {
    std::mutex mutex;
    std::condition_variable changed;
    bool woken = false;
    std::shared_ptr<TokenStream> stream = std::make_shared<TokenStream>([this] {
      std::lock_guard lock(mutex);
      woken = true;
      changed.notify_one();
    });

    TokenStream::Taken Wait(std::vector<TokenId>& tokens) {
      TokenStream::Taken taken;
      while (true) {
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [this] { return woken; });
          woken = false;
        }
        stream->TakeAll(taken);
        tokens.insert(tokens.end(), taken.delta.tokens.begin(), taken.delta.tokens.end());
        if (taken.finished.has_value() || taken.rejected.has_value()) return taken;
      }
    }
  };

  template <typename T>
  struct Reply {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<absl::StatusOr<T>> value;

    Engine::Done<T> done() {
      return [this](absl::StatusOr<T> result) {
        std::lock_guard lock(mutex);
        value = std::move(result);
        changed.notify_one();
      };
    }
    absl::StatusOr<T> Wait() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return value.has_value(); });
      return *value;
    }
  };

  fakes::FakeBackend backend_;
  fakes::FakeTokenizer tokenizer_;
  SystemClock clock_;
  const kv::KvLayout layout_;
  std::atomic<int> published_ = 0;
  std::unique_ptr<Engine> engine_;
};

TEST_F(ThreadTest, FourThreadsAskAtOnceAndEverybodyIsAnswered) {
  engine_->Start();
  std::atomic<int> finished = 0, cancelled = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, &finished, &cancelled] {
      Reply<SessionInfo> created;
      engine_->CreateSession({}, created.done());
      const std::string key = created.Wait()->key;
      for (int i = 0; i < 12; ++i) {
        Request request = Ask(absl::StrCat("thread ", t, " asks ", i), 8, i % 2 == 0 ? key : "");
        request.stopping.ignore_eos = true;
        Waiter waiter;
        engine_->Submit(request, waiter.stream);
        if (i % 5 == 4) waiter.stream->RequestCancel();
        std::vector<TokenId> tokens;
        const TokenStream::Taken end = waiter.Wait(tokens);
        if (end.rejected.has_value()) {  // a session's context is full after a while
          EXPECT_EQ(end.rejected->code(), absl::StatusCode::kOutOfRange) << *end.rejected;
          Reply<SessionInfo> reset;
          engine_->ResetSession(key, 0, reset.done());
          EXPECT_TRUE(reset.Wait().ok());
        } else if (end.finished->reason == FinishReason::kCancelled) {
          ++cancelled;
        } else {
          EXPECT_EQ(tokens.size(), 8u);
          ++finished;
        }
        Reply<Snapshot> snapshot;
        engine_->TakeSnapshot(snapshot.done());
        const Snapshot picture = *snapshot.Wait();
        EXPECT_EQ(
            picture.pool.free_blocks + picture.pool.cached_blocks + picture.pool.charged_blocks,
            120);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(finished, 4 * 8);
  Reply<std::vector<std::string>> differences;
  engine_->CheckInvariants(differences.done());
  EXPECT_THAT(*differences.Wait(), IsEmpty());
  engine_->Stop();
  EXPECT_GT(published_, 0);
  EXPECT_THAT(backend_.faults(), IsEmpty());
}

TEST_F(ThreadTest, StopWhileEverybodyAsksAnswersEverybody) {
  engine_->Start();
  std::vector<std::thread> threads;
  std::atomic<int> answered = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, &answered] {
      for (int i = 0; i < 40; ++i) {
        Request request = Ask("abc", 30);
        request.stopping.ignore_eos = true;
        Waiter waiter;
        engine_->Submit(request, waiter.stream);
        std::vector<TokenId> tokens;
        waiter.Wait(tokens);
        if (++answered == 20) engine_->Drain([](absl::StatusOr<uint32_t>) {});
      }
    });
  }
  while (answered < 40) std::this_thread::yield();
  engine_->Stop();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 160);
}

}  // namespace
}  // namespace luna::engine
