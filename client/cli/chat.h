// The loop of `luna chat`: reads lines, answers them, obeys /commands and Ctrl-C.
#ifndef LUNA_CLIENT_CLI_CHAT_H_
#define LUNA_CLIENT_CLI_CHAT_H_

#include <istream>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/cli/interrupts.h"
#include "client/client.h"

namespace luna::cli {

struct ChatOptions {
  std::string session_id;  // empty: a new one
  std::optional<std::string> system;
  bool keep = false;  // leaves the session open at the end
  v1::SamplingParams sampling;
  v1::StoppingParams stopping;
  bool to_terminal = false;    // the answer is shown on a terminal: no control characters
  bool from_terminal = false;  // somebody types: prompts, greetings, figures
};

class Chat {
 public:
  // Everything is borrowed for the life of the chat.
  Chat(ChatOptions options, client::Client& client, Interrupts& interrupts, std::istream& in,
       std::ostream& out);

  // Until the end of the input.
  absl::Status Run();

 private:
  // The answer under way, as the thread of Ctrl-C sees it.
  struct Live {
    std::mutex mutex;
    std::string generation_id;  // empty until accepted
    client::Cancellation cancellation;
  };

  absl::Status OpenSession();
  bool ReadLine(std::string& line);
  absl::Status Command(const std::string& line);
  absl::Status Turn(const std::string& text);
  void StopAnswer(Live& live, int times);
  void ShowEnd(const client::Answer& answer);

  const ChatOptions options_;
  client::Client& client_;
  Interrupts& interrupts_;
  std::istream& in_;
  std::ostream& out_;
  std::string session_id_;
  int failures_ = 0;
};

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_CHAT_H_
