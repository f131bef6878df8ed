// Small models of every family with seeded random weights, built in memory.
#ifndef LUNA_TESTS_BACKEND_RANDOM_MODEL_H_
#define LUNA_TESTS_BACKEND_RANDOM_MODEL_H_

#include <memory>
#include <string>
#include <vector>

#include "core/model/model.h"

namespace luna::backend {

// "gpt2", "gpt2-plain" (no biases, untied, exact GELU), "llama" (GQA, Llama 3 scaling, untied),
// "llama-q4" (the layers' matrices in Q4_0 and Q4_1), "qwen2" (QKV biases), "gemma3" (two kinds of
// layers, QK norms, four norms). Sizes are chosen to be no multiple of a vector or panel.
std::shared_ptr<model::Model> MakeRandomModel(const std::string& family);
std::vector<std::string> RandomModelFamilies();

// The f32 values behind a tensor of such a model, to be changed by a test.
float* MutableValues(const model::Tensor& tensor);

}  // namespace luna::backend

#endif  // LUNA_TESTS_BACKEND_RANDOM_MODEL_H_
