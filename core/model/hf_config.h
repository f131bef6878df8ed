// Reads the config.json of a Hugging Face model.
#ifndef LUNA_CORE_MODEL_HF_CONFIG_H_
#define LUNA_CORE_MODEL_HF_CONFIG_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "core/model/config.h"

namespace luna::model {

// `json` as transformers 4 and 5 write it (rope_theta, rope_scaling and rope_local_base_freq, or
// rope_parameters). Absent keys take the defaults of transformers' configuration class. The result
// is valid (ModelConfig::Validate); `name` stays empty. UNIMPLEMENTED names the architecture, or
// the key and value, that is not supported; INVALID_ARGUMENT what is wrong.
absl::StatusOr<ModelConfig> ParseHfConfig(std::string_view json);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_HF_CONFIG_H_
