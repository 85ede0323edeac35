#ifndef STRATA_COMMON_TRANSPORT_ZMQ_ADDRESS_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"

namespace strata::transport {

// "tcp://HOST:PORT", taken apart.
struct TcpAddress {
  std::string host;
  int port = 0;

  std::string ToString() const;
};

// Errors: InvalidArgument naming the address.
absl::StatusOr<TcpAddress> ParseTcpAddress(const std::string& address);

// The IPv4 address of a local interface or name, which ZeroMQ does not look up for bind; "*" is
// 0.0.0.0. May block on name service. Errors: InvalidArgument naming the host.
absl::StatusOr<std::string> ResolveIpv4(const std::string& host);

// The port at the other end of a TCP connection whose both ends are this host; 0: it is another
// one.
int PortOnThisHost(int fd);

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_ADDRESS_H_
