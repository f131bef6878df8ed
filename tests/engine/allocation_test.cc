// A steady tick allocates nothing on the heap. A program of its own: it counts operator new.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/allocation_counter.h"
#include "tests/fakes/engine_bench.h"

namespace luna::engine {
namespace {

struct Shape {
  std::vector<int> windows;
  int depth;
};

class AllocationTest : public ::testing::TestWithParam<Shape> {};

TEST_P(AllocationTest, ASteadyTickAllocatesNothing) {
  fakes::FakeBackend backend(600);
  const kv::KvLayout layout = kv::MakeLayout(GetParam().windows, 16, 16);
  ASSERT_TRUE(backend.AllocateKv(layout, 4000).ok());
  backend.set_depth(GetParam().depth);
  fakes::FakeTokenizer tokenizer;
  FakeClock clock;
  EngineOptions options;
  options.layout = layout;
  options.num_blocks = 4000;
  Engine engine(options, &backend, &tokenizer, &clock);

  std::vector<std::shared_ptr<TokenStream>> streams;
  for (int i = 0; i < 30; ++i) {
    Request request = fakes::Ask(absl::StrCat("student ", i), 500);
    request.stopping.ignore_eos = true;
    if (i % 2 == 0) request.stopping.stop = {"never said", "nor this"};
    streams.push_back(std::make_shared<TokenStream>());
    engine.Submit(std::move(request), streams.back());
  }
  for (int i = 0; i < 5; ++i) engine.Tick();
  const int64_t before = AllocationCount();
  for (int i = 0; i < 400; ++i) {  // through many new blocks, with readers who do not read
    clock.Advance(absl::Milliseconds(10));
    engine.Tick();
  }
  EXPECT_EQ(AllocationCount() - before, 0);
  EXPECT_EQ(backend.steps_ahead(), GetParam().depth > 1 ? backend.steps() - 1 : 0);
  TokenStream::Taken taken;
  streams[7]->TakeAll(taken);
  EXPECT_EQ(taken.delta.tokens.size(), 405u);
}

INSTANTIATE_TEST_SUITE_P(Layouts, AllocationTest,
                         testing::Values(Shape{{0, 0}, 1}, Shape{{0, 64, 64}, 1}, Shape{{0, 0}, 2},
                                         Shape{{0, 64, 64}, 2}));

}  // namespace
}  // namespace luna::engine
