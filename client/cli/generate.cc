// luna generate: one answer, or n of them, streamed.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/block_printer.h"
#include "client/cli/command.h"
#include "client/cli/interrupts.h"
#include "client/cli/number.h"
#include "client/cli/sampling_flags.h"
#include "client/client.h"
#include "client/json.h"
#include "client/status.h"
#include "client/term/style.h"
#include "core/base/absl_view.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

constexpr uint32_t kMostContinuations = 64;  // of the contract

struct Options {
  std::string server;
  std::vector<std::string> words;
  SamplingFlags sampling;
  std::string session;
  std::optional<std::string> system;
  std::optional<uint32_t> logprobs;
  std::optional<uint32_t> n;
  bool verbose = false;
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
  if (options.n) request.set_n(*options.n);
  if (options.logprobs) request.mutable_response_options()->set_logprobs(*options.logprobs);
  return request;
}

// False where nothing can be written any more.
bool Print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  return std::fflush(stdout) == 0;
}

void PrintNote(const std::string& note) { std::cerr << note << "\n"; }

// One document for one answer; a list where there are several.
void PrintJson(const client::Answers& answers) {
  const bool several = answers.size() > 1;
  Print(client::Dump(several ? client::ToJson(answers) : client::ToJson(answers.answer(0))));
}

// How continuation `index` ended: OK for a stop or a limit.
absl::Status EndOf(const client::Answers& answers, size_t index) {
  LUNA_RETURN_IF_ERROR(answers.status(index));
  const v1::FinishReason reason = answers.answer(index).finished.reason();
  if (reason == v1::FINISH_REASON_STOP || reason == v1::FINISH_REASON_LENGTH) {
    return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat("the answer ended by ", AbslView(client::Name(reason))));
}

// Of several: the code of the first that failed, and what became of each that did.
absl::Status EndOfAll(const client::Answers& answers) {
  if (answers.size() == 1) return EndOf(answers, 0);
  absl::StatusCode code = absl::StatusCode::kOk;
  size_t failed = 0;
  std::string ends;
  for (size_t i = 0; i < answers.size(); ++i) {
    const absl::Status end = EndOf(answers, i);
    if (end.ok()) continue;
    if (++failed == 1) code = end.code();
    absl::StrAppend(&ends, "\n  ", i + 1, " of ", answers.size(), ": ", client::Describe(end));
  }
  if (failed == 0) return absl::OkStatus();
  return absl::Status(code,
                      absl::StrCat(failed, " of ", answers.size(), " continuations failed", ends));
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
  const term::Style style(term::TerminalHasColors());
  const BlockPrinter::Note note = options.verbose ? PrintNote : BlockPrinter::Note();
  BlockPrinter printer(options.n.value_or(1), Print, note, isatty(STDOUT_FILENO) == 1, style);
  const auto answers = client.GenerateMany(
      MakeRequest(options, text),
      [&](const v1::GenerateEvent& event) {
        if (!options.json && !printer.Add(event)) cancellation.Cancel();
      },
      &cancellation);
  interrupts.Handle(nullptr);
  printer.End();
  LUNA_RETURN_IF_ERROR(answers.status());
  // An answer that an error event ended is no document by itself; among others it has its place.
  if (options.json && (answers->size() > 1 || answers->status(0).ok())) PrintJson(*answers);
  return EndOfAll(*answers);
}

}  // namespace

void AddGenerate(Registry& registry) {
  auto options = std::make_shared<Options>();
  CLI::App* const command =
      registry.app.add_subcommand("generate", "Streams one answer, or several");
  AddServerOption(command, &options->server);
  command->add_option("TEXT", options->words, "The prompt; standard input where it is left out");
  CLI::Option* const session =
      command->add_option("--session", options->session, "One more turn of this session")
          ->type_name("ID");
  command->add_option("--system", options->system, "System message; needs a chat model")
      ->excludes(session);
  CLI::Option* const json = command->add_flag(
      "--json", options->json,
      "Prints text, token ids, finish reason, seed and usage; with --n a list of them");
  command
      ->add_option("--logprobs", options->logprobs,
                   "Log-probabilities of each token and of the N most probable")
      ->transform(Whole<uint32_t>())
      ->type_name("N")
      ->needs(json);
  command->add_option("--n", options->n, "Answers to the same prompt, each with a seed of its own")
      ->transform(Whole<uint32_t>(1, kMostContinuations))
      ->type_name("N")
      ->excludes(session);
  command->add_flag("--verbose", options->verbose,
                    "After each answer, on standard error: its tokens, its end and its seed");
  options->sampling.Add(command);
  registry.OnParsed(command, options, Run);
}

}  // namespace luna::cli
