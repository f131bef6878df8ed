// `luna bench` for llama-server: the same rounds, the same prompts, the same figures, over its HTTP
// API. One thread and one connection per client, all connected before a round starts.
//   luna-peer-load --server HOST:PORT --vocab-size N [--end-id ID...] [options of luna bench]
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/bench/bench.h"
#include "client/output_file.h"
#include "core/base/status_macros.h"
#include "tests/benchmarks/event_stream.h"

namespace luna::benchmarks {
namespace {

struct Options {
  bench::Options bench;
  v1::GetModelResponse model;  // what prompts are made of
  std::string json;
};

absl::Status SystemError(std::string_view what) {
  return absl::UnavailableError(absl::StrCat(std::string(what), ": ", std::strerror(errno)));
}

absl::StatusOr<int> Connect(const std::string& server) {
  const size_t colon = server.rfind(':');
  if (colon == std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("--server ", server, " is not HOST:PORT"));
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string host = server.substr(0, colon), port = server.substr(colon + 1);
  if (const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return absl::UnavailableError(absl::StrCat(server, ": ", gai_strerror(error)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return SystemError("no socket");
  if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
    const absl::Status status = SystemError(server);
    close(fd);
    return status;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

std::string MakeRequest(const Options& options, int round, int client) {
  const bench::Options& bench = options.bench;
  const nlohmann::json body = {{"prompt", bench::RandomPrompt(options.model, bench.prompt_tokens,
                                                              bench.seed, round, client)},
                               {"n_predict", bench.max_tokens},
                               {"temperature", 0},
                               {"ignore_eos", true},
                               {"cache_prompt", false},
                               {"stream", true}};
  const std::string text = body.dump();
  return absl::StrCat("POST /completion HTTP/1.1\r\nHost: ", bench.server,
                      "\r\nContent-Type: application/json\r\nContent-Length: ", text.size(),
                      "\r\n\r\n", text);
}

// One client of one round.
class Call {
 public:
  Call(int fd, std::string request)
      : fd_(fd),
        request_(std::move(request)),
        stream_([this](std::string_view data) { OnData(data); }) {}
  ~Call() { close(fd_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  int fd() const { return fd_; }
  bool done() const { return outcome_.finished || !outcome_.status.ok(); }
  bench::Outcome TakeOutcome() { return std::move(outcome_); }

  void Send() {
    outcome_.timing.Start(absl::Now());
    for (std::string_view rest = request_; !rest.empty();) {
      const ssize_t sent = send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0) {
        outcome_.status = SystemError("sending failed");
        return;
      }
      rest.remove_prefix(static_cast<size_t>(sent));
    }
  }

  void Receive() {
    char bytes[16384];
    const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
    now_ = absl::Now();
    if (count < 0) {
      outcome_.status = SystemError("receiving failed");
    } else if (count == 0) {
      outcome_.status = absl::UnavailableError("the server closed the connection");
    } else {
      outcome_.status.Update(stream_.Feed({bytes, static_cast<size_t>(count)}));
    }
  }

 private:
  // Text may be held back until a character is whole: the server's own count says how many tokens
  // an event stands for. An older server that does not count sends one token an event.
  void OnData(std::string_view data) {
    const auto event = nlohmann::json::parse(data, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) return;
    if (event.contains("error")) {
      outcome_.status = absl::InternalError(event["error"].dump());
      return;
    }
    const bool last = event.value("stop", false);
    const uint64_t seen = outcome_.timing.tokens();
    const uint64_t tokens = event.value("tokens_predicted", last ? seen : seen + 1);
    if (tokens > seen) outcome_.timing.Arrive(now_, static_cast<uint32_t>(tokens - seen));
    if (last) outcome_.finished = true;
  }

  const int fd_;
  const std::string request_;
  bench::Outcome outcome_;
  absl::Time now_;
  EventStream stream_;
};

absl::StatusOr<std::vector<bench::Outcome>> RunRound(const Options& options, int round) {
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < options.bench.clients; ++i) {
    LUNA_ASSIGN_OR_RETURN(const int fd, Connect(options.bench.server));
    calls.push_back(std::make_unique<Call>(fd, MakeRequest(options, round, i)));
  }
  std::vector<pollfd> waits;
  for (const auto& call : calls) {
    call->Send();
    waits.push_back({call->done() ? -1 : call->fd(), POLLIN, 0});
  }
  const auto waiting = [](const pollfd& wait) { return wait.fd >= 0; };
  while (std::any_of(waits.begin(), waits.end(), waiting)) {
    if (poll(waits.data(), waits.size(), /*timeout=*/-1) < 0 && errno != EINTR) {
      return SystemError("waiting failed");
    }
    for (size_t i = 0; i < calls.size(); ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0) continue;
      calls[i]->Receive();
      if (calls[i]->done()) waits[i].fd = -1;
    }
  }
  std::vector<bench::Outcome> outcomes;
  for (const auto& call : calls) outcomes.push_back(call->TakeOutcome());
  return outcomes;
}

absl::Status Run(const Options& options) {
  LUNA_ASSIGN_OR_RETURN(auto file, client::OutputFile::Open(options.json));
  bench::Tally tally(options.bench.max_tokens);
  for (int round = -options.bench.warmup; round < options.bench.rounds; ++round) {
    LUNA_ASSIGN_OR_RETURN(std::vector<bench::Outcome> outcomes, RunRound(options, round));
    const bench::Round measured = tally.Add(std::move(outcomes), /*counts=*/round >= 0);
    std::printf("round %d: %.1f tokens/s\n", round + 1, measured.tokens_per_s);
  }
  bench::Result result = std::move(tally).Finish();
  result.model = options.model;
  LUNA_RETURN_IF_ERROR(file.Write(client::Dump(bench::ToJson(options.bench, result))));
  if (result.errors == 0) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(result.errors, " of ", result.requests,
                                         " requests failed; the first: ", result.first_error));
}

int Main(int argc, char** argv) {
  Options options;
  uint32_t vocab_size = 0;
  std::vector<uint32_t> end_ids;
  CLI::App app("Rounds of greedy clients that start together, for llama-server");
  app.add_option("--server", options.bench.server, "HOST:PORT")->required();
  app.add_option("--vocab-size", vocab_size, "Of the model")
      ->required()
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("--end-id", end_ids, "A token that no prompt may hold");
  app.add_option("--clients", options.bench.clients)->check(CLI::Range(1, 1024));
  app.add_option("--prompt-tokens", options.bench.prompt_tokens)->check(CLI::Range(1, 1 << 20));
  app.add_option("--max-tokens", options.bench.max_tokens)->check(CLI::Range(1, 1 << 20));
  app.add_option("--rounds", options.bench.rounds)->check(CLI::Range(1, 10'000));
  app.add_option("--warmup", options.bench.warmup)->check(CLI::Range(0, 10'000));
  app.add_option("--seed", options.bench.seed);
  app.add_option("--json", options.json, "Takes the figures")->required();
  CLI11_PARSE(app, argc, argv);
  options.model.set_name("peer");
  options.model.set_backend("llama-server");
  options.model.set_vocab_size(vocab_size);
  options.model.mutable_end_ids()->Add(end_ids.begin(), end_ids.end());
  options.bench.connections = options.bench.clients;
  const absl::Status status = Run(options);
  if (!status.ok()) std::fprintf(stderr, "luna-peer-load: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace luna::benchmarks

int main(int argc, char** argv) { return luna::benchmarks::Main(argc, argv); }
