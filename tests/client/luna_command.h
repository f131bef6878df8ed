// The luna binary, run as a shell would, alone or against a fake server.
#ifndef LUNA_TESTS_CLIENT_LUNA_COMMAND_H_
#define LUNA_TESTS_CLIENT_LUNA_COMMAND_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/client/fake/fake_server.h"
#include "tests/client/subprocess.h"

namespace luna::testing_support {

struct Outcome {
  int code = -1;
  std::string out;
  std::string err;
  nlohmann::json Json() const { return nlohmann::json::parse(out); }
};

inline Outcome Luna(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), LUNA_BINARY);
  Subprocess process(arguments);
  process.Write(input);
  Outcome outcome;
  outcome.code = process.Wait();
  outcome.out = process.output();
  outcome.err = process.error();
  return outcome;
}

class CliWithServerTest : public testing::Test {
 protected:
  void Start(fake::Behaviour behaviour = {}) { server_.emplace(std::move(behaviour)); }
  void StartEndless() {
    fake::Behaviour behaviour;
    behaviour.endless = true;
    Start(behaviour);
  }

  Outcome Run(std::vector<std::string> arguments, const std::string& input = "") {
    return Luna(WithServer(std::move(arguments)), input);
  }

  std::vector<std::string> WithServer(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--server", server_->address()});
    return arguments;
  }

  // The whole command line, for a process of one's own.
  std::vector<std::string> Command(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), LUNA_BINARY);
    return WithServer(std::move(arguments));
  }

  std::optional<fake::FakeServer> server_;
};

}  // namespace luna::testing_support

#endif  // LUNA_TESTS_CLIENT_LUNA_COMMAND_H_
