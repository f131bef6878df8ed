// One step of the decoder on a team of threads.
#ifndef LUNA_CORE_BACKEND_CPU_DECODER_H_
#define LUNA_CORE_BACKEND_CPU_DECODER_H_

#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "core/backend/backend.h"
#include "core/backend/cpu/kernels.h"
#include "core/backend/cpu/packed_weights.h"
#include "core/backend/cpu/scratch.h"
#include "core/backend/cpu/worker_pool.h"
#include "core/backend/kv_pool.h"
#include "core/backend/rope_table.h"
#include "core/batch/batch.h"
#include "core/model/model.h"
#include "core/sample/sampler.h"

namespace luna::backend::cpu {

// All threads walk the layers together, phase by phase, with a barrier after each. In a phase they
// share out rows, output panels or (tile of rows, head) pairs; what is computed for a row depends
// neither on who computes it nor on the other rows. A step too small to be worth its barriers runs
// on the calling thread alone. A step allocates nothing.
class Decoder {
 public:
  // `options` were checked, num_threads is not 0, weights and kv_dtype are set. RESOURCE_EXHAUSTED
  // if weights or scratch do not fit into memory.
  static absl::StatusOr<std::unique_ptr<Decoder>> Make(std::shared_ptr<const model::Model> model,
                                                       const Kernels& kernels,
                                                       const BackendOptions& options);

  // The batch was checked against `pool`. `sampled` [batch.samples], in their order.
  void Step(const batch::Batch& batch, const KvPool& pool, std::span<sample::SampledToken> sampled);

  int64_t weights_bytes() const { return weights_.bytes(); }

 private:
  Decoder(std::shared_ptr<const model::Model> model, const Kernels& kernels,
          const BackendOptions& options);

  // What one step works on.
  struct Work {
    const batch::Batch* batch = nullptr;
    const KvPool* pool = nullptr;
    std::span<sample::SampledToken> sampled;
    int rows = 0;
    int threads = 1;
  };

  // A part of a sequence's rows that attend together.
  struct Tile {
    int row, tokens, sequence;
  };

  // Calls body(row) for all rows, body(Range) for all panels, shared among the threads.
  template <typename Body>
  void ForRows(int thread, int count, Body body);
  template <typename Body>
  void ForPanels(int thread, int count, int together, Body body);
  // How many of `count` things, `together` at least, a thread takes at a time: few enough to
  // balance, many enough to be worth taking.
  int Grain(int count, int together) const;

  void RunThread(int thread);
  void RunLayer(int layer, int thread);
  void Embed(int thread);
  // hidden += post_norm(projected) where there is a post norm, then, unless `next` is null, normed
  // = norm(hidden), prepared for it, row by row.
  void AddAndNorm(const float* post_norm, const float* norm, const float* norm_bias,
                  const PackedMatrix* next, int thread);
  void Norm(const float* x, const float* weight, const float* bias, float* out) const;
  // QK norm and RoPE in place; keys and values into their slots.
  void RotateAndStore(int layer, int thread);
  void Attend(int layer, int thread);
  // Those of `args` that are the same for the whole layer.
  AttendArgs AttendArgsOf(int layer, int thread) const;
  // Of one tile, the kv heads from `first` on that are prepared together.
  void AttendTile(const Tile& tile, int layer, int first, AttendArgs& args);
  // The product with `matrix`; added to the hidden states, or, where a post
  // norm comes first, left in `projected`.
  void ProjectToHidden(const PackedMatrix& matrix, const PreparedRows& a, bool post_norm,
                       int thread);
  // `next` is what the activation is multiplied with.
  void FeedForwardUp(const PackedMatrix& matrix, const PackedMatrix& next, int thread);
  // Of one row, the panels `outputs` of the activation.
  void ActivateAndPrepare(const PackedMatrix& next, int row, Range outputs);
  void HeadAndSample(int thread);
  // The product of `rows` rows with all of `matrix`'s panels.
  MultiplyArgs ProductOf(const PackedMatrix& matrix, const PreparedRows& a, const Rows& out,
                         int rows) const;
  void MultiplyShared(int thread, const PackedMatrix& matrix, MultiplyArgs args);
  // Makes inputs [begin, end) of one row what the product with `next` reads.
  void Prepare(const PackedMatrix& next, const Rows& rows, const PreparedRows& prepared, int row,
               int begin, int end) const;
  // The smallest number of things, each of `size` inputs, that are prepared together for `next`.
  int PreparedTogether(const PackedMatrix& next, int size) const;

  const std::shared_ptr<const model::Model> model_;
  const model::ModelConfig& config_;  // model_'s
  const Kernels& kernels_;
  const KvFormat& kv_format_;  // kernels_'s
  const bool share_small_steps_;
  WorkerPool workers_;
  PackedWeights weights_;
  RopeTable rope_;
  Scratch scratch_;
  std::vector<int32_t> sequence_of_row_;   // [max_batch_tokens]
  std::vector<Tile> tiles_;                // of this step, at most max_batch_tokens
  std::vector<sample::Sampler> samplers_;  // [num_threads]
  Work work_;
};

}  // namespace luna::backend::cpu

#endif  // LUNA_CORE_BACKEND_CPU_DECODER_H_
