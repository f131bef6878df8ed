// What a class is asked to do.
#ifndef LUNA_CLIENT_CLASSROOM_OPTIONS_H_
#define LUNA_CLIENT_CLASSROOM_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"

namespace luna::classroom {

struct Options {
  std::string server;
  int students = 30;
  int turns = 2;                                  // answers that each student asks for
  uint32_t max_tokens = 240;                      // of an answer
  absl::Duration think_time = absl::Seconds(2);   // mean; each pause is between half and 1.5 of it
  absl::Duration arrive_over = absl::Seconds(5);  // from the first student to the last
  std::optional<float> temperature;  // unset: 0.8 for stories, 0.3 for a model that chats
  float top_p = 0.95f;
  // Decides who is there, what is asked, and every seed: the same class again.
  uint64_t seed = 1;
};

}  // namespace luna::classroom

#endif  // LUNA_CLIENT_CLASSROOM_OPTIONS_H_
