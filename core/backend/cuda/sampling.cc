#include "core/backend/cuda/sampling.h"

#include <algorithm>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/backend/cuda/device_memory.h"

namespace luna::backend::cuda {
namespace {

using sample::SampledToken;
using sample::SampleSpec;
using sample::SamplingParams;

bool PenalizesOutput(const SamplingParams& params) {
  return params.presence_penalty != 0.0f || params.frequency_penalty != 0.0f;
}

bool PenalizesAll(const SamplingParams& params) { return params.repetition_penalty != 1.0f; }

int64_t BiasBytes(std::span<const SampleSpec> specs) {
  int64_t biases = 0;
  for (const SampleSpec& spec : specs) biases += std::ssize(spec.params->logit_bias);
  return Aligned(biases * static_cast<int64_t>(sizeof(SampleBias)));
}

SampleRow RowOf(const SampleSpec& spec, int64_t vocab_size) {
  const SamplingParams& params = *spec.params;
  SampleRow row;
  row.seed = spec.seed;
  row.position = spec.position;
  row.temperature = params.temperature;
  row.top_p = params.top_p;
  row.min_p = params.min_p;
  row.repetition_penalty = params.repetition_penalty;
  row.presence_penalty = params.presence_penalty;
  row.frequency_penalty = params.frequency_penalty;
  row.top_k = params.top_k < vocab_size ? static_cast<int32_t>(params.top_k) : 0;
  row.num_logprobs = params.num_logprobs;
  row.pending = PenalizesAll(params) || PenalizesOutput(params) ? spec.pending : -1;
  return row;
}

}  // namespace

int64_t SamplePacker::ListBytes(std::span<const SampleSpec> specs) const {
  int64_t edits = 0;
  for (const SampleSpec& spec : specs) {
    const SamplingParams& params = *spec.params;
    int64_t named = std::ssize(params.logit_bias) + std::ssize(spec.masked);
    if (PenalizesAll(params)) named += std::ssize(spec.prompt);
    if (PenalizesAll(params) || PenalizesOutput(params)) named += std::ssize(spec.output);
    edits += std::min(named, static_cast<int64_t>(edits_of_.size()));
  }
  return BiasBytes(specs) + edits * static_cast<int64_t>(sizeof(SampleEdit));
}

int64_t SamplePacker::Pack(std::span<const SampleSpec> specs, std::byte* fixed, std::byte* lists,
                           std::byte* device_lists) {
  const int64_t bias_bytes = BiasBytes(specs);
  auto* header = new (fixed) SampleHeader;
  header->biases = reinterpret_cast<const SampleBias*>(device_lists);
  header->edits = reinterpret_cast<SampleEdit*>(device_lists + bias_bytes);
  header->num_rows = static_cast<int32_t>(specs.size());
  biases_ = reinterpret_cast<SampleBias*>(lists);
  edits_ = reinterpret_cast<SampleEdit*>(lists + bias_bytes);
  num_biases_ = num_edits_ = 0;

  std::byte* rows = fixed + sizeof(SampleHeader);
  for (const SampleSpec& spec : specs) {
    auto* row = new (rows) SampleRow(RowOf(spec, std::ssize(edits_of_)));
    header->top_stride = std::max(header->top_stride, row->num_logprobs);
    PackEdits(spec, *row);
    rows += sizeof(SampleRow);
  }
  return bias_bytes + num_edits_ * static_cast<int64_t>(sizeof(SampleEdit));
}

void SamplePacker::PackEdits(const SampleSpec& spec, SampleRow& row) {
  const SamplingParams& params = *spec.params;
  row.first_edit = num_edits_;
  if (PenalizesAll(params)) {
    for (const TokenId token : spec.prompt) EditOf(token, row).marks |= SampleEdit::kSeen;
  }
  if (PenalizesAll(params) || PenalizesOutput(params)) {
    for (const TokenId token : spec.output) {
      SampleEdit& edit = EditOf(token, row);
      edit.marks = (edit.marks | SampleEdit::kSeen) + SampleEdit::kOneOutput;
    }
  }
  // From the last to the first, each before what there is of its token.
  const std::span biases = params.logit_bias;
  for (size_t i = biases.size(); i-- > 0;) {
    SampleEdit& edit = EditOf(biases[i].first, row);
    new (biases_ + num_biases_) SampleBias{biases[i].second, edit.first_bias};
    edit.first_bias = num_biases_++;
  }
  for (const TokenId token : spec.masked) {
    // As in the reference: an end token that the model does not have cannot be chosen anyway.
    if (token < 0 || token >= std::ssize(edits_of_)) continue;
    EditOf(token, row).marks |= SampleEdit::kMasked;
  }
  for (int32_t i = row.first_edit; i < num_edits_; ++i) edits_of_[edits_[i].token] = kNone;
}

SampleEdit& SamplePacker::EditOf(TokenId token, SampleRow& row) {
  int32_t& index = edits_of_[token];
  if (index == kNone) {
    index = num_edits_++;
    ++row.num_edits;
    new (edits_ + index) SampleEdit{.token = token};
  }
  return edits_[index];
}

int64_t SampleResultsLayout::bytes() const {
  return Aligned(max_rows_ * (sizeof(int32_t) + sizeof(SampleStatus) + sizeof(float))) +
         max_top_ * static_cast<int64_t>(sizeof(SampleTop));
}

SampleResults SampleResultsLayout::At(std::byte* memory) const {
  SampleResults results;
  results.tokens = reinterpret_cast<int32_t*>(memory);
  results.statuses = reinterpret_cast<SampleStatus*>(results.tokens + max_rows_);
  results.logprobs = reinterpret_cast<float*>(results.statuses + max_rows_);
  results.top = reinterpret_cast<SampleTop*>(
      memory + Aligned(max_rows_ * (sizeof(int32_t) + sizeof(SampleStatus) + sizeof(float))));
  return results;
}

int64_t TopBytes(const std::byte* fixed) {
  const auto* header = reinterpret_cast<const SampleHeader*>(fixed);
  return int64_t{header->num_rows} * header->top_stride * int64_t{sizeof(SampleTop)};
}

void UnpackSamples(const std::byte* fixed, int vocab_size, const SampleResults& results,
                   std::vector<SampledToken>& out) {
  const auto* header = reinterpret_cast<const SampleHeader*>(fixed);
  const std::span rows(reinterpret_cast<const SampleRow*>(header + 1),
                       static_cast<size_t>(header->num_rows));
  out.resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    SampledToken& sampled = out[i];
    sampled.token = 0;
    sampled.logprob = 0.0f;
    sampled.top.clear();
    switch (results.statuses[i]) {
      case SampleStatus::kOk:
        sampled.status = absl::OkStatus();
        break;
      case SampleStatus::kNotFinite:
        sampled.status = absl::InternalError(
            absl::StrCat("the logits of token ", rows[i].position, " are not finite"));
        continue;
      case SampleStatus::kAllMasked:
        sampled.status = absl::FailedPreconditionError(
            absl::StrCat("no token can be chosen for position ", rows[i].position, ": all ",
                         vocab_size, " of the vocabulary are masked"));
        continue;
    }
    sampled.token = results.tokens[i];
    sampled.logprob = results.logprobs[i];
    const SampleTop* top = results.top + static_cast<int64_t>(i) * header->top_stride;
    for (int t = 0; t < rows[i].num_logprobs; ++t) {
      sampled.top.push_back({top[t].token, top[t].logprob});
    }
  }
}

}  // namespace luna::backend::cuda
