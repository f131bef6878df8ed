// luna sessions save | restore: a session as a file, here or in the server's state directory.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/atomic_file.h"
#include "client/cli/interrupts.h"
#include "client/cli/session_commands.h"
#include "client/client.h"
#include "client/json.h"
#include "client/term/style.h"
#include "core/base/status_macros.h"

namespace luna::cli {
namespace {

constexpr char kStandardStream[] = "-";

struct Options {
  std::string server;
  std::string id;
  std::string file;  // one of these two is set
  std::string name;
  bool force = false;
  bool json = false;
};

// Empty if `name` can be an entry of a state directory, else what is wrong with it.
std::string CheckName(const std::string& name) {
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
  constexpr size_t kMostLetters = 64;
  const bool fits = !name.empty() && name.size() <= kMostLetters;
  if (fits && name.find_first_not_of(kLetters) == name.npos) return "";
  return absl::StrCat("'", name, "' is not a name of 1 to ", kMostLetters,
                      " of the letters a-z A-Z 0-9 and - _");
}

// Runs `work` with a cancellation that the signals which end a program set; the second such signal
// does not wait for it.
absl::Status WithSignals(const std::function<absl::Status(client::Cancellation&)>& work) {
  Interrupts interrupts({SIGINT, SIGTERM, SIGHUP});
  client::Cancellation cancellation;
  interrupts.Handle([&cancellation](int, int times) {
    if (times > 1) _exit(1);
    cancellation.Cancel();
  });
  const absl::Status status = work(cancellation);
  interrupts.Handle(nullptr);
  return status;
}

absl::Status SaveToStandardOutput(const Options& options, client::Client& client,
                                  client::Cancellation& cancellation) {
  if (isatty(STDOUT_FILENO) == 1) {
    return absl::FailedPreconditionError("standard output is a terminal; a snapshot is not text");
  }
  return client.SaveSession(
      options.id,
      [](std::string_view data) -> absl::Status {
        std::cout.write(data.data(), static_cast<std::streamsize>(data.size()));
        return std::cout.good() ? absl::OkStatus()
                                : absl::UnknownError("cannot write to standard output");
      },
      &cancellation);
}

absl::StatusOr<uint64_t> SaveToFile(const Options& options, client::Client& client,
                                    client::Cancellation& cancellation) {
  LUNA_ASSIGN_OR_RETURN(client::AtomicFile file,
                        client::AtomicFile::Create(options.file, options.force));
  uint64_t bytes = 0;
  LUNA_RETURN_IF_ERROR(client.SaveSession(
      options.id,
      [&file, &bytes](std::string_view data) {
        bytes += data.size();
        return file.Append(data);
      },
      &cancellation));
  LUNA_RETURN_IF_ERROR(file.Commit());
  return bytes;
}

absl::Status SaveToName(const Options& options, client::Client& client) {
  LUNA_RETURN_IF_ERROR(client.SaveSessionAs(options.id, options.name));
  if (options.json) {
    std::cout << client::Dump({{"session_id", options.id}, {"name", options.name}});
  } else {
    std::cout << "saved on the server as " << options.name << "\n";
  }
  return absl::OkStatus();
}

absl::Status Save(const Options& options) {
  const bool to_output = options.name.empty() && options.file == kStandardStream;
  if (to_output && options.json) {
    return absl::InvalidArgumentError("--json: standard output takes the snapshot itself");
  }
  return WithSignals([&](client::Cancellation& cancellation) -> absl::Status {
    client::Client client(client::Connect({options.server}));
    if (!options.name.empty()) return SaveToName(options, client);
    if (to_output) return SaveToStandardOutput(options, client, cancellation);
    LUNA_ASSIGN_OR_RETURN(const uint64_t bytes, SaveToFile(options, client, cancellation));
    if (options.json) {
      std::cout << client::Dump(
          {{"session_id", options.id}, {"file", options.file}, {"bytes", bytes}});
    } else {
      std::cout << term::Bytes(bytes) << " saved to " << options.file << "\n";
    }
    return absl::OkStatus();
  });
}

// Closes on destruction, but for standard input.
class Input {
 public:
  static absl::StatusOr<Input> Open(const std::string& path) {
    if (path == kStandardStream) return Input("standard input", STDIN_FILENO);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    return Input(path, fd);
  }
  ~Input() {
    if (fd_ > STDIN_FILENO) close(fd_);
  }
  Input(Input&& other) noexcept : path_(other.path_), fd_(std::exchange(other.fd_, -1)) {}
  Input& operator=(Input&&) = delete;

