#ifndef STRATA_COMMON_TRANSPORT_ZMQ_SOCKET_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_SOCKET_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace strata::transport {

// "tcp://HOST:PORT", taken apart.
struct TcpAddress {
  std::string host;
  int port = 0;

  std::string ToString() const;
};

// Errors: InvalidArgument naming the address.
absl::StatusOr<TcpAddress> ParseTcpAddress(const std::string& address);

// Returns the IPv4 address of a local interface or name, which ZeroMQ does not look up for bind;
// "*" is 0.0.0.0. May block on name service. Errors: InvalidArgument naming the host.
absl::StatusOr<std::string> ResolveIpv4(const std::string& host);

// Returns the port at the other end of a TCP connection between two sockets of this host; 0: the
// peer is another host.
int PortOnThisHost(int fd);

// A ZeroMQ socket of the process's context, closed with LINGER 0: queued messages are dropped.
// Threads: one.
class Socket {
 public:
  // Options of every data socket; see zmq_endpoint.h and the constants in socket.cc.
  struct Limits {
    uint64_t part_bytes_max = 0;
    absl::Duration connect_timeout;
    absl::Duration silence_timeout;
  };

  // `type` is ZMQ_ROUTER, ... Errors: ResourceExhausted (descriptors, sockets of the context).
  static absl::StatusOr<Socket> Create(int type);
  Socket(Socket&& other) noexcept : handle_(other.handle_) { other.handle_ = nullptr; }
  Socket& operator=(Socket&&) = delete;
  ~Socket();

  void* handle() const { return handle_; }

  // Aborts if the socket does not know the option or the value is out of range, which is a bug of
  // ours.
  void SetOption(int option, int value);
  void SetOption(int option, int64_t value);
  void SetOption(int option, const std::string& value);
  // Message size, queue lengths, heartbeats, time limits.
  void SetLimits(const Limits& limits);

 private:
  explicit Socket(void* handle) : handle_(handle) {}

  void* handle_;
};

// Events of a socket's TCP connections. Destroyed before the socket: ZeroMQ's I/O thread would
// block on an unread monitor. Threads: the socket's.
class Monitor {
 public:
  struct Event {
    uint16_t kind = 0;  // ZMQ_EVENT_...
    int fd = -1;        // of the connection, if the kind has one
  };

  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Monitor>> Create(Socket* socket, int events);
  Monitor(Socket* socket, Socket pair) : socket_(socket), pair_(std::move(pair)) {}
  ~Monitor();

  void* handle() const { return pair_.handle(); }
  // Returns the next event, without blocking.
  std::optional<Event> Next();

 private:
  Socket* const socket_;
  Socket pair_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_SOCKET_H_
