#include "core/backend/reference/reference_backend.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backend/checks.h"
#include "core/backend/kv_pool.h"
#include "core/backend/reference/decoder.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"
#include "core/sample/sampler.h"

namespace luna::backend {
namespace {

class ReferenceBackend final : public Backend {
 public:
  ReferenceBackend(std::shared_ptr<const model::Model> model, const BackendOptions& options)
      : model_(std::move(model)),
        max_batch_tokens_(options.max_batch_tokens),
        decoder_(*model_, options.max_batch_tokens),
        sampler_(model_->config.vocab_size),
        logits_(model_->config.vocab_size) {
    info_ = {.name = "reference",
             .numerics = "weights f32, KV f32, path reference",
             .vocab_size = model_->config.vocab_size,
             .context_length = model_->config.context_length,
             .weights_bytes = decoder_.weights_bytes()};
  }

  const BackendInfo& info() const override { return info_; }
  int64_t token_layer_bytes() const override {
    return KvGeometry::TokenLayerBytes(model_->config, head_bytes());
  }
  absl::Status AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) override {
    return pool_.Allocate(model_->config, head_bytes(), layout, num_blocks);
  }
  absl::Status CopyBlocks(std::span<const BlockCopy> copies) override { return pool_.Copy(copies); }

  absl::Status Launch(const batch::Batch& batch) override {
    if (launched_ != nullptr) return absl::FailedPreconditionError("a step is in flight already");
    LUNA_RETURN_IF_ERROR(CheckBatch(batch, model_->config, pool_.geometry(), max_batch_tokens_));
    launched_ = &batch;
    return absl::OkStatus();
  }

  absl::Status Collect(batch::StepResult& result) override {
    if (launched_ == nullptr) return absl::FailedPreconditionError("no step is in flight");
    const batch::Batch& batch = *std::exchange(launched_, nullptr);
    decoder_.Forward(batch, pool_);
    result.samples.resize(batch.samples.size());
    for (size_t i = 0; i < batch.samples.size(); ++i) {
      decoder_.Logits(batch.samples[i].row, logits_);
      sampler_.Sample(logits_, batch.samples[i], result.samples[i]);
    }
    return absl::OkStatus();
  }

 private:
  int64_t head_bytes() const {
    return model_->config.head_dim * static_cast<int64_t>(sizeof(float));
  }

  const std::shared_ptr<const model::Model> model_;
  const int max_batch_tokens_;
  BackendInfo info_;
  reference::Decoder decoder_;
  sample::Sampler sampler_;
  std::vector<float> logits_;  // [vocab_size]
  KvPool pool_;
  const batch::Batch* launched_ = nullptr;  // borrowed until it is collected
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeReferenceBackend(
    std::shared_ptr<const model::Model> model, const BackendOptions& options) {
  if (!options.code_path.empty() && options.code_path != "reference") {
    return absl::InvalidArgumentError(
        absl::StrCat("code path '", options.code_path, "' is not one of the reference backend's"));
  }
  const WeightsFormat weights = options.weights.value_or(WeightsFormat::kF32);
  if (weights != WeightsFormat::kF32) {
    return absl::InvalidArgumentError(absl::StrCat("weights ", AbslView(WeightsFormatName(weights)),
                                                   ": the reference backend keeps f32 alone"));
  }
  const KvDtype kv_dtype = options.kv_dtype.value_or(KvDtype::kF32);
  if (kv_dtype != KvDtype::kF32) {
    return absl::InvalidArgumentError(absl::StrCat("KV dtype ", AbslView(KvDtypeName(kv_dtype)),
                                                   ": the reference backend keeps f32 alone"));
  }
  LUNA_RETURN_IF_ERROR(CheckWeights(*model));
  return std::make_unique<ReferenceBackend>(std::move(model), options);
}

}  // namespace luna::backend
