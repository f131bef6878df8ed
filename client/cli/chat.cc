// luna chat: a conversation in a session of its own.
#include "client/cli/chat.h"

#include <unistd.h>

#include <csignal>
#include <cstring>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/sampling_flags.h"
#include "client/json.h"
#include "client/status.h"
#include "client/term/style.h"
#include "client/term/width.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

constexpr std::string_view kHelp =
    "/reset   forget everything and start anew\n"
    "/memory  what this session holds of the cache\n"
    "/help    this\n"
    "Ctrl-C stops an answer, Ctrl-D ends the chat.\n";

struct Options {
  std::string server;
  SamplingFlags sampling;
  ChatOptions chat;
};

std::string MemoryInWords(const v1::SessionMemory& memory) {
  return absl::StrFormat(
      "%d tokens in %d blocks: %s charged, %s used, peak %s, quota %s; evicted %d times, %d tokens "
      "recomputed\n",
      memory.tokens(), memory.private_blocks() + memory.shared_blocks(),
      term::Bytes(memory.charged_bytes()), term::Bytes(memory.used_bytes()),
      term::Bytes(memory.peak_bytes()), term::Bytes(memory.quota_bytes()), memory.evictions(),
      memory.recomputed_tokens());
}

absl::Status Run(const Options& options) {
  Interrupts interrupts({SIGINT, SIGTERM, SIGHUP});
  client::Client client(client::Connect({options.server}));
  ChatOptions chat_options = options.chat;
  chat_options.sampling = options.sampling.Sampling();
  chat_options.stopping = options.sampling.Stopping();
  chat_options.to_terminal = isatty(STDOUT_FILENO) == 1;
  chat_options.from_terminal = isatty(STDIN_FILENO) == 1;
  term::LineReader lines(STDIN_FILENO);
  Chat chat(std::move(chat_options), client, interrupts, lines, std::cout);
  return chat.Run();
}

}  // namespace

Chat::Chat(ChatOptions options, client::Client& client, Interrupts& interrupts,
           term::LineReader& in, std::ostream& out)
    : options_(std::move(options)), client_(client), interrupts_(interrupts), in_(in), out_(out) {}

absl::Status Chat::Run() {
  EndOnSignal();
  LUNA_RETURN_IF_ERROR(OpenSession());
  ReadAndAnswer();
  EndOnSignal();
  LUNA_RETURN_IF_ERROR(CloseSession());
  if (const int signal = ended_by_; signal != 0) {
    return absl::CancelledError(absl::StrCat("SIG", sigabbrev_np(signal), " ended the chat"));
  }
  // At a terminal every failure was seen and answered; a script gets it as the exit code.
  if (failures_ == 0 || options_.from_terminal) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(failures_, " of the lines failed"));
}

void Chat::ReadAndAnswer() {
  std::string line;
  while (ended_by_ == 0 && ReadLine(line)) {
    if (line.empty()) continue;
    const absl::Status status = line.front() == '/' ? Command(line) : Turn(line);
    if (!status.ok()) {
      std::cerr << client::Describe(status) << "\n";
      ++failures_;
    }
  }
  if (options_.from_terminal) out_ << "\n" << std::flush;
}

// One that was there before the chat stays.
absl::Status Chat::CloseSession() {
  if (!options_.session_id.empty()) return absl::OkStatus();
  if (!options_.keep) return client_.CloseSession(session_id_);
  out_ << "session " << session_id_ << "\n" << std::flush;
  return absl::OkStatus();
}

void Chat::EndOnSignal() {
  interrupts_.Handle([this](int signal, int) {
    if (ended_by_ != 0) _exit(1);  // a server that does not answer is not waited for twice
    End(signal);
  });
}

// Takes effect as soon as the call under way, if there is one, is over.
void Chat::End(int signal) {
  ended_by_ = signal;
  in_.Stop();
}

absl::Status Chat::OpenSession() {
  LUNA_ASSIGN_OR_RETURN(const v1::GetModelResponse model, client_.GetModel());
  v1::Session session;
  if (options_.session_id.empty()) {
    v1::CreateSessionRequest request;
    request.set_label("chat");
    if (options_.system.has_value()) request.set_system(*options_.system);
    LUNA_ASSIGN_OR_RETURN(session, client_.CreateSession(request));
  } else {
    LUNA_ASSIGN_OR_RETURN(session, client_.GetSession(options_.session_id));
  }
  session_id_ = session.id();
  if (!options_.from_terminal) return absl::OkStatus();
  out_ << absl::StrFormat("%s, context %d tokens, %d left. /help tells more.\n",
                          term::OneLine(model.name()), model.context_length(),
                          session.context_left());
  return absl::OkStatus();
}

bool Chat::ReadLine(std::string& line) {
  interrupts_.Handle([this](int signal, int) {
    if (signal != SIGINT || !options_.from_terminal) return End(signal);
    out_ << "\n(Ctrl-D ends the chat)\n> " << std::flush;
  });
  if (options_.from_terminal) out_ << "> " << std::flush;
  return in_.Next(line);
}

