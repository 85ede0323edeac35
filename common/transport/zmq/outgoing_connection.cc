#include "common/transport/zmq/outgoing_connection.h"

#include <zmq.h>

#include <random>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/transport/zmq/socket.h"

namespace strata::transport {
namespace {

constexpr int kOutgoingConnectionMonitored =
    ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED |
    ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
    ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

// Names the connection to the peer's ROUTER. Unique per connection: a ROUTER ignores a second
// connection of the same name while it believes that the first one lives.
std::string RandomRoutingId() {
  std::random_device random;
  return absl::StrFormat("strata-%08x%08x%08x%08x", random(), random(), random(), random());
}

uint64_t RandomNumber() {
  std::random_device random;
  const uint64_t number = (uint64_t{random()} << 32) | random();
  return number == 0 ? 1 : number;
}

}  // namespace

absl::StatusOr<std::unique_ptr<OutgoingConnection>> OutgoingConnection::Create(
    ConnectionId id, const std::string& address, const Socket::Limits& socket_limits,
    const SendQueue::Limits& queue_limits, RegionHost* regions) {
  const absl::StatusOr<TcpAddress> parsed = ParseTcpAddress(address);
  if (!parsed.ok()) return parsed.status();
  if (parsed->port == 0 || parsed->host == "*") {
    return absl::InvalidArgumentError(
        absl::StrFormat("address \"%s\" names no host and port to connect to", address));
  }
  absl::StatusOr<Socket> socket = Socket::Create(ZMQ_DEALER);
  if (!socket.ok()) return socket.status();
  socket->SetLimits(socket_limits);
  socket->SetOption(ZMQ_ROUTING_ID, RandomRoutingId());
  auto connection = std::make_unique<OutgoingConnection>(id, address, *std::move(socket),
                                                         socket_limits, queue_limits, regions);
  absl::StatusOr<std::unique_ptr<Monitor>> monitor =
      Monitor::Create(&connection->socket_, kOutgoingConnectionMonitored);
  if (!monitor.ok()) return monitor.status();
  connection->monitor_ = *std::move(monitor);
  if (zmq_connect(connection->socket_.handle(), address.c_str()) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("address \"%s\": %s", address, zmq_strerror(zmq_errno())));
  }
  return connection;
}

OutgoingConnection::OutgoingConnection(ConnectionId id, std::string address, Socket socket,
                                       const Socket::Limits& socket_limits,
                                       const SendQueue::Limits& queue_limits, RegionHost* regions)
    : id_(id),
      address_(std::move(address)),
      frame_limits_{.payload_bytes_max = queue_limits.payload_bytes_max},
      deadline_(absl::Now() + socket_limits.connect_timeout),
      socket_(std::move(socket)),
      queue_(queue_limits),
      regions_(regions) {}

OutgoingConnection::~OutgoingConnection() {
  if (regions_ != nullptr) regions_->Retire(std::move(session_));
}

absl::Status OutgoingConnection::Send(const wire::Frame& frame) {
  if (absl::Status added = queue_.Add(frame, session_.get()); !added.ok()) return added;
  Flush();
  return absl::OkStatus();
}

void OutgoingConnection::Flush() {
  if (session_ != nullptr) session_->Sweep();
  // Before the connection is up ZeroMQ accepts nothing (ZMQ_IMMEDIATE); the monitor reports its
  // loss.
  if (is_up_ && loss_.ok()) queue_.Flush(socket_.handle(), "");
}

void OutgoingConnection::Lose(const std::string& reason) {
  if (loss_.ok()) loss_ = absl::UnavailableError(absl::StrFormat("%s: %s", address_, reason));
}

void OutgoingConnection::ReadMonitor() {
  while (const std::optional<Monitor::Event> event = monitor_->Next()) {
    switch (event->kind) {
      case ZMQ_EVENT_CONNECTED:
        fd_ = event->fd;
        break;
      case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        is_up_ = true;
        Flush();
        break;
      case ZMQ_EVENT_CLOSED:
        Lose("could not connect");
        break;
      case ZMQ_EVENT_DISCONNECTED:
        Lose(is_up_ ? "connection lost" : "could not connect");
        break;
      default:
        Lose("the other side does not speak this protocol");
        break;
    }
  }
  if (!is_up_ && absl::Now() >= deadline_) Lose("not connected in time");
}

void OutgoingConnection::Admit(std::shared_ptr<const RegionMemory> memory) {
  if (regions_ == nullptr || memory == nullptr || session_ != nullptr || !is_up_) return;
  const int port = PortOnThisHost(fd_);
  if (port == 0) return;
  UniqueFd line = ConnectForRegions(port);
  if (!line.valid()) return;
  auto session = std::make_unique<RegionSession>(std::move(line));
  if (!session->Greet(RandomNumber(), std::move(memory)).ok()) return;
  const auto number =
      std::make_shared<std::vector<std::byte>>(wire::EncodeChecksums({session->number()}));
  wire::Frame attach;
  attach.header.op = wire::Op::kAttach;
  attach.payload = Bytes(number, number->data(), number->size());
  if (!queue_.Add(attach, nullptr).ok()) return;
  session_ = std::move(session);
  Flush();
}

int OutgoingConnection::region_fd() const {
  return session_ == nullptr || session_->has_met() ? -1 : session_->fd();
}

void OutgoingConnection::HearRegions() {
  if (region_fd() >= 0 && !session_->Hear().ok()) session_ = nullptr;
}

bool OutgoingConnection::Understand(Event* event) {
  if (event->kind != Event::Kind::kFrame) return true;
  // Everything that the peer sent before this frame has arrived.
  HearRegions();
  if (event->frame.header.op == wire::Op::kAttachOk) {
    if (session_ == nullptr || !session_->has_met()) return false;
    session_->Attach();
    wire::Frame reply;
    reply.header.op = wire::Op::kAttachOk;
    if (queue_.Add(reply, nullptr).ok()) Flush();
    return false;
  }
  Resolve(session_.get(), event);
  return true;
}

void OutgoingConnection::Receive(size_t count_max, std::vector<Event>* events) {
  ReadMonitor();
  HearRegions();
  for (size_t i = 0; i < count_max; ++i) {
    Event event;
    if (!ReceiveFrame(socket_.handle(), frame_limits_, nullptr, nullptr, &event)) {
      if (loss_.ok()) return;
      event.kind = Event::Kind::kDisconnected;
      event.error = loss_;
      is_gone_ = true;
    }
    event.connection = id_;
    if (Understand(&event)) events->push_back(std::move(event));
    if (is_gone_) return;
  }
}

}  // namespace strata::transport
