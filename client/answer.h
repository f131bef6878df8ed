// Puts the events of one Generate stream together.
#ifndef LUNA_CLIENT_ANSWER_H_
#define LUNA_CLIENT_ANSWER_H_

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
  uint64_t next_seq_ = 0;
};

}  // namespace luna::client

#endif  // LUNA_CLIENT_ANSWER_H_
