#include "common/transport/zmq/socket.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace strata::transport {
namespace {

// Frames in ZeroMQ's own queues, per peer. Few to send, because that queue ignores priority and
// cannot be cancelled; the rest waits in SendQueue.
constexpr int kSendHighWater = 16;
constexpr int kReceiveHighWater = 64;
// A TCP peer that does not finish ZeroMQ's handshake in this time is disconnected.
constexpr int kHandshakeMs = 10000;
// Heartbeats per silence timeout.
constexpr int kHeartbeats = 5;
// Each outgoing connection takes three sockets: data and both ends of its monitor.
constexpr int kContextSockets = 8192;

// One context per process, never terminated: that would wait for every socket of every thread.
void* ProcessContext() {
  static void* const context = [] {
    void* created = zmq_ctx_new();
    if (created != nullptr) zmq_ctx_set(created, ZMQ_MAX_SOCKETS, kContextSockets);
    return created;
  }();
  return context;
}

void CheckOption(int result, int option) {
  if (result == 0) return;
  // A wrong option is a bug of ours, not a peer's or a user's fault.
  absl::FPrintF(stderr, "zmq_setsockopt %d: %s\n", option, zmq_strerror(zmq_errno()));
  std::abort();
}

}  // namespace

absl::StatusOr<Socket> Socket::Create(int type) {
  void* context = ProcessContext();
  void* handle = context == nullptr ? nullptr : zmq_socket(context, type);
  if (handle == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("no ZeroMQ socket: %s", zmq_strerror(zmq_errno())));
  }
  Socket socket(handle);
  socket.SetOption(ZMQ_LINGER, 0);
  return socket;
}

Socket::~Socket() {
  if (handle_ != nullptr) zmq_close(handle_);
}

void Socket::SetOption(int option, int value) {
  CheckOption(zmq_setsockopt(handle_, option, &value, sizeof value), option);
}

void Socket::SetOption(int option, int64_t value) {
  CheckOption(zmq_setsockopt(handle_, option, &value, sizeof value), option);
}

void Socket::SetOption(int option, const std::string& value) {
  CheckOption(zmq_setsockopt(handle_, option, value.data(), value.size()), option);
}

void Socket::SetLimits(const Limits& limits) {
  const int silence_ms = static_cast<int>(absl::ToInt64Milliseconds(limits.silence_timeout));
  SetOption(ZMQ_MAXMSGSIZE, static_cast<int64_t>(limits.part_bytes_max));
  SetOption(ZMQ_SNDHWM, kSendHighWater);
  SetOption(ZMQ_RCVHWM, kReceiveHighWater);
  SetOption(ZMQ_IMMEDIATE, 1);
  SetOption(ZMQ_RECONNECT_IVL, -1);
  SetOption(ZMQ_HANDSHAKE_IVL, kHandshakeMs);
  SetOption(ZMQ_CONNECT_TIMEOUT,
            static_cast<int>(absl::ToInt64Milliseconds(limits.connect_timeout)));
  SetOption(ZMQ_HEARTBEAT_IVL, silence_ms / kHeartbeats);
  SetOption(ZMQ_HEARTBEAT_TIMEOUT, silence_ms);
  SetOption(ZMQ_HEARTBEAT_TTL, silence_ms);
}

absl::StatusOr<std::unique_ptr<Monitor>> Monitor::Create(Socket* socket, int events) {
  static std::atomic<uint64_t> next_name = 0;
  const std::string name = absl::StrFormat("inproc://strata-monitor-%d", next_name++);
  absl::StatusOr<Socket> pair = Socket::Create(ZMQ_PAIR);
  if (!pair.ok()) return pair.status();
  // No limit, because a full queue would block the I/O thread; an event is a few bytes.
  pair->SetOption(ZMQ_RCVHWM, 0);
  if (zmq_socket_monitor(socket->handle(), name.c_str(), events) != 0 ||
      zmq_connect(pair->handle(), name.c_str()) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrFormat("no ZeroMQ monitor: %s", zmq_strerror(zmq_errno())));
  }
  return std::make_unique<Monitor>(socket, *std::move(pair));
}

Monitor::~Monitor() { zmq_socket_monitor(socket_->handle(), nullptr, 0); }

std::optional<Monitor::Event> Monitor::Next() {
  // Two parts: the event's number (16 bits) and value (32 bits), and an address.
  std::optional<Event> event;
  zmq_msg_t part;
  zmq_msg_init(&part);
  bool is_first = true;
  while (zmq_msg_recv(&part, pair_.handle(), ZMQ_DONTWAIT) >= 0) {
    const auto* bytes = static_cast<const char*>(zmq_msg_data(&part));
    if (is_first && zmq_msg_size(&part) >= 6) {
      int32_t value = 0;
      event.emplace();
      std::memcpy(&event->kind, bytes, sizeof event->kind);
      std::memcpy(&value, bytes + sizeof event->kind, sizeof value);
      event->fd = value;
    }
    is_first = false;
    if (zmq_msg_more(&part) == 0) break;
  }
  zmq_msg_close(&part);
  return event;
}

namespace {

constexpr char kScheme[] = "tcp://";
constexpr size_t kSchemeLength = sizeof kScheme - 1;

bool IsHost(const std::string& host) {
  if (host == "*") return true;
  for (const char c : host) {
    const bool is_name = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                         (c >= 'A' && c <= 'Z') || c == '.' || c == '-' || c == '_';
    if (!is_name) return false;
  }
  return !host.empty();
}

}  // namespace

std::string TcpAddress::ToString() const { return absl::StrFormat("tcp://%s:%d", host, port); }

absl::StatusOr<TcpAddress> ParseTcpAddress(const std::string& address) {
  TcpAddress parsed;
  const size_t colon = address.rfind(':');
  const bool has_scheme = address.compare(0, kSchemeLength, kScheme) == 0;
  if (has_scheme && colon != std::string::npos && colon >= kSchemeLength) {
    parsed.host = address.substr(kSchemeLength, colon - kSchemeLength);
    if (IsHost(parsed.host) && absl::SimpleAtoi(address.substr(colon + 1), &parsed.port) &&
        parsed.port >= 0 && parsed.port <= 65535) {
      return parsed;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("address \"%s\" is not tcp://HOST:PORT", address));
}

absl::StatusOr<std::string> ResolveIpv4(const std::string& host) {
  if (host == "*") return "0.0.0.0";
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found); error != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("host \"%s\": %s", host, gai_strerror(error)));
  }
  char text[INET_ADDRSTRLEN] = {};
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  inet_ntop(AF_INET, &ipv4->sin_addr, text, sizeof text);
  freeaddrinfo(found);
  return text;
}

// An address is this host's own if connections to it come from it.
int PortOnThisHost(int fd) {
  sockaddr_in own = {}, peer = {};
  socklen_t own_size = sizeof own, peer_size = sizeof peer;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) {
    return 0;
  }
  if (own.sin_family != AF_INET || own.sin_addr.s_addr != peer.sin_addr.s_addr) return 0;
  return ntohs(peer.sin_port);
}

}  // namespace strata::transport
