// --server, which every command has.
#include <arpa/inet.h>

#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cli/command.h"
#include "core/base/absl_view.h"

namespace luna::cli {
namespace {

bool IsPort(std::string_view text) {
  int port = 0;
  return text.find_first_not_of("0123456789") == text.npos &&
         absl::SimpleAtoi(AbslView(text), &port) && port >= 1 && port <= 65535;
}

// A name, an IPv4 address, or an IPv6 address in brackets. That there is such a host is for the
// connection to find out.
bool IsHost(std::string_view text) {
  if (text.empty()) return false;
  if (text.front() != '[') return text.find_first_of(":/[]@?#% \t") == text.npos;
  if (text.back() != ']') return false;
  const std::string_view inside = text.substr(1, text.size() - 2);
  in6_addr address{};
  const std::string without_zone(inside.substr(0, inside.find('%')));
  return inet_pton(AF_INET6, without_zone.c_str(), &address) == 1;
}

// Empty if `address` is HOST:PORT, else what is wrong with it.
std::string CheckAddress(const std::string& address) {
  const std::string_view text = address;
  const size_t colon = text.rfind(':');
  if (colon == text.npos || !IsPort(text.substr(colon + 1))) {
    return absl::StrCat("'", address, "' is not HOST:PORT with a port from 1 to 65535");
  }
  if (!IsHost(text.substr(0, colon))) {
    return absl::StrCat("'", address,
                        "' is not HOST:PORT; the host is a name or an address without a scheme, an "
                        "IPv6 address in brackets as in [::1]:50051");
  }
  return "";
}

}  // namespace

void AddServerOption(CLI::App* command, std::string* server) {
  *server = client::kDefaultServer;
  command->add_option("--server", *server, "Address of the server")
      ->envname("LUNA_SERVER")
      ->type_name("HOST:PORT")
      ->capture_default_str()
      ->check(CheckAddress, "");
}

}  // namespace luna::cli
