#include "core/backend/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/backend/checks.h"
#include "core/backend/cuda/decoder.h"
#include "core/backend/cuda/device_memory.h"
#include "core/backend/cuda/sampling.h"
#include "core/backend/cuda/step_builder.h"
#include "core/backend/cuda/step_graphs.h"
#include "core/backend/kv_geometry.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::backend {
namespace cuda {
namespace {

constexpr int kDepth = 2;
// Candidates that a small step has room for, so that whole distributions of a few rows can be
// looked at; a large one has it for as many as callers may ask for of every row.
constexpr int64_t kTopOfFewRows = 1 << 16;

class CudaBackend final : public Backend {
 public:
  // `options` have all that may be unset.
  CudaBackend(std::shared_ptr<const model::Model> model, const BackendOptions& options,
              std::unique_ptr<Device> device)
      : model_(std::move(model)),
        device_(std::move(device)),
        options_(options),
        max_tokens_(options.max_batch_tokens),
        results_layout_(max_tokens_,
                        std::max(kTopOfFewRows, int64_t{max_tokens_} * sample::kMaxLogprobs)),
        step_offset_(Aligned(SamplePacker::FixedBytes(max_tokens_))),
        packer_(model_->config.vocab_size) {}

  absl::Status Init(const KernelSet& kernels);

  const BackendInfo& info() const override { return info_; }
  int64_t token_layer_bytes() const override {
    return KvGeometry::TokenLayerBytes(model_->config, head_bytes());
  }
  int depth() const override { return kDepth; }
  std::optional<DeviceMemoryUse> device_memory() override {
    const absl::StatusOr<DeviceMemoryUse> use = device_->MemoryUse();
    return use.ok() ? std::optional(*use) : std::nullopt;
  }

  absl::Status AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) override;
  absl::Status Launch(const batch::Batch& batch) override;
  absl::Status Collect(batch::StepResult& result) override;
  absl::Status CopyBlocks(std::span<const BlockCopy> copies) override;

 private:
  // One of the steps that may be in flight.
  struct Slot {
    // [what sampling has of a fixed size][StepHeader and its arrays]
    StagingMemory input;
    StagingMemory lists;  // of sampling: few rows have any
    StagingMemory results;
    std::unique_ptr<Device::Event> done;
    int samples = 0;
  };

  int64_t head_bytes() const {
    return int64_t{PaddedHeadDim(model_->config.head_dim)} *
           (*options_.kv_dtype == KvDtype::kF32 ? 4 : 2);
  }
  Slot& slot(int64_t launch) { return slots_[launch % kDepth]; }
  int PreviousSamples() { return in_flight_ == 0 ? 0 : slot(launched_ - 1).samples; }
  absl::Status CheckLogprobs(const batch::Batch& batch) const;
  absl::Status Queue(const batch::Batch& batch, Slot& slot);
  absl::Status CopyInput(const batch::Batch& batch, Slot& slot, StepShape& shape);
  absl::Status CopyResults(Slot& slot);

