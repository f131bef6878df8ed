#include "core/text/incremental_detokenizer.h"

namespace luna::text {

void IncrementalDetokenizer::Append(TokenId id, std::string& out) {
  repairer_.Push(tokenizer_->TokenBytes(id), out);
}

void IncrementalDetokenizer::Flush(std::string& out) { repairer_.Flush(out); }

}  // namespace luna::text
