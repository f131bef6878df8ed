// The parts of a tokenizer.json around its model: what happens to the text before merging, and
// which tokens are put around the ids.
#ifndef LUNA_CORE_TEXT_TOKENIZER_JSON_PIPELINE_H_
#define LUNA_CORE_TEXT_TOKENIZER_JSON_PIPELINE_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/text/tokenizer_data.h"

namespace luna::text {

// Sets the kind and everything about normalization and splitting in `data`. UNIMPLEMENTED names a
// normalizer, pre-tokenizer or pattern that none of the families has.
absl::Status ReadNormalizerAndPreTokenizer(const nlohmann::json& normalizer,
                                           const nlohmann::json& pre_tokenizer, bool byte_fallback,
                                           TokenizerData& data);

// Spellings of the tokens put in front of a text and after it; empty for none.
struct AddedAround {
  std::string before;
  std::string after;
};
absl::StatusOr<AddedAround> ReadPostProcessor(const nlohmann::json& post_processor);

}  // namespace luna::text

#endif  // LUNA_CORE_TEXT_TOKENIZER_JSON_PIPELINE_H_