  const std::shared_ptr<const model::Model> model_;
  const std::unique_ptr<Device> device_;  // outlives all that is on it
  const BackendOptions options_;
  const int max_tokens_;
  const SampleResultsLayout results_layout_;
  const int64_t step_offset_;  // of StepHeader in a step's input
  BackendInfo info_;
  std::unique_ptr<Decoder> decoder_;
  KvGeometry geometry_;
  DeviceMemory kv_, input_, lists_, results_, tokens_before_;
  SamplePacker packer_;
  std::unique_ptr<StepBuilder> builder_;
  StepGraphs graphs_;
  std::array<Slot, kDepth> slots_;
  int64_t launched_ = 0;
  int in_flight_ = 0;
};

absl::Status CudaBackend::Init(const KernelSet& kernels) {
  LUNA_ASSIGN_OR_RETURN(decoder_, Decoder::Make(model_, kernels, options_, *device_));
  LUNA_ASSIGN_OR_RETURN(results_,
                        DeviceMemory::Allocate(*device_, "results", results_layout_.bytes()));
  LUNA_RETURN_IF_ERROR(device_->Fill(results_.as(), 0, results_.bytes()));
  LUNA_ASSIGN_OR_RETURN(
      tokens_before_,
      DeviceMemory::Allocate(*device_, "tokens", max_tokens_ * int64_t{sizeof(int32_t)}));
  for (Slot& slot : slots_) {
    LUNA_ASSIGN_OR_RETURN(slot.results,
                          StagingMemory::Allocate(*device_, "results", results_layout_.bytes()));
    LUNA_ASSIGN_OR_RETURN(slot.done, device_->MakeEvent());
  }
  info_ = {.name = "cuda",
           .numerics = absl::StrCat("weights ", AbslView(WeightsFormatName(*options_.weights)),
                                    ", KV ", AbslView(KvDtypeName(*options_.kv_dtype)),
                                    ", path sm_", device_->info().major, device_->info().minor),
           .device = device_->info().name,
           .vocab_size = model_->config.vocab_size,
           .context_length = model_->config.context_length,
           .weights_bytes = decoder_->weights_bytes()};
  return absl::OkStatus();
}

absl::Status CudaBackend::AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) {
  if (geometry_.allocated()) {
    return absl::FailedPreconditionError("the KV pool is allocated already");
  }
  LUNA_ASSIGN_OR_RETURN(KvGeometry geometry,
                        KvGeometry::Make(model_->config, head_bytes(), layout, num_blocks));
  auto builder = std::make_unique<StepBuilder>(model_->config, layout, decoder_->attention_plan(),
                                               max_tokens_);
  if (builder->max_bytes() > std::numeric_limits<int32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cuda backend: a step of ", max_tokens_, " tokens with a context of ",
        model_->config.context_length, " may take ", builder->max_bytes(),
        " bytes of block tables and positions; at most ", std::numeric_limits<int32_t>::max()));
  }
  LUNA_ASSIGN_OR_RETURN(DeviceMemory kv,
                        DeviceMemory::Allocate(*device_, "KV pool", geometry.bytes()));
  // Dimensions that pad a head are never written.
  LUNA_RETURN_IF_ERROR(device_->Fill(kv.as(), 0, kv.bytes()));
  const int64_t input_bytes = step_offset_ + builder->max_bytes();
  LUNA_ASSIGN_OR_RETURN(DeviceMemory input,
                        DeviceMemory::Allocate(*device_, "step input", input_bytes));
  for (Slot& slot : slots_) {
    LUNA_ASSIGN_OR_RETURN(slot.input, StagingMemory::Allocate(*device_, "step input", input_bytes));
  }

  decoder_->SetKv(geometry, kv.as());
  decoder_->SetStep({.header = reinterpret_cast<const StepHeader*>(input.as() + step_offset_),
                     .sampling = input.as<SampleHeader>(),
                     .results = results_layout_.At(results_.as()),
                     .tokens_before = tokens_before_.as<int32_t>()});
  LUNA_ASSIGN_OR_RETURN(graphs_, StepGraphs::Record(*decoder_, *device_, max_tokens_));
  kv_ = std::move(kv);
  input_ = std::move(input);
  builder_ = std::move(builder);
  geometry_ = std::move(geometry);
  return absl::OkStatus();
}

absl::Status CudaBackend::CheckLogprobs(const batch::Batch& batch) const {
  int64_t most = 0;
  for (const sample::SampleSpec& spec : batch.samples) {
    most = std::max(most, int64_t{spec.params->num_logprobs});
  }
  if (most > model_->config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat("batch: a row asks for ", most,
                                                   " log-probabilities; the vocabulary has ",
                                                   model_->config.vocab_size, " tokens"));
  }
  if (most * std::ssize(batch.samples) <= results_layout_.max_top()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "batch: ", batch.samples.size(), " sampled rows, one of which asks for ", most,
      " log-probabilities: a step has room for ", results_layout_.max_top(), " in all"));
}

absl::Status CudaBackend::CopyInput(const batch::Batch& batch, Slot& slot, StepShape& shape) {
  // Lists become longer with every token: twice the room, so that growing is rare.
  const int64_t list_bytes = packer_.ListBytes(batch.samples);
  if (list_bytes > lists_.bytes()) {
    LUNA_ASSIGN_OR_RETURN(lists_,
                          DeviceMemory::Allocate(*device_, "penalties and biases", 2 * list_bytes));
  }
  if (list_bytes > slot.lists.bytes()) {
    LUNA_ASSIGN_OR_RETURN(
        slot.lists, StagingMemory::Allocate(*device_, "penalties and biases", 2 * list_bytes));
  }
  std::byte* const input = slot.input.as();
  const int64_t step_bytes = builder_->Build(batch, input + step_offset_, shape);
  const int64_t packed = packer_.Pack(batch.samples, input, slot.lists.as(), lists_.as());
  LUNA_RETURN_IF_ERROR(device_->CopyIn(input_.as(), input, step_offset_ + step_bytes));
  if (packed == 0) return absl::OkStatus();
  return device_->CopyIn(lists_.as(), slot.lists.as(), packed);
}

