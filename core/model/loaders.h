// The ways to a Model, one for each kind of file. LoadModel (model.h) chooses.
#ifndef LUNA_CORE_MODEL_LOADERS_H_
#define LUNA_CORE_MODEL_LOADERS_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/model/config.h"
#include "core/model/model.h"
#include "core/model/tensor_table.h"

namespace luna::model {

// `directory` holds config.json. Errors as LoadModel's.
absl::StatusOr<std::unique_ptr<Model>> LoadHfDirectory(const std::string& directory);
absl::StatusOr<std::unique_ptr<Model>> LoadGgufFile(const std::string& path);
// The file's content; the model keeps `owner` and views into `bytes`. `name` is for messages.
absl::StatusOr<std::unique_ptr<Model>> LoadGguf(std::span<const std::byte> bytes,
                                                std::shared_ptr<const void> owner,
                                                const std::string& name);
// `shape` is what follows "dummy:". NOT_FOUND names the shapes there are.
absl::StatusOr<std::unique_ptr<Model>> MakeDummyModel(std::string_view shape);

// Fills `weights` from tensors named as transformers names them, for a valid `config`.
absl::Status TakeHfWeights(const ModelConfig& config, TensorTable& table, Weights& weights);
// The same for GGUF's names; may add rope_freq_factors to `config`.
absl::Status TakeGgufWeights(ModelConfig& config, TensorTable& table, Weights& weights);

// Makes `data` exactly `vocab_size` tokens: models pad their vocabulary (unused tokens are added),
// and some tokenizers name control tokens that the model has no row for (they are dropped, and with
// them what refers to them). INVALID_ARGUMENT if an ordinary token would have to be dropped.
absl::Status FitVocabulary(int vocab_size, text::TokenizerData& data);

// Hex hash of what a saved session depends on: see Model::digest.
std::string ModelDigest(const Model& model);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_LOADERS_H_
