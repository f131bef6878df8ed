#include "core/backend/cpu/cpu_backend.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/backend/checks.h"
#include "core/backend/cpu/cpu_count.h"
#include "core/backend/cpu/decoder.h"
#include "core/backend/cpu/kernels.h"
#include "core/backend/cpu/kv_format.h"
#include "core/backend/cpu/packed_weights.h"
#include "core/backend/kv_pool.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::backend {
namespace {

class CpuBackend final : public Backend {
 public:
  // `options` have all that may be unset.
  CpuBackend(std::shared_ptr<const model::Model> model, const cpu::Kernels& kernels,
             const BackendOptions& options, std::unique_ptr<cpu::Decoder> decoder)
      : model_(std::move(model)),
        max_batch_tokens_(options.max_batch_tokens),
        kv_head_bytes_(cpu::KvHeadBytes(*options.kv_dtype, model_->config.head_dim)),
        decoder_(std::move(decoder)) {
    info_ = {.name = "cpu",
             .numerics = absl::StrCat("weights ", AbslView(WeightsFormatName(*options.weights)),
                                      ", KV ", AbslView(KvDtypeName(*options.kv_dtype)), ", path ",
                                      AbslView(kernels.name)),
             .vocab_size = model_->config.vocab_size,
             .context_length = model_->config.context_length,
             .weights_bytes = decoder_->weights_bytes()};
    sampled_.reserve(max_batch_tokens_);
  }

  const BackendInfo& info() const override { return info_; }
  int64_t token_layer_bytes() const override {
    return KvGeometry::TokenLayerBytes(model_->config, kv_head_bytes_);
  }
  absl::Status AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) override {
    return pool_.Allocate(model_->config, kv_head_bytes_, layout, num_blocks);
  }
  absl::Status CopyBlocks(std::span<const BlockCopy> copies) override { return pool_.Copy(copies); }

  // The calling thread is one of the workers, so the step is computed before this returns.
  absl::Status Launch(const batch::Batch& batch) override {
    if (launched_) return absl::FailedPreconditionError("a step is in flight already");
    LUNA_RETURN_IF_ERROR(CheckBatch(batch, model_->config, pool_.geometry(), max_batch_tokens_));
    sampled_.resize(batch.samples.size());
    decoder_->Step(batch, pool_, sampled_);
    launched_ = true;
    return absl::OkStatus();
  }

  absl::Status Collect(batch::StepResult& result) override {
    if (!launched_) return absl::FailedPreconditionError("no step is in flight");
    launched_ = false;
    std::swap(result.samples, sampled_);  // both keep their capacity
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<const model::Model> model_;
  const int max_batch_tokens_;
  const int64_t kv_head_bytes_;  // of one token's keys, or values
  BackendInfo info_;
  KvPool pool_;
  std::unique_ptr<cpu::Decoder> decoder_;
  std::vector<sample::SampledToken> sampled_;  // of the launched step
  bool launched_ = false;
};

absl::StatusOr<const cpu::Kernels*> ChooseKernels(const std::string& code_path) {
  if (code_path.empty()) return cpu::AvailableKernels().back();
  for (const cpu::Kernels* kernels : cpu::AvailableKernels()) {
    if (kernels->name == code_path) return kernels;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "code path '", code_path, "' is not one of: ", absl::StrJoin(CpuCodePaths(), ", ")));
}

// The smallest whose words stay close enough to those of f32 (docs/benchmarks.md).
KvDtype FastestKvDtype(const model::Model& model) {
  return cpu::HasOutlyingChannels(model) ? KvDtype::kBf16 : KvDtype::kInt8;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(std::shared_ptr<const model::Model> model,
                                                        const BackendOptions& options) {
  LUNA_RETURN_IF_ERROR(CheckWeights(*model));
  if (options.num_threads < 0 || options.max_batch_tokens < 1) {
    return absl::InvalidArgumentError(absl::StrCat("cpu backend with ", options.num_threads,
                                                   " threads and ", options.max_batch_tokens,
                                                   " tokens a step"));
  }
  LUNA_ASSIGN_OR_RETURN(const cpu::Kernels* kernels, ChooseKernels(options.code_path));
  if (options.weights == WeightsFormat::kInt4 && !cpu::HasQ4(*model)) {
    return absl::InvalidArgumentError(
        absl::StrCat("weights int4: no layer of the model has a matrix in Q4_0 or Q4_1 (its file: ",
                     model->source, "); 4 bits are not made from more"));
  }
  BackendOptions effective = options;
  effective.weights =
      options.weights.value_or(cpu::HasQ4(*model) ? kernels->fastest_of_q4 : kernels->fastest);
  effective.kv_dtype = options.kv_dtype.value_or(FastestKvDtype(*model));
  if (effective.num_threads == 0) effective.num_threads = cpu::UsableCpus();
  LUNA_ASSIGN_OR_RETURN(auto decoder, cpu::Decoder::Make(model, *kernels, effective));
  return std::make_unique<CpuBackend>(std::move(model), *kernels, effective, std::move(decoder));
}

std::vector<std::string> CpuCodePaths() {
  std::vector<std::string> names;
  for (const cpu::Kernels* kernels : cpu::AvailableKernels()) names.emplace_back(kernels->name);
  return names;
}

}  // namespace luna::backend
