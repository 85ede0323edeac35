#ifndef STRATA_COMMON_NET_IPV4_H_
#define STRATA_COMMON_NET_IPV4_H_

#include <cstdint>
#include <optional>
#include <string>

namespace strata::net {

// An IPv4 address as a number in the host's byte order.
struct Ipv4 {
  uint32_t bits = 0;

  bool operator==(const Ipv4&) const = default;
  bool is_loopback() const { return bits >> 24 == 127; }
  bool is_wildcard() const { return bits == 0; }
  std::string ToString() const;

  // "10.0.0.5"; nothing for anything else.
  static std::optional<Ipv4> Parse(const std::string& text);
};

// A network such as 10.0.0.0/24.
struct Ipv4Network {
  Ipv4 base;
  int prefix_bits = 0;

  bool Contains(Ipv4 address) const;

  // "10.0.0.0/24", also with bits behind the prefix; nothing for anything else.
  static std::optional<Ipv4Network> Parse(const std::string& text);
};

}  // namespace strata::net

#endif  // STRATA_COMMON_NET_IPV4_H_
