// The kernels of one step, in their order.
#ifndef LUNA_CORE_BACKEND_CUDA_DECODER_H_
#define LUNA_CORE_BACKEND_CUDA_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/backend/cuda/device.h"
#include "core/backend/cuda/device_memory.h"
#include "core/backend/cuda/device_weights.h"
#include "core/backend/cuda/kernel_args.h"
#include "core/backend/cuda/kernel_set.h"
#include "core/backend/cuda/kernels/sampling_args.h"
#include "core/backend/cuda/step_builder.h"
#include "core/backend/kv_geometry.h"
#include "core/model/model.h"

namespace luna::backend::cuda {

// Where a step's input lies and where its results go, all in the device's memory.
struct StepBuffers {
  const StepHeader* header = nullptr;
  const SampleHeader* sampling = nullptr;
  SampleResults results;             // of the step before, until this one samples
  int32_t* tokens_before = nullptr;  // [max_tokens]
};

// Per layer: norm, Q, K, V, rotation and storing; attention; output and residual; norm, up and
// activation; down and residual. Models that norm their heads or what they add have a kernel more
// for each of that. Then, for kLogitRows samples at a time, norm and head, and sampling.
//
// Owns weights and scratch; the launches themselves depend on nothing but the shape, so that they
// can be recorded once and done for many steps.
class Decoder {
 public:
  // `options` were checked; weights and kv_dtype are set. RESOURCE_EXHAUSTED if the device's memory
  // does not suffice; UNIMPLEMENTED for heads that no kernel takes.
  static absl::StatusOr<std::unique_ptr<Decoder>> Make(std::shared_ptr<const model::Model> model,
                                                       const KernelSet& kernels,
                                                       const BackendOptions& options,
                                                       Device& device);

  // How attention wants its work; the same for all steps.
  const AttentionPlan& attention_plan() const { return attention_plan_; }
  int64_t weights_bytes() const { return weights_.bytes(); }

  // The pool is there from now on.
  void SetKv(const KvGeometry& geometry, std::byte* data);
  void SetStep(const StepBuffers& step) { step_ = step; }

  // Launches a step of at most `shape`: what is there is in its header.
  absl::Status Launch(const StepShape& shape);

 private:
  Decoder(std::shared_ptr<const model::Model> model, const KernelSet& kernels,
          const BackendOptions& options, Device& device);

  absl::Status ChooseAttention();
  absl::Status LoadKernels();
  absl::Status AllocateScratch();
  absl::Status Room(const char* purpose, int64_t count, int64_t element, DeviceMemory& out);

  absl::Status LaunchEmbed(const StepShape& shape);
  absl::Status LaunchLayer(int layer, const StepShape& shape);
  absl::Status LaunchHeads(int layer, const StepShape& shape);
  absl::Status LaunchAttention(int layer, const StepShape& shape);
  // hidden += matrix x, by way of a post norm where there is one.
  absl::Status LaunchResidual(const DeviceMatrix& matrix, const DeviceMemory& x, int x_stride,
                              const float* post_norm, const StepShape& shape);
  absl::Status LaunchUp(const DeviceLayer& layer, const StepShape& shape);
  absl::Status LaunchSamples(int first, const StepShape& shape);

  ProductArgs ProductOf(const DeviceMatrix& matrix, const DeviceMemory& x, int x_stride) const;
  NormArgs NormOfHidden(const float* weight, const float* bias) const;
  HeadsArgs HeadsOf(int layer) const;
  DeviceKv KvOf(int layer) const;
  absl::Status LaunchProduct(const ProductArgs& args, int columns);
  absl::Status LaunchKernel(const SizedKernel& kernel, const Grid& grid, const void* args);

  const std::shared_ptr<const model::Model> model_;
  const model::ModelConfig& config_;  // model_'s
  const KernelSet& kernels_;
  const ProductKernels& products_;  // of the weights' format
  const BackendOptions options_;
  Device& device_;
  const int max_tokens_;
  const int hidden_stride_, attended_stride_, up_stride_, qkv_stride_;  // floats
  const int64_t logits_stride_;
  const AttentionKernel* narrow_attention_ = nullptr;
  const AttentionKernel* wide_attention_ = nullptr;
  AttentionPlan attention_plan_;
  DeviceWeights weights_;
  KvGeometry geometry_;
  std::byte* kv_data_ = nullptr;
  StepBuffers step_;

  // Scratch, zeros where nothing is written.
  DeviceMemory hidden_;             // [max_tokens, hidden_stride]
  DeviceMemory moments_;            // Moments [tiles of hidden, max_tokens]
  DeviceMemory projected_;          // as hidden; of models with post norms
  DeviceMemory projected_moments_;  // as moments
  DeviceMemory qkv_;                // [max_tokens, qkv_stride]; of models that norm their heads
  DeviceMemory q_;                  // [max_tokens, attended_stride]
  DeviceMemory attended_;           // [max_tokens, attended_stride]
  DeviceMemory up_;                 // [max_tokens, up_stride]
  DeviceMemory logits_;             // [kLogitRows, logits_stride]
  DeviceMemory partials_, tickets_;
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_DECODER_H_
