#include "common/net/ipv4.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace strata::net {

std::string Ipv4::ToString() const {
  return absl::StrCat(bits >> 24, ".", bits >> 16 & 0xff, ".", bits >> 8 & 0xff, ".", bits & 0xff);
}

std::optional<Ipv4> Ipv4::Parse(const std::string& text) {
  in_addr parsed = {};
  if (inet_pton(AF_INET, text.c_str(), &parsed) != 1) return std::nullopt;
  return Ipv4{ntohl(parsed.s_addr)};
}

bool Ipv4Network::Contains(Ipv4 address) const {
  return prefix_bits == 0 || (address.bits ^ base.bits) >> (32 - prefix_bits) == 0;
}

std::optional<Ipv4Network> Ipv4Network::Parse(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::optional<Ipv4> base = Ipv4::Parse(text.substr(0, slash));
  int prefix_bits = 0;
  if (!base.has_value() || !absl::SimpleAtoi(text.substr(slash + 1), &prefix_bits) ||
      prefix_bits < 0 || prefix_bits > 32) {
    return std::nullopt;
  }
  return Ipv4Network{*base, prefix_bits};
}

}  // namespace strata::net
