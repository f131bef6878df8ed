// luna classroom: a class of students, live.
#include "client/classroom/classroom.h"

#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/classroom/report_files.h"
#include "client/cli/command.h"
#include "client/cli/interrupts.h"
#include "client/cli/number.h"
#include "client/term/screen.h"
#include "client/term/style.h"
#include "client/term/width.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

constexpr size_t kStoriesShown = 4;

struct Options {
  classroom::Options room;
  double think_time_s = 2;
  std::optional<double> arrive_over_s;
  std::string prompts;
  std::string report;
};

// A table that is redrawn in place, on a screen that is borrowed.
class LiveViewer final : public classroom::Viewer {
 public:
  LiveViewer(term::Screen& screen, const term::Style& style) : screen_(screen), style_(style) {}

  void Show(const classroom::Frame& frame) override {
    screen_.Draw(classroom::Render(frame, term::TerminalSize(), style_));
  }
  void Note(absl::Duration, std::string_view) override {}  // the report says it

 private:
  term::Screen& screen_;
  const term::Style& style_;
};

class PlainViewer final : public classroom::Viewer {
 public:
  void Show(const classroom::Frame& frame) override {
    std::cout << classroom::ProgressLine(frame) << "\n" << std::flush;
  }
  void Note(absl::Duration elapsed, std::string_view text) override {
    std::cout << absl::StrFormat("[%6.1f s] ", absl::ToDoubleSeconds(elapsed))
              << term::OneLine(text) << "\n"
              << std::flush;
  }
};

absl::StatusOr<classroom::Prompts> LoadPrompts(const Options& options) {
  if (options.prompts.empty()) return classroom::BuiltInPrompts();
  return classroom::ReadPrompts(options.prompts);
}

absl::Status Verdict(const classroom::ClassRecord& record, const classroom::Report& report) {
  if (record.stopped) return absl::CancelledError("the class was stopped");
  if (report.errors.empty()) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat(report.errors.size(), " errors; the first: ", report.errors.front()));
}

absl::StatusOr<classroom::ClassRecord> Teach(const classroom::Options& options,
                                             const classroom::Prompts& prompts, bool live,
                                             const term::Style& style, Interrupts& interrupts) {
  const SystemClock clock;
  term::Screen screen;
  LiveViewer table(screen, style);
  PlainViewer lines;
  classroom::Viewer& viewer = live ? static_cast<classroom::Viewer&>(table) : lines;
  classroom::Classroom room(options, prompts, viewer, clock);
  interrupts.Handle([&room, &screen](int, int times) {
    room.Stop();
    if (times < 3) return;  // a server that answers nothing is not waited for
    screen.GiveBack();
    _exit(1);
  });
  auto record = room.Run(absl::Seconds(live ? 0.125 : 1));
  interrupts.Handle(nullptr);
  return record;
}

absl::Status Run(const Options& options) {
  Interrupts interrupts({SIGINT, SIGTERM, SIGHUP, SIGQUIT});
  LUNA_ASSIGN_OR_RETURN(const classroom::Prompts prompts, LoadPrompts(options));
  std::optional<classroom::ReportFiles> files;
  if (!options.report.empty()) {
    LUNA_ASSIGN_OR_RETURN(auto opened, classroom::ReportFiles::Open(options.report));
    files.emplace(std::move(opened));
  }
  classroom::Options room = options.room;
  room.think_time = absl::Seconds(options.think_time_s);
  room.arrive_over = absl::Seconds(options.arrive_over_s.value_or(0.2 * room.students));
  const bool live = isatty(STDOUT_FILENO) == 1;
  const term::Style style(term::TerminalHasColors());
  LUNA_ASSIGN_OR_RETURN(const auto record, Teach(room, prompts, live, style, interrupts));
  const classroom::Report report = classroom::Summarize(record);
  const int columns = live ? term::TerminalSize().columns : 100;
  std::cout << classroom::RenderText(record, report, columns, kStoriesShown, style) << std::flush;
  if (files.has_value()) {
    LUNA_RETURN_IF_ERROR(files->Write(record, report));
    std::cout << "\n Written: report.md, report.json and stories.txt in " << options.report << "\n";
  }
  return Verdict(record, report);
}

}  // namespace

void AddClassroom(Registry& registry) {
  auto options = std::make_shared<Options>();
  classroom::Options& room = options->room;
  CLI::App* const command = registry.app.add_subcommand(
      "classroom", "A class of students who all talk to the model at once");
  AddServerOption(command, &room.server);
  command->add_option("--students", room.students, "How many")
      ->transform(Whole(1, 1000))
      ->capture_default_str();
  command->add_option("--turns", room.turns, "Answers that each of them asks for")
      ->transform(Whole(1, 1000))
      ->capture_default_str();
  command->add_option("--max-tokens", room.max_tokens, "Of an answer")
      ->transform(Whole<uint32_t>())
      ->capture_default_str();
  command->add_option("--think-time", options->think_time_s, "Seconds between turns, on average")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command
      ->add_option("--arrive-over", options->arrive_over_s,
                   "Seconds from the first student to the last; default 0.2 a student")
      ->check(CLI::Range(0.0, 3600.0));
  command->add_option("--temperature", room.temperature,
                      "Of the sampling; default 0.8, and 0.3 with a model that chats");
  command->add_option("--top-p", room.top_p, "Of the sampling")->capture_default_str();
  command->add_option("--seed", room.seed, "The same seed makes the same class")
      ->transform(Whole<uint64_t>())
      ->capture_default_str();
  command->add_option("--prompts", options->prompts, "Prompts, one a line, instead of the built-in")
      ->type_name("FILE");
  command
      ->add_option("--report", options->report,
                   "Writes report.md, report.json and stories.txt into it")
      ->type_name("DIR");
  registry.OnParsed(command, options, Run);
}

}  // namespace luna::cli
