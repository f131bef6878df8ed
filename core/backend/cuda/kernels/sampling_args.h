// What the host tells the sampling kernel and what that answers: plain data, which both compile.
//
// All that changes from step to step is read from device memory, through the header; a captured
// graph keeps SampleArgs alone.
#ifndef LUNA_CORE_BACKEND_CUDA_KERNELS_SAMPLING_ARGS_H_
#define LUNA_CORE_BACKEND_CUDA_KERNELS_SAMPLING_ARGS_H_

#include <cstdint>

namespace luna::backend::cuda {

// All that a row's parameters do to the logit of one token: penalties, then biases, then the mask.
// A row names a token once, so that one thread makes the whole change.
struct alignas(16) SampleEdit {
  static constexpr uint32_t kSeen = 1;  // in the prompt or the output
  static constexpr uint32_t kMasked = 2;
  static constexpr uint32_t kOneOutput = 4;  // times its occurrences in the output

  int32_t token = 0;
  uint32_t marks = 0;
  int32_t first_bias = -1;  // index into SampleHeader::biases
  float raw = 0.0f;         // the kernel's: what the logit was
};

// The biases of one token, in the order in which they are added.
struct SampleBias {
  float bias = 0.0f;
  int32_t next = -1;
};

// The parameters of one row, as sample::SamplingParams says them.
struct SampleRow {
  uint64_t seed = 0;
  uint64_t position = 0;
  float temperature = 1.0f;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t top_k = 0;  // below the vocabulary; 0: all
  int32_t num_logprobs = -1;
  int32_t pending = -1;    // not -1: tokens_before[pending] counts as one more output token
  int32_t first_edit = 0;  // index into SampleHeader::edits
  int32_t num_edits = 0;
};

// In device memory; the rows stand right behind it.
struct alignas(16) SampleHeader {
  SampleEdit* edits = nullptr;  // device addresses
  const SampleBias* biases = nullptr;
  int32_t num_rows = 0;
  int32_t top_stride = 0;  // of SampleResults::top; no row's num_logprobs is more

  static constexpr int64_t Bytes(int64_t rows) {
    return static_cast<int64_t>(sizeof(SampleHeader)) +
           rows * static_cast<int64_t>(sizeof(SampleRow));
  }
};

struct SampleTop {
  int32_t token = 0;
  float logprob = 0.0f;
};

enum class SampleStatus : int32_t { kOk = 0, kNotFinite = 1, kAllMasked = 2 };

// One entry a row. Of a row that is not kOk only the status means something; its token is 0.
struct SampleResults {
  int32_t* tokens = nullptr;
  SampleStatus* statuses = nullptr;
  float* logprobs = nullptr;  // 0 where not asked for
  SampleTop* top = nullptr;   // [rows, top_stride]; num_logprobs of them are written
};

struct SampleArgs {
  const SampleHeader* header = nullptr;
  // Of the header's rows those from first_row on, at most max_rows: logits has no others.
  int32_t first_row = 0;
  int32_t max_rows = 0x7fffffff;
  float* logits = nullptr;                 // [rows, vocab_stride], aligned to 16 bytes; overwritten
  const int32_t* tokens_before = nullptr;  // of the step before; not the array of `results`
  SampleResults results;
  int32_t vocab_size = 0;
  int32_t vocab_stride =
      0;  // a multiple of 4, at least vocab_size; what is between may be anything
};

}  // namespace luna::backend::cuda

#endif  // LUNA_CORE_BACKEND_CUDA_KERNELS_SAMPLING_ARGS_H_
