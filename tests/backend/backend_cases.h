// Every backend and code path that this machine can run: what suites are instantiated over.
#ifndef LUNA_TESTS_BACKEND_BACKEND_CASES_H_
#define LUNA_TESTS_BACKEND_BACKEND_CASES_H_

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/cuda/cuda_backend.h"
#include "core/backend/factory/factory.h"
#include "core/base/check.h"
#include "tests/backend/test_device.h"

namespace luna::backend {

struct BackendCase {
  std::string backend;
  std::string code_path;
  WeightsFormat weights = WeightsFormat::kF32;
  KvDtype kv_dtype = KvDtype::kF32;
  std::string label() const {
    std::string label = code_path.empty() ? backend : backend + "_" + code_path;
    if (weights != WeightsFormat::kF32) label.append("_").append(WeightsFormatName(weights));
    if (kv_dtype != KvDtype::kF32) label.append("_kv_").append(KvDtypeName(kv_dtype));
    return label;
  }
  friend std::ostream& operator<<(std::ostream& out, const BackendCase& c) {
    return out << c.label();
  }
};

// Those that compute with the file's weights, and with keys and values as they come, in f32.
inline std::vector<BackendCase> ExactBackendCases() {
  std::vector<BackendCase> cases = {{.backend = "reference", .code_path = ""}};
  for (const std::string& path : CpuCodePaths()) {
    cases.push_back({.backend = "cpu", .code_path = path});
  }
  cases.push_back({.backend = "cuda", .code_path = ""});
  return cases;
}

// Those that round the weights, keys and values.
inline std::vector<BackendCase> RoundingBackendCases() {
  std::vector<BackendCase> cases;
  for (const std::string& path : CpuCodePaths()) {
    const BackendCase cpu = {.backend = "cpu", .code_path = path};
    for (const auto& [weights, kv_dtype] : {std::pair{WeightsFormat::kBf16, KvDtype::kBf16},
                                            {WeightsFormat::kInt8, KvDtype::kInt8},
                                            {WeightsFormat::kF32, KvDtype::kInt8}}) {
      BackendCase c = cpu;
      c.weights = weights;
      c.kv_dtype = kv_dtype;
      cases.push_back(c);
    }
  }
  for (const WeightsFormat weights : {WeightsFormat::kBf16, WeightsFormat::kInt8}) {
    cases.push_back({.backend = "cuda", .code_path = "", .weights = weights});
    cases.back().kv_dtype = KvDtype::kBf16;
  }
  return cases;
}

// Those that keep a file's own 4 bits: for the family "llama-q4".
inline std::vector<BackendCase> Int4BackendCases() {
  std::vector<BackendCase> cases;
  for (const std::string& path : CpuCodePaths()) {
    BackendCase c = {.backend = "cpu", .code_path = path};
    c.weights = WeightsFormat::kInt4;
    c.kv_dtype = KvDtype::kInt8;
    cases.push_back(c);
  }
  return cases;
}

inline std::vector<BackendCase> AllBackendCases() {
  std::vector<BackendCase> cases = ExactBackendCases();
  for (const BackendCase& c : RoundingBackendCases()) cases.push_back(c);
  return cases;
}

// By the factory; "cuda" on the device that tests run on.
inline absl::StatusOr<std::unique_ptr<Backend>> TryMakeBackend(
    const BackendCase& c, std::shared_ptr<const model::Model> model, BackendOptions options) {
  options.weights = c.weights;
  options.kv_dtype = c.kv_dtype;
  options.code_path = c.code_path;
  if (c.backend != "cuda") return MakeBackend(c.backend, std::move(model), options);
  return MakeCudaBackend(std::move(model), options, cuda::MakeTestDevice(), cuda::TestKernels());
}

inline std::unique_ptr<Backend> MustMakeBackend(const BackendCase& c,
                                                std::shared_ptr<const model::Model> model,
                                                int num_threads = 2, int max_batch_tokens = 256) {
  BackendOptions options;
  options.num_threads = num_threads;
  options.max_batch_tokens = max_batch_tokens;
  options.share_small_steps = true;
  auto made = TryMakeBackend(c, std::move(model), options);
  LUNA_CHECK(made.ok()) << made.status();
  return *std::move(made);
}

}  // namespace luna::backend

#endif  // LUNA_TESTS_BACKEND_BACKEND_CASES_H_
