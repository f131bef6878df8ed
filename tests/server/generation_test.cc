// What becomes of a generation before the engine sees it, while it waits to be turned into tokens.
#include "server/rpc/generation.h"

#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "core/base/clock.h"
#include "core/base/status_details.h"
#include "core/engine/engine.h"
#include "core/model/model.h"
#include "server/rpc/host.h"
#include "server/rpc/serving.h"
#include "tests/fakes/fake_backend.h"
#include "tests/fakes/fake_tokenizer.h"

namespace luna::rpc {
namespace {

// The part of a call that a Generation needs. It ends by what `ended` gets: OK if it finished.
class FakeCall final : public EventLoop::Reader, public std::enable_shared_from_this<FakeCall> {
 public:
  FakeCall(Host* host, v1::GenerateRequest request)
      : generation_(host), request_(std::move(request)) {}

  // Writer thread.
  void Begin() { generation_.Begin(&request_, context_, shared_from_this()); }
  void Leave() { generation_.Cancel(); }
  void OnReady() override {
    if (generation_.over()) return;
    const engine::TokenStream::Taken& taken = generation_.Take(0);
    if (taken.rejected) ended_.set_value(*taken.rejected);
    if (taken.finished) ended_.set_value(absl::OkStatus());
  }

  // Any thread, once.
  absl::Status WaitForEnd() { return ended_.get_future().get(); }

 private:
  Generation generation_;
  const v1::GenerateRequest request_;
  const grpc::ServerContext context_;
  std::promise<absl::Status> ended_;
};

v1::GenerateRequest Request() {
  v1::GenerateRequest request;
  request.set_request_id("homework");
  request.set_text("abc");
  request.mutable_stopping()->set_max_tokens(2);
  return request;
}

std::unique_ptr<grpc::ServerCompletionQueue> NewQueue() {
  grpc::ServerBuilder builder;
  return builder.AddCompletionQueue();
}

// A host of which both workers are busy until they are let go.
class GenerationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const int windows[] = {0, 0};
    engine::EngineOptions options;
    options.layout = kv::MakeLayout(windows, 4, backend_.token_layer_bytes());
    options.num_blocks = 100;
    ASSERT_TRUE(backend_.AllocateKv(options.layout, options.num_blocks).ok());
    engine_ = std::make_unique<engine::Engine>(options, &backend_, &tokenizer_, &clock_,
                                               [this] { host_.loop().Kick(); });
    engine_->Start();
    auto model = std::make_shared<model::Model>();
    model->config.context_length = 128;
    serving_.model = std::move(model);
    serving_.tokenizer = &tokenizer_;
    serving_.engine = engine_.get();
    host_.Serve(&serving_);
    host_.loop().Start();
    for (const char* lane : {"busy", "busy too"}) {
      ASSERT_TRUE(host_.workers().Run(lane, 0, [this] {
        ++begun_;
        begun_.notify_all();
        go_.wait();
      }));
    }
    for (int begun = 0; begun < kWorkers; begun = begun_) begun_.wait(begun);
  }
  void TearDown() override {
    LetGo();
    engine_->Stop();
    host_.workers().Stop();
    host_.loop().Shutdown();
  }

  void LetGo() {
    if (!std::exchange(let_go_, true)) go_promise_.set_value();
  }
  std::shared_ptr<FakeCall> Begin() {
    auto call = std::make_shared<FakeCall>(&host_, Request());
    host_.loop().RunAndWait([&call] { call->Begin(); });
    return call;
  }
  // How many generations the engine has seen the end of.
  uint64_t Finished() {
    std::promise<uint64_t> finished;
    engine_->TakeSnapshot([&finished](absl::StatusOr<engine::Snapshot> snapshot) {
      finished.set_value(snapshot->load.finished);
    });
    return finished.get_future().get();
  }

  static constexpr int kWorkers = 2;
  Host host_{NewQueue()};
  std::atomic<int> begun_ = 0;
  std::promise<void> go_promise_;
  std::shared_future<void> go_ = go_promise_.get_future().share();
  bool let_go_ = false;
  fakes::FakeBackend backend_{128};
  fakes::FakeTokenizer tokenizer_;
  SystemClock clock_;
  std::unique_ptr<engine::Engine> engine_;
  Serving serving_;
};

TEST_F(GenerationTest, WhoeverLeavesWhileItWaitsForAWorkerCostsNothing) {
  std::shared_ptr<FakeCall> call = Begin();
  host_.loop().RunAndWait([&call] { call->Leave(); });
  LetGo();
  EXPECT_TRUE(absl::IsCancelled(call->WaitForEnd()));
  EXPECT_EQ(Finished(), 0u);
  call.reset();
  EXPECT_TRUE(host_.generations().WaitUntilNone(absl::InfiniteFuture()));
  // Its request_id is free.
  EXPECT_TRUE(Begin()->WaitForEnd().ok());
  EXPECT_EQ(Finished(), 1u);
}

TEST_F(GenerationTest, AFullLaneSaysWhenToTryAgainAndKeepsNoRequestId) {
  // The lane of a caller without an address, as this one is.
  std::promise<void> all_ran;
  const WorkerPool::LaneLimits limits;
  for (size_t i = 1; i < limits.tasks; ++i) ASSERT_TRUE(host_.workers().Run("", 0, [] {}));
  ASSERT_TRUE(host_.workers().Run("", 0, [&all_ran] { all_ran.set_value(); }));
  const absl::Status refused = Begin()->WaitForEnd();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryAfterOf(refused).has_value());
  LetGo();
  all_ran.get_future().wait();
  EXPECT_TRUE(Begin()->WaitForEnd().ok());
  EXPECT_EQ(Finished(), 1u);
}

TEST_F(GenerationTest, WhileTheServerDrainsNothingIsTokenized) {
  host_.SetDraining();
  const absl::Status refused = Begin()->WaitForEnd();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
}

}  // namespace
}  // namespace luna::rpc
