// The seam between the engine and whatever computes: the CPU, a GPU, a fake in tests.
#ifndef LUNA_CORE_BACKEND_BACKEND_H_
#define LUNA_CORE_BACKEND_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/batch/batch.h"
#include "core/kv/block_pool.h"
#include "core/kv/layout.h"
#include "core/model/model.h"

namespace luna::backend {

struct BackendInfo {
  std::string name;         // "reference", "cpu", "cuda"
  std::string numerics;     // weights format, KV dtype, code path: what a session's words depend on
  std::string device = {};  // that computes, as its driver names it; empty: the CPU
  int vocab_size = 0;
  int context_length = 0;     // tokens; the model's
  int64_t weights_bytes = 0;  // as the backend holds them
};

// Of a device with memory of its own, as its driver says it, whoever uses it.
struct DeviceMemoryUse {
  int64_t free_bytes = 0, total_bytes = 0;
};

using kv::BlockCopy;

// Owns the KV bytes and the weights in its own form; knows nothing of sessions or requests. All
// calls come from the engine thread; workers are private inside. A step's result for one sequence
// depends on that sequence's tokens and blocks alone: not on the other rows, on how its prompt was
// cut into chunks, or on the number of threads.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendInfo& info() const = 0;

  // Bytes of keys and values, per token and layer, in this backend's KV dtype; layouts are made of
  // it.
  virtual int64_t token_layer_bytes() const = 0;

  // Unset: keys and values are in the machine's memory.
  virtual std::optional<DeviceMemoryUse> device_memory() { return std::nullopt; }

  // Allocates the pool: `num_blocks` blocks of `layout`. Once, before the first step. On the CPU
  // memory is committed when a block is first written. RESOURCE_EXHAUSTED with both byte counts if
  // memory does not suffice.
  virtual absl::Status AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) = 0;

  // How many steps may be launched and not yet collected. Steps are done in the order of their
  // launches, so a block may be given to somebody else as soon as the last step that uses it was
  // launched.
  virtual int depth() const { return 1; }

  // Starts one step. `batch` and all it borrows stay untouched until the step was collected, or,
  // where depth() is above 1, until this returns. A status means the step did not run and changed
  // nothing that a sequence may rely on.
  virtual absl::Status Launch(const batch::Batch& batch) = 0;

  // Waits for the oldest launched step. `result` is reused. A row that failed alone has its own
  // status.
  virtual absl::Status Collect(batch::StepResult& result) = 0;

  // Copies whole blocks one after the other, before the next launched step touches them. Blocks are
  // within the pool. What failed may be asked for again.
  virtual absl::Status CopyBlocks(std::span<const BlockCopy> copies) = 0;
};

// What weights are kept in. int8: in groups with a scale each. int4: as int8, but the matrices that
// the file has in 4 bits (Q4_0, Q4_1) in those.
enum class WeightsFormat { kF32, kBf16, kInt8, kInt4 };
inline constexpr WeightsFormat kWeightsFormats[] = {WeightsFormat::kF32, WeightsFormat::kBf16,
                                                    WeightsFormat::kInt8, WeightsFormat::kInt4};
constexpr std::string_view WeightsFormatName(WeightsFormat format) {
  switch (format) {
    case WeightsFormat::kF32:
      return "f32";
    case WeightsFormat::kBf16:
      return "bf16";
    case WeightsFormat::kInt8:
      return "int8";
    case WeightsFormat::kInt4:
      break;
  }
  return "int4";
}

// What keys and values are kept in; int8 with a scale for each token and head.
enum class KvDtype { kF32, kBf16, kInt8 };
constexpr std::string_view KvDtypeName(KvDtype dtype) {
  return dtype == KvDtype::kF32 ? "f32" : dtype == KvDtype::kBf16 ? "bf16" : "int8";
}

// factory/factory.h makes a backend by name.
struct BackendOptions {
  std::optional<WeightsFormat> weights = std::nullopt;  // unset: the fastest that the code path has
  std::optional<KvDtype> kv_dtype = std::nullopt;       // likewise
  int num_threads = 0;                                  // 0: the cores this process may use
  int max_batch_tokens = 512;                           // the largest step it will be given
  std::string code_path = {};  // empty: the fastest this machine has; tests force one by its name
  bool share_small_steps = false;  // all threads take part even where one ends sooner; for tests
  // Called again and again, on the calling thread, while weights are brought into their format:
  // how much of them is, from 0 to 1. May be empty.
  std::function<void(double part)> on_progress = {};
};

}  // namespace luna::backend

#endif  // LUNA_CORE_BACKEND_BACKEND_H_
