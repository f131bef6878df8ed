// What a backend refuses, what it promises about memory and failures.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "core/kv/sequence_kv.h"
#include "tests/backend/backend_cases.h"
#include "tests/backend/random_model.h"
#include "tests/backend/sequence_driver.h"
#include "tests/fakes/allocation_counter.h"

namespace luna::backend {
namespace {

using testing::HasSubstr;

class ContractTest : public testing::TestWithParam<BackendCase> {
 protected:
  std::unique_ptr<Backend> Make(std::shared_ptr<const model::Model> model) const {
    return MustMakeBackend(GetParam(), std::move(model));
  }
  // One sequence of ten tokens computed; returns the step's batch, to be damaged and sent again.
  batch::Batch ValidBatch(SequenceDriver& driver) const {
    static TestSequence sequence;
    sequence = driver.NewSequence(10, 1);
    const Chunk chunks[] = {{&sequence, 10}};
    EXPECT_TRUE(driver.Step(chunks, params_).ok());
    return driver.batch();
  }
  static bool IsCuda() { return GetParam().backend == "cuda"; }
  sample::SamplingParams params_;
};

TEST_P(ContractTest, InfoNamesTheNumerics) {
  const auto model = MakeRandomModel("gemma3");
  const auto backend = Make(model);
  EXPECT_EQ(backend->info().name, GetParam().backend);
  const std::string path = IsCuda()                       ? cuda::TestDevicePath()
                           : GetParam().code_path.empty() ? "reference"
                                                          : GetParam().code_path;
  const std::string weights(WeightsFormatName(GetParam().weights));
  const std::string kv_dtype(KvDtypeName(GetParam().kv_dtype));
  EXPECT_EQ(backend->info().numerics,
            std::string("weights ").append(weights) + ", KV " + kv_dtype + ", path " + path);
  EXPECT_EQ(backend->info().vocab_size, 97);
  EXPECT_EQ(backend->info().context_length, 96);
  EXPECT_GT(backend->info().weights_bytes, 97 * 32);
  const int dims = IsCuda() ? 32 : 24;  // padded
  const int head_bytes = GetParam().kv_dtype == KvDtype::kF32    ? dims * 4
                         : GetParam().kv_dtype == KvDtype::kBf16 ? dims * 2
                                                                 : dims + 4;  // and its scale
  EXPECT_EQ(backend->token_layer_bytes(), 2 * head_bytes);
  EXPECT_EQ(backend->depth(), IsCuda() ? 2 : 1);
}

TEST_P(ContractTest, DamagedBatchesAreRefusedWithTheReason) {
  const auto model = MakeRandomModel("gemma3");
  const auto backend = Make(model);
  SequenceDriver driver(*backend, model->config, 4, 32);
  const batch::Batch valid = ValidBatch(driver);
  struct Damage {
    std::function<void(batch::Batch&)> apply;
    const char* message;
  };
  const Damage damages[] = {
      {[](auto& b) { b.token_ids[3] = 97; }, "token id 97; the vocabulary has 97"},
      {[](auto& b) { b.token_ids[3] = -1; }, "token id -1"},
      {[](auto& b) { b.positions[4] = 5; }, "row 4 has position 5; expected 4"},
      {[](auto& b) { b.positions.pop_back(); }, "9 positions"},
      {[](auto& b) { b.sequence_starts[1] = 9; }, "sequence starts end at 9; there are 10 tokens"},
      {[](auto& b) {
         b.sequence_starts = {0, 1000, 10};
         b.context_lengths.push_back(10);
       },
       "sequence 1 has no token"},
      {[](auto& b) { b.context_lengths[0] = 97; }, "the context is 96"},
      {[](auto& b) { b.block_tables[0] = 32; }, "has block 32 in group 0; the pool has 32"},
      {[](auto& b) { b.block_tables[1] = kv::kNoBlock; }, "has block -1 in group 0"},
      {[](auto& b) { b.block_tables.pop_back(); }, "block table starts"},
      {[](auto& b) {
         b.block_table_starts[1] = 2;
         b.block_table_starts[2] = 2;
       },
       "needs 3 blocks in group 0; its table has 2"},
      {[](auto& b) { b.samples.back().row = 10; }, "sampled row 10"},
      {[](auto& b) { b.samples.back().params = nullptr; }, "sampled row 9"},
      {[](auto& b) { b.token_ids.clear(); }, "0 tokens; between 1 and 256"},
  };
  for (const Damage& damage : damages) {
    batch::Batch batch = valid;
    damage.apply(batch);
    const absl::Status status = backend->Launch(batch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << damage.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(damage.message));
  }
  EXPECT_TRUE(backend->Launch(valid).ok());
}

TEST_P(ContractTest, NoMoreStepsAreInFlightThanItsDepth) {
  const auto model = MakeRandomModel("llama");
  const auto backend = Make(model);
  SequenceDriver driver(*backend, model->config, 16, 8);
  const batch::Batch batch = ValidBatch(driver);
  batch::StepResult result;
  EXPECT_EQ(backend->Collect(result).code(), absl::StatusCode::kFailedPrecondition);
  for (int round = 0; round < 3; ++round) {
    for (int step = 0; step < backend->depth(); ++step) {
      ASSERT_TRUE(backend->Launch(batch).ok());
    }
    EXPECT_EQ(backend->Launch(batch).code(), absl::StatusCode::kFailedPrecondition);
    for (int step = 0; step < backend->depth(); ++step) {
      EXPECT_TRUE(backend->Collect(result).ok());
    }
    EXPECT_EQ(backend->Collect(result).code(), absl::StatusCode::kFailedPrecondition);
  }
}

TEST_P(ContractTest, KvPoolMustFitModelAndMachine) {
  const auto model = MakeRandomModel("llama");
  const auto backend = Make(model);
  kv::KvLayout layout = TestLayout(model->config, 16, *backend);
  batch::Batch batch;
  EXPECT_EQ(backend->Launch(batch).code(), absl::StatusCode::kFailedPrecondition);

  kv::KvLayout wrong = layout;
  wrong.token_layer_bytes = 8;
  EXPECT_EQ(backend->AllocateKv(wrong, 4).code(), absl::StatusCode::kInvalidArgument);
  wrong = layout;
  wrong.groups[0].layers.pop_back();
  EXPECT_EQ(backend->AllocateKv(wrong, 4).code(), absl::StatusCode::kInvalidArgument);

  layout.block_tokens = 1 << 20;  // 128 MiB a layer: more than any machine has in 2^31 blocks
  const absl::Status refused = backend->AllocateKv(layout, std::numeric_limits<int32_t>::max());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("KV pool"));
  layout.block_tokens = 16;
  EXPECT_TRUE(backend->AllocateKv(layout, 4).ok());
  EXPECT_EQ(backend->AllocateKv(layout, 4).code(), absl::StatusCode::kFailedPrecondition);
  const BlockCopy outside[] = {{BlockId(0), BlockId(4)}};
  EXPECT_EQ(backend->CopyBlocks(outside).code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ContractTest, NonFiniteLogitsFailTheirRowAlone) {
  const auto model = MakeRandomModel("llama");
  const auto healthy_backend = Make(model);
  const auto broken_model = MakeRandomModel("llama");
  constexpr TokenId kPoison = 7;
  MutableValues(broken_model->weights.token_embedding)[kPoison * model->config.hidden_size] =
      std::numeric_limits<float>::quiet_NaN();
  const auto backend = Make(broken_model);

  SequenceDriver expected(*healthy_backend, model->config, 16, 32);
  SequenceDriver driver(*backend, model->config, 16, 32);
  std::vector<TestSequence> healthy, mixed;
  for (SequenceDriver* d : {&expected, &driver}) {
    std::vector<TestSequence>& into = d == &expected ? healthy : mixed;
    for (uint32_t seed = 1; seed <= 3; ++seed) {
      into.push_back(d->NewSequence(12, seed));
      std::replace(into.back().tokens.begin(), into.back().tokens.end(), kPoison, 8);
    }
    if (d == &driver) into[1].tokens[5] = kPoison;
    const Chunk chunks[] = {{&into[0], 12}, {&into[1], 12}, {&into[2], 12}};
    ASSERT_TRUE(d->Step(chunks).ok());
  }
  EXPECT_EQ(mixed[0].rows, healthy[0].rows);
  EXPECT_EQ(mixed[2].rows, healthy[2].rows);
  // Rows of one sequence that are computed together may fail together: on the GPU they are
  // multiplied with the same values.
  if (!IsCuda()) {
    EXPECT_TRUE(mixed[1].rows[4].status.ok());
  }
  EXPECT_EQ(mixed[1].rows[5].status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(mixed[1].rows[5].status.message()), HasSubstr("not finite"));

  // Blocks that held NaN serve the next sequence as any other.
  driver.Release(mixed[1]);
  TestSequence next = driver.NewSequence(12, 1);
  next.tokens = healthy[0].tokens;
  ASSERT_TRUE(driver.Finish(next, 5).ok());
  EXPECT_EQ(next.rows, healthy[0].rows);
}

TEST_P(ContractTest, RowsWithoutSampleAreComputedAndGiveNothing) {
  const auto model = MakeRandomModel("gpt2");
  const auto backend = Make(model);
  SequenceDriver driver(*backend, model->config, 16, 32);
  batch::Batch batch = ValidBatch(driver);
  batch::StepResult all, last, none;
  ASSERT_TRUE(backend->Launch(batch).ok());
  ASSERT_TRUE(backend->Collect(all).ok());
  batch.samples.erase(batch.samples.begin(), batch.samples.end() - 1);
  ASSERT_TRUE(backend->Launch(batch).ok());
  ASSERT_TRUE(backend->Collect(last).ok());
  ASSERT_EQ(last.samples.size(), 1u);
  EXPECT_EQ(last.samples[0].token, all.samples.back().token);
  batch.samples.clear();
  ASSERT_TRUE(backend->Launch(batch).ok());
  ASSERT_TRUE(backend->Collect(none).ok());
  EXPECT_TRUE(none.samples.empty());
}

TEST_P(ContractTest, MoreSampledRowsThanLogitsAtATime) {
  const auto model = MakeRandomModel("qwen2");
  const auto backend = Make(model);
  SequenceDriver driver(*backend, model->config, 16, 64);
  std::vector<TestSequence> together;
  for (uint32_t seed = 1; seed <= 3; ++seed) together.push_back(driver.NewSequence(70, seed));
  const Chunk chunks[] = {{&together[0], 70}, {&together[1], 70}, {&together[2], 70}};
  ASSERT_TRUE(driver.Step(chunks).ok());  // 210 rows
  TestSequence alone = driver.NewSequence(70, 3);
  ASSERT_TRUE(driver.Finish(alone, 1).ok());
  EXPECT_EQ(together[2].rows, alone.rows);
}

// Not on the emulated device, which allocates itself.
using HostAllocationTest = ContractTest;

TEST_P(HostAllocationTest, SteadyDecodeAllocatesNothing) {
  const auto model = MakeRandomModel("gemma3");
  const auto backend = Make(model);
  SequenceDriver driver(*backend, model->config, 16, 64);
  batch::Batch batch = ValidBatch(driver);
  batch::StepResult result;
  int64_t before = 0;
  for (int step = 0; step < 8; ++step) {
    if (step == 3) before = AllocationCount();
    ASSERT_TRUE(backend->Launch(batch).ok());
    ASSERT_TRUE(backend->Collect(result).ok());
  }
  EXPECT_EQ(AllocationCount(), before);
}

TEST_P(ContractTest, WeightsOfTheWrongShapeAreRefused) {
  const auto make = [](const std::function<void(model::Model&)>& damage) {
    const auto model = MakeRandomModel("qwen2");
    damage(*model);
    return TryMakeBackend(GetParam(), model, {}).status();
  };
  EXPECT_TRUE(make([](model::Model&) {}).ok());
  absl::Status status = make([](model::Model& m) { m.weights.layers[1].k_bias.cols = 3; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("layer 1: tensor k_bias is [1, 3]; expected [1, 40]"));
  status = make([](model::Model& m) { m.weights.layers[2].gate = {}; });
  EXPECT_THAT(std::string(status.message()), HasSubstr("layer 2: tensor gate is missing"));
  status = make([](model::Model& m) { m.weights.layers.pop_back(); });
  EXPECT_THAT(std::string(status.message()), HasSubstr("2 layers of weights; expected 3"));
}

INSTANTIATE_TEST_SUITE_P(All, ContractTest, testing::ValuesIn(AllBackendCases()),
                         [](const auto& info) { return info.param.label(); });

std::vector<BackendCase> HostBackendCases() {
  std::vector<BackendCase> cases = AllBackendCases();
  std::erase_if(cases, [](const BackendCase& c) { return c.backend == "cuda"; });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, HostAllocationTest, testing::ValuesIn(HostBackendCases()),
                         [](const auto& info) { return info.param.label(); });

TEST(FactoryTest, UnknownNamesAreRefusedWithWhatThereIs) {
  const auto model = MakeRandomModel("gpt2");
  absl::Status status = MakeBackend("gpu", model, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("reference, cpu"));
  status = MakeBackend("cpu", model, {.code_path = "mmx"}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("portable"));
}

TEST(FactoryTest, FourBitsAreNotMadeFromMore) {
  auto model = MakeRandomModel("llama");
  model->source = "GGUF v3, F16 x 30";
  const absl::Status status =
      MakeBackend("cpu", model, {.weights = WeightsFormat::kInt4, .code_path = ""}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("no layer of the model has a matrix in Q4_0 or Q4_1 (its file: GGUF v3"));
}

TEST(FactoryTest, ProgressRisesWhileWeightsArePacked) {
  std::vector<double> parts;
  BackendOptions options;
  options.num_threads = 1;
  options.on_progress = [&](double part) { parts.push_back(part); };
  ASSERT_TRUE(MakeBackend("cpu", MakeRandomModel("llama"), options).ok());
  ASSERT_FALSE(parts.empty());
  EXPECT_TRUE(std::is_sorted(parts.begin(), parts.end()));
  EXPECT_GT(parts.front(), 0.0);
  EXPECT_LE(parts.back(), 1.0);
}

TEST(FactoryTest, DefaultsToTheFastestPathAndItsFastestFormat) {
  for (const std::string& path : CpuCodePaths()) {
    const auto made = MakeBackend("cpu", MakeRandomModel("gpt2"), {.code_path = path});
    ASSERT_TRUE(made.ok()) << made.status();
    const std::string format = path == "portable" ? "f32" : "int8";
    EXPECT_THAT((*made)->info().numerics, HasSubstr("weights " + format + ", "));
    const auto q4 = MakeBackend("cpu", MakeRandomModel("llama-q4"), {.code_path = path});
    ASSERT_TRUE(q4.ok()) << q4.status();
    const bool bytes = path == "avxvnni" || path == "avx512vnni";
    const std::string q4_format = path == "portable" ? "f32" : bytes ? "int4" : "int8";
    EXPECT_THAT((*q4)->info().numerics, HasSubstr("weights " + q4_format + ", "));
  }
  const auto made = MakeBackend("cpu", MakeRandomModel("gpt2"), {});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_THAT((*made)->info().numerics, HasSubstr("path " + CpuCodePaths().back()));
}

}  // namespace
}  // namespace luna::backend
