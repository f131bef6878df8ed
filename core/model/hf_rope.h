// Rotary position settings of a Hugging Face config.json.
#ifndef LUNA_CORE_MODEL_HF_ROPE_H_
#define LUNA_CORE_MODEL_HF_ROPE_H_

#include "core/model/config.h"
#include "core/model/json_fields.h"

namespace luna::model {

// Sets rope_scaling and every layer's RoPE fields of `config` (whose layers have their
// sliding_window by now). Errors go to `fields`.
void ReadHfRope(JsonFields& fields, ModelConfig& config);

}  // namespace luna::model

#endif  // LUNA_CORE_MODEL_HF_ROPE_H_
