// A backend whose words depend on every token of a sequence's history, as it finds it in its
// blocks.
#ifndef LUNA_TESTS_FAKES_FAKE_BACKEND_H_
#define LUNA_TESTS_FAKES_FAKE_BACKEND_H_

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/backend/backend.h"
#include "tests/fakes/fake_tokenizer.h"

namespace luna::fakes {

// "Keys and values" of a token are one number made of the token, its position, and the numbers of
// all positions that it sees, read back from their slots. So a wrong table, a block that was given
// away too early, a lost or doubled token changes every word after it; and a slot that does not
// hold the position and group it should is written down in faults().
//
// A step is computed when it is collected, as late as can be, from what was copied at its launch;
// block copies take their place between two steps.
class FakeBackend final : public backend::Backend {
 public:
  explicit FakeBackend(int context_length);

  // Called with the history in the blocks of the first group and the word that the numbers give;
  // returns the word to say. Only for layouts whose first group sees everything.
  using Script = std::function<TokenId(std::span<const TokenId> history, TokenId word)>;
  void set_script(Script script) { script_ = std::move(script); }

  void set_vocab_size(int vocab_size) { info_.vocab_size = vocab_size; }
  void set_depth(int depth) { depth_ = depth; }  // 1 or 2

  // The next Launch, the next Collect, one row of the next step that is collected, or the copy
  // after as many others fails.
  void FailNextLaunch(absl::Status status) { fail_launch_ = std::move(status); }
  void FailNextCollect(absl::Status status) { fail_collect_ = std::move(status); }
  void FailNextRow(size_t row, absl::Status status) { fail_row_ = {row, std::move(status)}; }

  void FailCopyAfter(int copies, absl::Status status) { fail_copy_ = {copies, std::move(status)}; }

  const std::vector<std::string>& faults() const { return faults_; }
  // Of what was launched.
  int64_t steps() const { return steps_; }
  int64_t steps_ahead() const { return steps_ahead_; }    // while another one was in flight
  int64_t copies_ahead() const { return copies_ahead_; }  // blocks copied before such steps
  int64_t computed_tokens() const { return computed_tokens_; }
  int largest_step() const { return largest_step_; }  // tokens
  int in_flight() const { return in_flight_; }

  const backend::BackendInfo& info() const override { return info_; }
  int64_t token_layer_bytes() const override { return 16; }
  absl::Status AllocateKv(const kv::KvLayout& layout, int32_t num_blocks) override;
  int depth() const override { return depth_; }
  absl::Status Launch(const batch::Batch& batch) override;
  absl::Status Collect(batch::StepResult& result) override;
  absl::Status CopyBlocks(std::span<const backend::BlockCopy> copies) override;

 private:
  static constexpr int kMostInFlight = 2;
  struct Slot {
    int32_t group = -1;
    int32_t position = -1;
    TokenId token = -1;
    uint64_t number = 0;
  };
  // What a choice depends on.
  struct Sample {
    int row = 0;
    float temperature = 0;
    int num_logprobs = -1;
    uint64_t seed = 0, position = 0;
    std::vector<TokenId> masked;
  };
  // All that is needed of a launched step; reused.
  struct Flight {
    std::vector<backend::BlockCopy> copies;  // before it
    batch::Batch batch;                      // without what it would borrow
    std::vector<Sample> samples;
  };

  Flight& FlightAt(int i) { return flights_[(oldest_ + i) % kMostInFlight]; }
  static void Take(const batch::Batch& batch, Flight& flight);
  void CheckSample(const batch::Batch& batch, const sample::SampleSpec& spec);
  void CheckPending(const batch::Batch& batch, TokenId token);
  void Compute(Flight& flight);
  void Say(const batch::Batch& batch, int sequence, const Sample& sample,
           sample::SampledToken& out);
  Slot* Find(const batch::Batch& batch, int group, int sequence, int position);
  // Stores the token's number in `group` and returns it.
  uint64_t ComputeToken(const batch::Batch& batch, int group, int sequence, int token);
  TokenId Choose(uint64_t number, const Sample& sample) const;
  void Fault(std::string words);

  backend::BackendInfo info_;
  int depth_ = 1;
  kv::KvLayout layout_;
  std::vector<Slot> slots_;  // [num_blocks, block_tokens]
  std::array<Flight, kMostInFlight> flights_;
  int oldest_ = 0, in_flight_ = 0;
  std::vector<backend::BlockCopy> copies_;     // before the next step
  std::vector<uint64_t> numbers_;              // [num_tokens] of the step, over all groups
  std::vector<sample::SampledToken> samples_;  // of the last step that was computed
  std::vector<TokenId> history_;               // scratch
  Script script_;
  absl::Status fail_launch_, fail_collect_;
  std::optional<std::pair<size_t, absl::Status>> fail_row_;
  std::optional<std::pair<int, absl::Status>> fail_copy_;
  std::vector<std::string> faults_;
  int64_t steps_ = 0, steps_ahead_ = 0, copies_ahead_ = 0, computed_tokens_ = 0;
  int largest_step_ = 0;
};

}  // namespace luna::fakes

#endif  // LUNA_TESTS_FAKES_FAKE_BACKEND_H_
