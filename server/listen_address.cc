#include "server/listen_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace luna::server {
namespace {

absl::Status BadAddress(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("--listen: '", AbslView(text), "' is not HOST:PORT with a port in [0, 65535]"));
}

std::string AddressText(const sockaddr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(address).sin_addr, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6&>(address).sin6_addr, text,
              sizeof text);
  }
  return text;
}

bool Reachable(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr || (entry.ifa_flags & IFF_LOOPBACK) != 0 ||
      (entry.ifa_flags & IFF_UP) == 0) {
    return false;
  }
  if (entry.ifa_addr->sa_family == AF_INET) return true;
  if (entry.ifa_addr->sa_family != AF_INET6) return false;
  const auto& address = reinterpret_cast<const sockaddr_in6&>(*entry.ifa_addr);
  return !IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr);
}

}  // namespace

bool ListenAddress::IsLoopback() const {
  if (host == "localhost") return true;
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool ListenAddress::IsAny() const {
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return v4.s_addr == INADDR_ANY;
  in6_addr v6;
  return inet_pton(AF_INET6, host.c_str(), &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

std::string ListenAddress::ToString() const {
  if (host.find(':') != std::string::npos) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  ListenAddress out;
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return BadAddress(text);
  std::string_view host = text.substr(0, colon);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return BadAddress(text);  // an IPv6 address without brackets: where does the port begin?
  }
  if (host.empty() || !absl::SimpleAtoi(AbslView(text.substr(colon + 1)), &out.port) ||
      out.port < 0 || out.port > 65535) {
    return BadAddress(text);
  }
  out.host = host;
  return out;
}

std::vector<std::string> ReachableHosts() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, &freeifaddrs);
  std::vector<std::string> v4, v6;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (!Reachable(*entry)) continue;
    (entry->ifa_addr->sa_family == AF_INET ? v4 : v6).push_back(AddressText(*entry->ifa_addr));
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

}  // namespace luna::server
