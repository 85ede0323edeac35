#include "server/coordinator/service/etcd/endpoints.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace strata::server {
namespace {

bool IsHostAndPort(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  for (const char c : text) {
    if (!absl::ascii_isalnum(c) && !absl::StrContains(".-_:[]", c)) return false;
  }
  const std::string port = text.substr(colon + 1);
  uint32_t number = 0;
  return absl::ascii_isdigit(port.empty() ? ' ' : port[0]) && absl::SimpleAtoi(port, &number) &&
         number >= 1 && number <= 65535;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseEndpoints(const std::string& text) {
  std::vector<std::string> endpoints = absl::StrSplit(text, ',');
  for (std::string& endpoint : endpoints) {
    endpoint = std::string(absl::StripAsciiWhitespace(endpoint));
    if (absl::StrContains(endpoint, "://")) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "etcd endpoint \"%s\": write HOST:PORT without a scheme; files of keys ask for TLS",
          endpoint));
    }
    if (!IsHostAndPort(endpoint)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "etcd endpoint \"%s\": is no HOST:PORT; write HOST:PORT,HOST:PORT", endpoint));
    }
  }
  return endpoints;
}

}  // namespace strata::server