absl::Status Chat::Command(const std::string& line) {
  if (line == "/help") {
    out_ << kHelp << std::flush;
    return absl::OkStatus();
  }
  if (line == "/memory") {
    LUNA_ASSIGN_OR_RETURN(const auto memory, client_.GetSessionMemory(session_id_));
    out_ << MemoryInWords(memory) << std::flush;
    return absl::OkStatus();
  }
  if (line == "/reset") {
    LUNA_RETURN_IF_ERROR(client_.ResetSession(session_id_).status());
    out_ << "The session starts anew.\n" << std::flush;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("no command ", line, "; /help lists them"));
}

// Ctrl-C during an answer: stops the generation, once the server has named it.
void Chat::StopAnswer(Live& live, int times) {
  std::string id;
  {
    const std::lock_guard lock(live.mutex);
    id = live.generation_id;
  }
  // Before it was accepted, or where asking did not help: the stream is dropped, and the turn with
  // it.
  if (id.empty() || times > 1 || !client_.Abort(id, /*keep_partial=*/true).ok()) {
    live.cancellation.Cancel();
  }
}

absl::StatusOr<client::Answer> Chat::Ask(const std::string& text, Live& live) {
  v1::GenerateRequest request;
  request.set_session_id(session_id_);
  request.set_text(text);
  *request.mutable_sampling() = options_.sampling;
  *request.mutable_stopping() = options_.stopping;
  return client_.Generate(
      request,
      [this, &live](const v1::GenerateEvent& event) {
        if (event.has_accepted()) {
          const std::lock_guard lock(live.mutex);
          live.generation_id = event.accepted().generation_id();
        }
        if (!event.has_delta()) return;
        const std::string& delta = event.delta().text();
        out_ << (options_.to_terminal ? term::WithoutControls(delta) : delta) << std::flush;
      },
      &live.cancellation);
}

absl::Status Chat::Turn(const std::string& text) {
  Live live;
  interrupts_.Handle([this, &live](int signal, int times) {
    if (signal == SIGINT) return StopAnswer(live, times);
    End(signal);
    live.cancellation.Cancel();
  });
  const auto answer = Ask(text, live);
  EndOnSignal();
  out_ << "\n" << std::flush;
  if (ended_by_ != 0) return absl::OkStatus();  // whatever became of it, the chat is over
  if (absl::IsCancelled(answer.status()) && live.cancellation.cancelled()) {
    out_ << "(stopped; the turn is forgotten)\n" << std::flush;
    return absl::OkStatus();
  }
  if (absl::IsOutOfRange(answer.status())) {
    return absl::OutOfRangeError(absl::StrCat(answer.status().message(), "\n  /reset starts anew"));
  }
  LUNA_RETURN_IF_ERROR(answer.status());
  if (options_.from_terminal) ShowEnd(*answer);
  if (answer->finished.reason() == v1::FINISH_REASON_ERROR) {
    return absl::InternalError("the answer ended by an error");
  }
  return absl::OkStatus();
}

void Chat::ShowEnd(const client::Answer& answer) {
  const v1::Usage& usage = answer.finished.usage();
  const double seconds = (usage.total_ms() - usage.ttft_ms()) / 1000;
  std::string line = absl::StrFormat("(%d tokens", usage.completion_tokens());
  if (seconds > 0 && usage.completion_tokens() > 1) {
    absl::StrAppend(&line,
                    absl::StrFormat(", %.1f a second", (usage.completion_tokens() - 1) / seconds));
  }
  const v1::FinishReason reason = answer.finished.reason();
  if (reason == v1::FINISH_REASON_CANCELLED) absl::StrAppend(&line, ", stopped");
  if (reason == v1::FINISH_REASON_LENGTH) {
    absl::StrAppend(&line, ", cut: ", AbslView(client::Name(answer.finished.limit())));
  }
  const term::Style style(term::TerminalHasColors());
  out_ << style.Paint(term::Color::kDim, line + ")") << "\n" << std::flush;
}

void AddChat(Registry& registry) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      registry.app.add_subcommand("chat", "A conversation that keeps its session");
  AddServerOption(command, &options->server);
  CLI::Option* const session =
      command
          ->add_option("--session", options->chat.session_id,
                       "Goes on with this session, which stays open at the end")
          ->type_name("ID");
  command->add_option("--system", options->chat.system, "System message; needs a chat model")
      ->excludes(session);
  command->add_flag("--keep", options->chat.keep, "Leaves the session open and prints its id");
  // A small model that chats wanders off at the temperature of its training.
  options->sampling.temperature = 0.3f;
  options->sampling.top_p = 0.9f;
  options->sampling.max_tokens = 512;
  options->sampling.Add(command);
  registry.OnParsed(command, options, Run);
}

}  // namespace luna::cli
