// Every backend and code path that this machine can run: what suites are instantiated over.
#ifndef LUNA_TESTS_BACKEND_BACKEND_CASES_H_
#define LUNA_TESTS_BACKEND_BACKEND_CASES_H_

#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "core/backend/backend.h"
#include "core/backend/cpu/cpu_backend.h"
#include "core/backend/factory/factory.h"
#include "core/base/check.h"

namespace luna::backend {

struct BackendCase {
  std::string backend;
  std::string code_path;
  std::string label() const { return code_path.empty() ? backend : backend + "_" + code_path; }
  friend std::ostream& operator<<(std::ostream& out, const BackendCase& c) {
    return out << c.label();
  }
};

inline std::vector<BackendCase> AllBackendCases() {
  std::vector<BackendCase> cases = {{"reference", ""}};
  for (const std::string& path : CpuCodePaths()) cases.push_back({"cpu", path});
  return cases;
}

inline std::unique_ptr<Backend> MustMakeBackend(const BackendCase& c,
                                                std::shared_ptr<const model::Model> model,
                                                int num_threads = 2, int max_batch_tokens = 256) {
  auto made = MakeBackend(c.backend, std::move(model),
                          {.num_threads = num_threads,
                           .max_batch_tokens = max_batch_tokens,
                           .code_path = c.code_path,
                           .share_small_steps = true});
  LUNA_CHECK(made.ok()) << made.status();
  return *std::move(made);
}

}  // namespace luna::backend

#endif  // LUNA_TESTS_BACKEND_BACKEND_CASES_H_
