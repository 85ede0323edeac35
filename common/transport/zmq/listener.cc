#include "common/transport/zmq/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/log.h"
#include "common/os/limits.h"
#include "common/transport/zmq/socket.h"

namespace strata::transport {
namespace {

constexpr int kMonitored = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED;
// A lost peer's last frames are read first, but only for this many calls of Receive.
constexpr int kLeavingRoundsMax = 16;
constexpr size_t kGoneMax = 1024;
// Interval of checking connections for endless messages: what a peer sends meanwhile bounds the
// memory that it can take.
constexpr absl::Duration kLookInterval = absl::Milliseconds(200);
// The greeting of a session was sent before its number; it comes over another socket.
constexpr absl::Duration kGreetingWait = absl::Seconds(10);

using NameCall = int (*)(int, sockaddr*, socklen_t*);

// 0: not an IPv4 connection.
int PortOf(int fd, NameCall name_of, std::string* host = nullptr) {
  sockaddr_in address = {};
  socklen_t size = sizeof address;
  if (name_of(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.sin_family != AF_INET) return 0;
  char text[INET_ADDRSTRLEN] = {};
  inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  if (host != nullptr) *host = text;
  return ntohs(address.sin_port);
}

std::string PeerOf(int fd) {
  std::string host = "a peer that is gone";
  const int port = PortOf(fd, &getpeername, &host);
  return port == 0 ? host : absl::StrFormat("%s:%d", host, port);
}

absl::Status BindError(const std::string& address) {
  const int error = zmq_errno();
  const std::string text = absl::StrFormat("cannot listen at %s: %s", address, zmq_strerror(error));
  if (error == EADDRINUSE) return absl::AlreadyExistsError(text);
  return absl::InvalidArgumentError(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Create(const Limits& limits,
                                                           std::function<ConnectionId()> next_id,
                                                           RegionHost* regions) {
  absl::StatusOr<Socket> socket = Socket::Create(ZMQ_ROUTER);
  if (!socket.ok()) return socket.status();
  socket->SetLimits(limits.socket);
  // Otherwise frames to unknown peers would be dropped and reported as sent.
  socket->SetOption(ZMQ_ROUTER_MANDATORY, 1);
  auto listener =
      std::make_unique<Listener>(*std::move(socket), limits, std::move(next_id), regions);
  absl::StatusOr<std::unique_ptr<Monitor>> monitor =
      Monitor::Create(&listener->socket_, kMonitored);
  if (!monitor.ok()) return monitor.status();
  listener->monitor_ = *std::move(monitor);
  return listener;
}

Listener::Listener(Socket socket, const Limits& limits, std::function<ConnectionId()> next_id,
                   RegionHost* regions)
    : limits_(limits),
      frame_limits_{.payload_bytes_max = limits.queue.payload_bytes_max},
      next_id_(std::move(next_id)),
      regions_(regions),
      socket_(std::move(socket)),
      watch_(limits.watch) {}

absl::StatusOr<int> Listener::Bind(const std::string& address) {
  absl::StatusOr<TcpAddress> parsed = ParseTcpAddress(address);
  if (!parsed.ok()) return parsed.status();
  const absl::StatusOr<std::string> host = ResolveIpv4(parsed->host);
  if (!host.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot listen at %s: %s", address, host.status().message()));
  }
  parsed->host = *host;
  const std::string wanted =
      parsed->port == 0 ? absl::StrFormat("tcp://%s:*", parsed->host) : parsed->ToString();
  if (zmq_bind(socket_.handle(), wanted.c_str()) != 0) return BindError(address);
  char bound[256] = {};
  size_t size = sizeof bound;
  zmq_getsockopt(socket_.handle(), ZMQ_LAST_ENDPOINT, bound, &size);
  parsed = ParseTcpAddress(bound);
  if (!parsed.ok()) return parsed.status();
  port_ = parsed->port;
  if (regions_ != nullptr) {
    const absl::Status opened = regions_->Open(port_);
    if (!opened.ok()) LogWarning("port %d: %s", port_, std::string(opened.message()));
  }
  return port_;
}

absl::Status Listener::Send(ConnectionId connection, const wire::Frame& frame) {
  const auto it = peers_.find(connection);
  if (it == peers_.end() || it->second->is_closed || it->second->is_leaving) {
    return absl::NotFoundError(absl::StrFormat("no connection %d", connection.value()));
  }
  Peer* peer = it->second.get();
  if (absl::Status added = peer->queue.Add(frame, peer->session.get()); !added.ok()) return added;
  if (peer->queue.Flush(socket_.handle(), peer->routing_id) == SendResult::kNoPeer) Leave(peer);
  return absl::OkStatus();
}

void Listener::Admit(ConnectionId connection, std::shared_ptr<const RegionMemory> memory) {
  const auto it = peers_.find(connection);
  if (it == peers_.end()) return;
  watch_.Admit(it->second->fd);
  it->second->memory = std::move(memory);
}

bool Listener::Refers(ConnectionId connection) const {
  const auto it = peers_.find(connection);
  return it != peers_.end() && it->second->session != nullptr && it->second->session->is_attached();
}

void Listener::Close(ConnectionId connection) {
  const auto it = peers_.find(connection);
  if (it == peers_.end()) return;
  // The entry stays until the peer leaves, so that its further frames are dropped.
  it->second->is_closed = true;
  it->second->queue = SendQueue(limits_.queue);
  it->second->memory = nullptr;
  if (regions_ != nullptr) regions_->Retire(std::move(it->second->session));
}

void Listener::Cut(ConnectionId connection) {
  const auto it = peers_.find(connection);
  if (it == peers_.end()) return;
  if (live_fds_.contains(it->second->fd)) Shut(it->second->fd);
  Close(connection);
}

void Listener::Flush() {
  for (auto& [connection, peer] : peers_) {
    if (peer->session != nullptr) peer->session->Sweep();
    if (peer->queue.empty() || peer->is_leaving) continue;
    if (peer->queue.Flush(socket_.handle(), peer->routing_id) == SendResult::kNoPeer) {
      Leave(peer.get());
    }
  }
}

bool Listener::wants_send() const {
  for (const auto& [connection, peer] : peers_) {
    if (!peer->queue.empty() && !peer->is_leaving) return true;
  }
  return false;
}

void Listener::ReadMonitor() {
  while (const std::optional<Monitor::Event> event = monitor_->Next()) {
    if (event->kind == ZMQ_EVENT_ACCEPTED) {
      Accepted(event->fd);
      continue;
    }
    live_fds_.erase(event->fd);
    watch_.OnClosed(event->fd);
    bool is_known = refused_fds_.contains(event->fd);
    for (auto& [connection, peer] : peers_) {
      if (peer->fd != event->fd || peer->is_leaving) continue;
      is_known = true;
      Leave(peer.get());
    }
    if (!is_known) unheard_fds_.insert(event->fd);
  }
}

void Listener::Accepted(int fd) {
  live_fds_.insert(fd);
  // Not at the end of the previous connection: its data may be read after that.
  refused_fds_.erase(fd);
  silent_ += unheard_fds_.erase(fd);
  watch_.OnOpened(fd, absl::Now());
  if (live_fds_.size() <= limits_.connections_max + limits_.strangers_max) return;
  Refuse(watch_.OldestStranger().value_or(fd), "one too many", &refused_);
}

void Listener::Refuse(int fd, const char* what, uint64_t* count) {
  const std::string peer = PeerOf(fd);
  refused_fds_.insert(fd);
  ++*count;
  // Logs only at powers of two, in case there are very many.
  if (!Shut(fd) || (*count & (*count - 1)) != 0) return;
  LogWarning("port %d: ended the connection from %s: %s (%d such, %d open, --connections %d)",
             port_, peer, what, *count, live_fds_.size(), limits_.connections_max);
}

// ZeroMQ owns the descriptor, and closes it once it reads the end. If it has done so meanwhile, the
// number may be another file's: only a connection at this port is touched. If that is a new one, it
// is ended by mistake and reconnects.
bool Listener::Shut(int fd) {
  return PortOf(fd, &getsockname) == port_ && shutdown(fd, SHUT_RDWR) == 0;
}

absl::Time Listener::next_look() const {
  return live_fds_.empty() ? absl::InfiniteFuture() : looked_at_ + kLookInterval;
}

void Listener::Look(bool is_drained) {
  if (is_drained) {
    silent_ += unheard_fds_.size();
    unheard_fds_.clear();
  }
  // Connections are received from in turn: after this many messages each had a turn.
  if (!is_drained && messages_since_look_ < 2 * live_fds_.size()) return;
  const absl::Time now = absl::Now();
  if (now - looked_at_ < kLookInterval) return;
  looked_at_ = now;
  messages_since_look_ = 0;
  const ConnectionWatch::Found found = watch_.Look(now, &BytesTaken);
  for (const int fd : found.endless) Refuse(fd, "a message larger than any frame", &endless_);
  for (const int fd : found.late) Refuse(fd, "no HELLO in time", &late_);
}

void Listener::Leave(Peer* peer) {
  peer->is_leaving = true;
  leaving_.push_back(peer->connection);
}

Listener::Peer* Listener::FindOrAdd(const std::string& routing_id, int fd) {
  if (const auto it = by_routing_id_.find(routing_id); it != by_routing_id_.end()) {
    return it->second;
  }
  if (gone_set_.contains(routing_id)) return nullptr;
  // The descriptor's number may have belonged to a connection that ended before this one began: the
  // monitor has already reported that end.
  ReadMonitor();
  if (refused_fds_.contains(fd)) return nullptr;
  unheard_fds_.erase(fd);
  const ConnectionId connection = next_id_();
  auto owned = std::make_unique<Peer>(connection, routing_id, fd, limits_.queue);
  Peer* peer = owned.get();
  peers_.emplace(connection, std::move(owned));
  by_routing_id_.emplace(routing_id, peer);
  if (fd >= 0 && !live_fds_.contains(fd)) Leave(peer);
  return peer;
}

void Listener::ReportLeaving(std::vector<Event>* events) {
  leaving_rounds_ = 0;
  for (const ConnectionId connection : std::exchange(leaving_, {})) {
    const auto it = peers_.find(connection);
    if (!it->second->is_closed) {
      Event event;
      event.kind = Event::Kind::kDisconnected;
      event.connection = connection;
      event.error = absl::UnavailableError("connection lost");
      events->push_back(std::move(event));
    }
    if (regions_ != nullptr) regions_->Retire(std::move(it->second->session));
    by_routing_id_.erase(it->second->routing_id);
    gone_set_.insert(it->second->routing_id);
    gone_.push_back(it->second->routing_id);
    peers_.erase(it);
    if (gone_.size() > kGoneMax) {
      gone_set_.erase(gone_.front());
      gone_.pop_front();
    }
  }
}

bool Listener::Understand(Peer* peer, Event* event) {
  if (event->kind != Event::Kind::kFrame) return true;
  wire::Frame* frame = &event->frame;
  if (frame->header.op == wire::Op::kAttach) {
    Attach(peer, wire::ChecksumAt({frame->payload.data(), frame->payload.size()}, 0));
    return false;
  }
  if (frame->header.op == wire::Op::kAttachOk) {
    if (peer->session != nullptr) peer->session->Attach();
    return false;
  }
  Resolve(peer->session.get(), event);
  return true;
}

// A peer that was not admitted gets no memory: payloads travel with their frames.
void Listener::Attach(Peer* peer, uint64_t session) {
  const bool may = regions_ != nullptr && peer->memory != nullptr && peer->session == nullptr;
  if (!may || peer->wanted != 0 || session == 0) return;
  peer->wanted = session;
  peer->wanted_until = absl::Now() + kGreetingWait;
  wanting_.push_back(peer->connection);
}

void Listener::Meet(absl::Time now) {
  const auto is_done = [&](ConnectionId connection) {
    const auto it = peers_.find(connection);
    if (it == peers_.end() || it->second->is_closed || it->second->is_leaving) return true;
    Peer& peer = *it->second;
    peer.session = regions_->Claim(peer.wanted);
    // A greeting that does not come went elsewhere.
    if (peer.session == nullptr) return now >= peer.wanted_until;
    wire::Frame reply;
    reply.header.op = wire::Op::kAttachOk;
    // It refers to nothing until the peer has said that it has our memory, too.
    const bool is_well =
        peer.session->Greet(peer.wanted, peer.memory).ok() && peer.queue.Add(reply, nullptr).ok();
    if (!is_well) regions_->Retire(std::move(peer.session));
    return true;
  };
  wanting_.erase(std::remove_if(wanting_.begin(), wanting_.end(), is_done), wanting_.end());
}

void Listener::Receive(size_t count_max, std::vector<Event>* events) {
  ReadMonitor();
  std::string routing_id;
  for (size_t i = 0; i < count_max; ++i) {
    Event event;
    int fd = -1;
    if (!ReceiveFrame(socket_.handle(), frame_limits_, &routing_id, &fd, &event)) {
      if (!wanting_.empty()) Meet(absl::Now());
      Look(/*is_drained=*/true);
      if (!leaving_.empty()) ReportLeaving(events);
      return;
    }
    ++messages_since_look_;
    watch_.OnMessage(fd);
    Peer* peer = FindOrAdd(routing_id, fd);
    if (peer == nullptr || peer->is_closed) continue;
    if (absl::IsCancelled(event.error)) {  // a probe: it has its answer
      peer->is_closed = true;
      continue;
    }
    event.connection = peer->connection;
    if (Understand(peer, &event)) events->push_back(std::move(event));
  }
  if (!wanting_.empty()) Meet(absl::Now());
  Look(/*is_drained=*/false);
  if (!leaving_.empty() && ++leaving_rounds_ > kLeavingRoundsMax) ReportLeaving(events);
}

}  // namespace strata::transport