// What nobody asked for stays on the device.
absl::Status CudaBackend::CopyResults(Slot& slot) {
  if (slot.samples == 0) return absl::OkStatus();
  const SampleResults results = results_layout_.At(results_.as());
  const int64_t without_top = reinterpret_cast<const std::byte*>(results.top) - results_.as();
  return device_->CopyOut(slot.results.as(), results_.as(),
                          without_top + TopBytes(slot.input.as()));
}

absl::Status CudaBackend::Launch(const batch::Batch& batch) {
  if (in_flight_ == kDepth) {
    return absl::FailedPreconditionError(absl::StrCat(kDepth, " steps are in flight already"));
  }
  LUNA_RETURN_IF_ERROR(
      CheckBatch(batch, model_->config, geometry_, max_tokens_, PreviousSamples()));
  LUNA_RETURN_IF_ERROR(CheckLogprobs(batch));
  Slot& slot = this->slot(launched_);
  const absl::Status queued = Queue(batch, slot);
  if (!queued.ok()) {
    // A part of it may be under way: it reads the slot that the next step writes, and may write the
    // tokens of the step before, which now only the host knows.
    if (device_->Record(*slot.done).ok()) device_->Wait(*slot.done).IgnoreError();
    if (in_flight_ > 0) this->slot(launched_ - 1).samples = 0;
    return queued;
  }
  ++launched_;
  ++in_flight_;
  return absl::OkStatus();
}

absl::Status CudaBackend::Queue(const batch::Batch& batch, Slot& slot) {
  StepShape shape;
  LUNA_RETURN_IF_ERROR(CopyInput(batch, slot, shape));
  Device::Graph* const graph = graphs_.Find(shape);
  LUNA_RETURN_IF_ERROR(graph != nullptr ? device_->Launch(*graph) : decoder_->Launch(shape));
  slot.samples = shape.samples;
  LUNA_RETURN_IF_ERROR(CopyResults(slot));
  return device_->Record(*slot.done);
}

absl::Status CudaBackend::Collect(batch::StepResult& result) {
  if (in_flight_ == 0) return absl::FailedPreconditionError("no step is in flight");
  Slot& slot = this->slot(launched_ - in_flight_);
  --in_flight_;
  LUNA_RETURN_IF_ERROR(device_->Wait(*slot.done));
  UnpackSamples(slot.input.as(), model_->config.vocab_size, results_layout_.At(slot.results.as()),
                result.samples);
  return absl::OkStatus();
}

absl::Status CudaBackend::CopyBlocks(std::span<const BlockCopy> copies) {
  LUNA_RETURN_IF_ERROR(geometry_.CheckCopies(copies));
  if (copies.empty()) return absl::OkStatus();
  const int64_t bytes = geometry_.layout().block_bytes();
  for (const BlockCopy& copy : copies) {
    if (copy.from == copy.to) continue;
    LUNA_RETURN_IF_ERROR(device_->CopyWithin(kv_.as() + copy.to.value() * bytes,
                                             kv_.as() + copy.from.value() * bytes, bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const BackendOptions& options) {
  if (!options.code_path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "code path '", options.code_path, "': the cuda backend goes by the device it finds"));
  }
  if (options.weights == WeightsFormat::kInt4) {
    return absl::InvalidArgumentError("weights int4: the cuda backend keeps f32, bf16 or int8");
  }
  if (options.kv_dtype == KvDtype::kInt8) {
    return absl::InvalidArgumentError("KV dtype int8: the cuda backend keeps f32 or bf16");
  }
  if (options.max_batch_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("cuda backend with ", options.max_batch_tokens, " tokens a step"));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cuda

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(std::shared_ptr<const model::Model> model,
                                                         const BackendOptions& options,
                                                         std::unique_ptr<cuda::Device> device,
                                                         const cuda::KernelSet& kernels) {
  LUNA_RETURN_IF_ERROR(CheckWeights(*model));
  LUNA_RETURN_IF_ERROR(cuda::CheckOptions(options));
  BackendOptions effective = options;
  effective.weights = options.weights.value_or(WeightsFormat::kBf16);
  effective.kv_dtype = options.kv_dtype.value_or(KvDtype::kBf16);
  auto backend =
      std::make_unique<cuda::CudaBackend>(std::move(model), effective, std::move(device));
  LUNA_RETURN_IF_ERROR(backend->Init(kernels));
  return backend;
}

}  // namespace luna::backend
