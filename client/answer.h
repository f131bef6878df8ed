// Puts the events of one Generate stream together, of one continuation or of several.
#ifndef LUNA_CLIENT_ANSWER_H_
#define LUNA_CLIENT_ANSWER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "luna/v1/inference.pb.h"

namespace luna::client {

// What a stream brought, joined. After the stream: `finished` is set, or the status says why not.
struct Answer {
  v1::Accepted accepted;
  v1::Prompt prompt;
  std::string text;
  std::vector<uint32_t> token_ids;
  std::vector<v1::TokenLogprobs> logprobs;
  v1::Finished finished;
  bool has_accepted = false;
  bool has_finished = false;

  // Adds the next event. An error event of the server becomes its status; an event out of order
  // (`seq` not the next, anything after the end) is DATA_LOSS.
  absl::Status Add(const v1::GenerateEvent& event);

 private:
  friend class Answers;
  // Whatever its place in the stream.
  absl::Status Take(const v1::GenerateEvent& event);

  uint64_t next_seq_ = 0;
};

// What a stream of n continuations brought, each joined. One that ends by an error event keeps what
// it had, and leaves the others alone.
class Answers {
 public:
  // n >= 1, as in the request.
  explicit Answers(size_t n) : continuations_(n) {}

  // Adds the next event. DATA_LOSS where the stream breaks its rules: a `seq` that is not the next,
  // an index of n or above, anything after the end of its continuation.
  absl::Status Add(const v1::GenerateEvent& event);

  size_t size() const { return continuations_.size(); }
  // What there is of continuation `index`; whole where ended(index) and status(index) is OK.
  const Answer& answer(size_t index) const { return continuations_[index].answer; }
  bool ended(size_t index) const { return continuations_[index].ended; }
  // Its error event.
  const absl::Status& status(size_t index) const { return continuations_[index].status; }
  // OK when all ended; DATA_LOSS naming the index of the first that did not.
  absl::Status AllEnded() const;

 private:
  struct Continuation {
    Answer answer;
    absl::Status status;
    bool ended = false;
  };

  std::vector<Continuation> continuations_;
  uint64_t next_seq_ = 0;
};

}  // namespace luna::client

#endif  // LUNA_CLIENT_ANSWER_H_
