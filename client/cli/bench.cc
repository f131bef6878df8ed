// luna bench: rounds of greedy clients that start together.
#include "client/bench/bench.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/command.h"
#include "client/cli/number.h"
#include "client/json.h"
#include "client/output_file.h"
#include "client/term/line.h"
#include "client/term/style.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

struct Options {
  bench::Options bench;
  std::string json;
};

void PrintRound(int round, const bench::Round& measured) {
  const std::string name = round < 0 ? "warm-up" : absl::StrCat("round ", round + 1);
  std::cout << absl::StrFormat("%-9s %10.1f tokens/s  %8s tokens in %.2f s\n", name,
                               measured.tokens_per_s, term::WithCommas(measured.tokens),
                               measured.seconds)
            << std::flush;
}

void PrintRow(const char* name, const load::Summary& summary) {
  const term::Style style(false);
  term::Line line(style, 80);
  line.Cell(name, 18);
  for (const double value : {summary.p50, summary.p90, summary.p99, summary.max}) {
    line.Cell(summary.count == 0 ? "-" : term::Millis(value), 12, term::Align::kRight);
  }
  std::cout << line.str() << "\n";
}

void PrintResult(const bench::Result& result) {
  const term::Style style(false);
  term::Line head(style, 80);
  head.Cell("", 18);
  for (const char* name : {"p50", "p90", "p99", "max"}) head.Cell(name, 12, term::Align::kRight);
  std::cout << "\n" << head.str() << "\n";
  PrintRow("first token", result.ttft_ms);
  PrintRow("between tokens", result.itl_ms);
  PrintRow("time per token", result.tpot_ms);
  PrintRow("between messages", result.message_ms);
  std::cout << "\n" << result.requests << " requests, " << result.errors << " errors\n";
}

absl::Status Run(const Options& options) {
  std::optional<client::OutputFile> json;
  if (!options.json.empty()) {
    LUNA_ASSIGN_OR_RETURN(auto file, client::OutputFile::Open(options.json));
    json.emplace(std::move(file));
  }
  LUNA_ASSIGN_OR_RETURN(const bench::Result result, bench::Run(options.bench, PrintRound));
  PrintResult(result);
  if (json.has_value()) {
    LUNA_RETURN_IF_ERROR(json->Write(client::Dump(bench::ToJson(options.bench, result))));
  }
  if (result.errors == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(result.errors, " of ", result.requests,
                                         " requests failed; the first: ", result.first_error));
}

}  // namespace

void AddBench(Registry& registry) {
  auto options = std::make_shared<Options>();
  bench::Options& bench = options->bench;
  CLI::App* const command = registry.app.add_subcommand(
      "bench", "Measures: greedy, end tokens ignored, all clients of a round start together");
  command->footer(
      "Gaps between tokens are taken once every client of a round has its first token; a message "
      "of k tokens that comes g after the one before counts as k gaps of g/k.\n");
  AddServerOption(command, &bench.server);
  command->add_option("--clients", bench.clients, "At the same time")
      ->transform(Whole(1, 4096))
      ->capture_default_str();
  command->add_option("--prompt-tokens", bench.prompt_tokens, "Random ids, other ones each time")
      ->transform(Whole(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--max-tokens", bench.max_tokens, "Of every answer")
      ->transform(Whole(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--rounds", bench.rounds, "That count")
      ->transform(Whole(1, 10'000))
      ->capture_default_str();
  command->add_option("--warmup", bench.warmup, "Rounds before, that do not count")
      ->transform(Whole(0, 10'000))
      ->capture_default_str();
  command->add_option("--seed", bench.seed, "Of the prompts")
      ->transform(Whole<uint64_t>())
      ->capture_default_str();
  command->add_option("--connections", bench.connections, "TCP connections, taken in turn")
      ->transform(Whole(1, 4096))
      ->capture_default_str();
  command->add_option("--json", options->json, "Writes the figures into this file")
      ->type_name("FILE");
  registry.OnParsed(command, options, Run);
}

}  // namespace luna::cli
