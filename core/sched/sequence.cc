#include "core/sched/sequence.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace luna::sched {
namespace {

// An answer longer than this in bytes a token only costs a reallocation.
constexpr int64_t kBytesPerToken = 8;

}  // namespace

Sequence::Sequence(SequenceSpec spec, SessionCache* cache, const text::Tokenizer* tokenizer)
    : spec_(std::move(spec)),
      cache_(cache),
      tokenizer_(tokenizer),
      tokens_(std::move(spec_.prompt)),
      prompt_tokens_(static_cast<int>(tokens_.size())),
      ending_ids_(spec_.stopping.stop_ids),
      detokenizer_(tokenizer),
      stop_matcher_(spec_.stopping.stop) {
  LUNA_CHECK(prompt_tokens_ > 0);
  LUNA_CHECK_GE(spec_.stopping.max_tokens, 1);
  if (!spec_.stopping.ignore_eos) {
    const std::vector<TokenId>& end_ids = tokenizer->data().end_ids;
    ending_ids_.insert(ending_ids_.end(), end_ids.begin(), end_ids.end());
  }
}

void Sequence::Reserve() {
  tokens_.reserve(prompt_tokens_ + spec_.stopping.max_tokens);
  answer_.reserve(kBytesPerToken * spec_.stopping.max_tokens);
  piece_.reserve(64);
  cache_->kv.Reserve(static_cast<int>(final_computed_tokens()));
}

sample::SampleSpec Sequence::Sample(int row, int pending) const {
  const int coming = pending < 0 ? 0 : 1;
  sample::SampleSpec spec{
      .row = row,
      .params = &spec_.sampling,
      .seed = spec_.seed,
      .position = tokens_.size() + coming,
      .prompt = tokens().first(prompt_tokens_),
      .output = output(),
      .masked = {},
      .pending = pending,
  };
  if (output_tokens() + coming < spec_.stopping.min_tokens) spec.masked = ending_ids_;
  return spec;
}

bool Sequence::Ends(TokenId token) const {
  return std::find(ending_ids_.begin(), ending_ids_.end(), token) != ending_ids_.end();
}

Ending Sequence::Append(TokenId token) {
  fresh_begin_ = answer_.size();
  tokens_.push_back(token);
  Ending ending;
  if (Ends(token)) {
    ending.kind = Ending::Kind::kStopId;
  } else {
    piece_.clear();
    // A model may have more rows in its head than its tokenizer has words.
    if (token < tokenizer_->vocab_size()) detokenizer_.Append(token, piece_);
    const bool armed = output_tokens() >= spec_.stopping.min_tokens;
    ending.stop_string = stop_matcher_.Append(piece_, armed, answer_);
    if (ending.stop_string >= 0) {
      ending.kind = Ending::Kind::kStopString;
      return ending;  // what followed the stop is nobody's
    }
    if (output_tokens() >= spec_.stopping.max_tokens) ending.kind = Ending::Kind::kMaxTokens;
  }
  if (ending.ended()) {
    stop_matcher_.Flush(answer_);
    detokenizer_.Flush(answer_);
  }
  return ending;
}

void Sequence::Flush() {
  fresh_begin_ = answer_.size();
  stop_matcher_.Flush(answer_);
  detokenizer_.Flush(answer_);
}

}  // namespace luna::sched
