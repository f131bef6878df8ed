// The loop of `luna chat`: reads lines, answers them, obeys /commands and Ctrl-C.
#ifndef LUNA_CLIENT_CLI_CHAT_H_
#define LUNA_CLIENT_CLI_CHAT_H_

#include <atomic>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/interrupts.h"
#include "client/client.h"
#include "client/term/keyboard.h"

namespace luna::cli {

struct ChatOptions {
  std::string session_id;  // of a session to join, which stays open at the end; empty: a new one
  std::optional<std::string> system;
  bool keep = false;  // leaves the new session open, too
  v1::SamplingParams sampling;
  v1::StoppingParams stopping;
  bool to_terminal = false;    // the answer is shown on a terminal: no control characters
  bool from_terminal = false;  // somebody types: prompts, greetings, figures
};

class Chat {
 public:
  // Everything is borrowed for the life of the chat.
  Chat(ChatOptions options, client::Client& client, Interrupts& interrupts, term::LineReader& in,
       std::ostream& out);

  // Until the end of the input, or a signal that asks for the end. A session of the chat's own is
  // closed either way.
  absl::Status Run();

 private:
  // The answer under way, as the thread of the signals sees it.
  struct Live {
    std::mutex mutex;
    std::string generation_id;  // empty until accepted
    client::Cancellation cancellation;
  };

  absl::Status OpenSession();
  void ReadAndAnswer();
  absl::Status CloseSession();
  bool ReadLine(std::string& line);
  absl::Status Command(const std::string& line);
  absl::Status Turn(const std::string& text);
  absl::StatusOr<client::Answer> Ask(const std::string& text, Live& live);
  void ShowEnd(const client::Answer& answer);

  void EndOnSignal();
  // On the thread of the signals.
  void End(int signal);
  void StopAnswer(Live& live, int times);

  const ChatOptions options_;
  client::Client& client_;
  Interrupts& interrupts_;
  term::LineReader& in_;
  std::ostream& out_;
  std::string session_id_;
  int failures_ = 0;
  std::atomic<int> ended_by_{0};  // the signal that asked for the end
};

}  // namespace luna::cli

#endif  // LUNA_CLIENT_CLI_CHAT_H_
