// luna generate: one answer, streamed.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/command.h"
#include "client/cli/interrupts.h"
#include "client/cli/number.h"
#include "client/cli/sampling_flags.h"
#include "client/client.h"
#include "client/json.h"
#include "client/term/width.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

struct Options {
  std::string server;
  std::vector<std::string> words;
  SamplingFlags sampling;
  std::string session;
  std::optional<std::string> system;
  std::optional<uint32_t> logprobs;
  bool json = false;
};

std::string ReadStandardInput() {
  if (isatty(STDIN_FILENO) == 1)
    std::cerr << "Type the prompt; Ctrl-D on a line of its own ends it.\n";
  return std::string(std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>());
}

v1::GenerateRequest MakeRequest(const Options& options, const std::string& text) {
  v1::GenerateRequest request;
  request.set_session_id(options.session);
  if (options.system.has_value()) {
    auto* const messages = request.mutable_messages();
    v1::Message* const system = messages->add_messages();
    system->set_role(v1::ROLE_SYSTEM);
    system->set_content(*options.system);
    v1::Message* const user = messages->add_messages();
    user->set_role(v1::ROLE_USER);
    user->set_content(text);
  } else {
    request.set_text(text);
  }
  *request.mutable_sampling() = options.sampling.Sampling();
  *request.mutable_stopping() = options.sampling.Stopping();
  if (options.logprobs) request.mutable_response_options()->set_logprobs(*options.logprobs);
  return request;
}

// False where nothing can be written any more.
bool Print(const std::string& text, bool to_terminal) {
  const std::string shown = to_terminal ? term::WithoutControls(text) : text;
  std::fwrite(shown.data(), 1, shown.size(), stdout);
  return std::fflush(stdout) == 0;
}

absl::Status Run(const Options& options) {
  const std::string text =
      options.words.empty() ? ReadStandardInput() : absl::StrJoin(options.words, " ");
  Interrupts interrupts({SIGINT});
  client::Client client(client::Connect({options.server}));
  client::Cancellation cancellation;
  interrupts.Handle([&cancellation](int, int times) {
    if (times > 1) _exit(1);
    cancellation.Cancel();
  });
  const bool to_terminal = isatty(STDOUT_FILENO) == 1;
  bool line_open = false;
  const auto answer = client.Generate(
      MakeRequest(options, text),
      [&](const v1::GenerateEvent& event) {
        if (options.json || event.delta().text().empty()) return;
        if (!Print(event.delta().text(), to_terminal)) cancellation.Cancel();
        line_open = event.delta().text().back() != '\n';
      },
      &cancellation);
  interrupts.Handle(nullptr);
  if (line_open) std::fputs("\n", stdout);
  LUNA_RETURN_IF_ERROR(answer.status());
  if (options.json) std::fputs(client::Dump(client::ToJson(*answer)).c_str(), stdout);
  const v1::FinishReason reason = answer->finished.reason();
  if (reason == v1::FINISH_REASON_STOP || reason == v1::FINISH_REASON_LENGTH) {
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat("the answer ended by ", AbslView(client::Name(reason))));
}

}  // namespace

void AddGenerate(Registry& registry) {
  auto options = std::make_shared<Options>();
  CLI::App* const command = registry.app.add_subcommand("generate", "Streams one answer");
  AddServerOption(command, &options->server);
  command->add_option("TEXT", options->words, "The prompt; standard input where it is left out");
  CLI::Option* const session =
      command->add_option("--session", options->session, "One more turn of this session")
          ->type_name("ID");
  command->add_option("--system", options->system, "System message; needs a chat model")
      ->excludes(session);
  CLI::Option* const json = command->add_flag(
      "--json", options->json, "Prints text, token ids, finish reason, seed and usage");
  command
      ->add_option("--logprobs", options->logprobs,
                   "Log-probabilities of each token and of the N most probable")
      ->transform(Whole<uint32_t>())
      ->type_name("N")
      ->needs(json);
  options->sampling.Add(command);
  registry.OnParsed(command, options, Run);
}

}  // namespace luna::cli