  // The next piece; empty at the end. A file that is empty altogether is an error.
  absl::StatusOr<std::string> Next() {
    std::string data(client::Client::kMaxChunkBytes, '\0');
    ssize_t got = 0;
    do {
      got = read(fd_, data.data(), data.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_));
    if (got == 0 && at_start_) {
      return absl::InvalidArgumentError(absl::StrCat(path_, " is empty; no session is in it"));
    }
    at_start_ = false;
    data.resize(static_cast<size_t>(got));
    return data;
  }

 private:
  Input(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  const std::string path_;
  int fd_;
  bool at_start_ = true;
};

absl::StatusOr<v1::Session> RestoreFrom(const Options& options, client::Client& client,
                                        client::Cancellation& cancellation) {
  if (!options.name.empty()) return client.RestoreSessionFrom(options.name);
  LUNA_ASSIGN_OR_RETURN(Input input, Input::Open(options.file));
  return client.RestoreSession([&input] { return input.Next(); }, &cancellation);
}

absl::Status Restore(const Options& options) {
  return WithSignals([&options](client::Cancellation& cancellation) -> absl::Status {
    client::Client client(client::Connect({options.server}));
    LUNA_ASSIGN_OR_RETURN(const v1::Session session, RestoreFrom(options, client, cancellation));
    if (session.other_numerics()) {
      std::cerr << "luna: this server has other numerics than the one it was saved on: its next "
                   "words may differ\n";
    }
    std::cout << (options.json ? client::Dump(client::ToJson(session)) : session.id() + "\n");
    return absl::OkStatus();
  });
}

// --file and --name, one of which has to be given.
void AddPlace(CLI::App* command, Options& options, const char* file_help) {
  CLI::Option_group* const place = command->add_option_group("Place");
  place->add_option("--file", options.file, file_help)
      ->type_name("PATH")
      ->check([](const std::string& path) { return path.empty() ? "'' is not a path" : ""; }, "");
  place->add_option("--name", options.name, "An entry of the server's state directory")
      ->type_name("NAME")
      ->check(CheckName, "");
  place->require_option(1);
}

}  // namespace

void AddSessionFiles(Registry& registry, CLI::App* sessions) {
  auto save_options = std::make_shared<Options>();
  CLI::App* const save = sessions->add_subcommand(
      "save", "Keeps history, parameters and limits; the session stays open");
  AddServerOption(save, &save_options->server);
  save->add_option("ID", save_options->id, "The session's id")->required();
  AddPlace(save, *save_options,
           "A file here, which only its owner can read: the whole conversation is in it; "
           "-: standard output");
  save->add_flag("--force", save_options->force, "Replaces the file where there is one");
  save->add_flag("--json", save_options->json, "JSON instead of a line");
  registry.OnParsed(save, save_options, Save);

  auto restore_options = std::make_shared<Options>();
  CLI::App* const restore = sessions->add_subcommand(
      "restore", "Opens a saved session again under its old id; prints the id");
  AddServerOption(restore, &restore_options->server);
  AddPlace(restore, *restore_options, "A file here; -: standard input");
  restore->add_flag("--json", restore_options->json, "The session as JSON instead of its id");
  registry.OnParsed(restore, restore_options, Restore);
}

}  // namespace luna::cli
