#include "common/transport/sim/sim_endpoint.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/transport/zmq/socket.h"

namespace strata::transport {

SimEndpoint::SimEndpoint(SimNetwork* network, Options options)
    : network_(network),
      options_(std::move(options)),
      self_(std::make_shared<SimEndpoint*>(this)) {}

SimEndpoint::~SimEndpoint() {
  *self_ = nullptr;
  if (!listening_.empty()) network_->listeners_.erase(listening_);
  for (const ConnectionId connection : std::exchange(open_, {})) {
    network_->Close(this, connection);
  }
}

absl::StatusOr<int> SimEndpoint::Listen(const std::string& address) {
  TcpAddress parsed;
  if (!options_.addresses_are_names) {
    absl::StatusOr<TcpAddress> tcp = ParseTcpAddress(address);
    if (!tcp.ok()) return tcp.status();
    parsed = *std::move(tcp);
    if (parsed.port == 0) parsed.port = network_->next_port_++;
  }
  const std::string name = options_.addresses_are_names ? address : parsed.ToString();
  if (!network_->listeners_.emplace(name, this).second) {
    return absl::AlreadyExistsError(absl::StrFormat("%s is in use", address));
  }
  listening_ = name;
  return parsed.port;
}

absl::StatusOr<ConnectionId> SimEndpoint::Connect(const std::string& address) {
  std::string name = address;
  if (!options_.addresses_are_names) {
    absl::StatusOr<TcpAddress> parsed = ParseTcpAddress(address);
    if (!parsed.ok()) return parsed.status();
    name = parsed->ToString();
  }
  open_.push_back(network_->Connect(this, name));
  return open_.back();
}

absl::Status SimEndpoint::Send(ConnectionId connection, const wire::Frame& frame) {
  return network_->Send(this, connection, frame);
}

void SimEndpoint::Close(ConnectionId connection) {
  open_.erase(std::remove(open_.begin(), open_.end(), connection), open_.end());
  network_->Close(this, connection);
  // No event follows, not even one that waits here already.
  inbox_.erase(std::remove_if(inbox_.begin(), inbox_.end(),
                              [&](const Incoming& i) { return i.event.connection == connection; }),
               inbox_.end());
}

void SimEndpoint::Take(Incoming incoming) {
  if (incoming.event.kind == Event::Kind::kDisconnected) {
    const ConnectionId connection = incoming.event.connection;
    open_.erase(std::remove(open_.begin(), open_.end(), connection), open_.end());
  }
  inbox_.push_back(std::move(incoming));
  if (options_.on_ready) options_.on_ready();
}

void SimEndpoint::TakeInbox(std::vector<Event>* events) {
  for (Incoming& incoming : inbox_) {
    if (incoming.frame_bytes > 0) {
      const ConnectionId id = incoming.event.connection;
      SimNetwork::End& sender =
          network_->wires_[SimNetwork::WireOf(id)].ends[1 - SimNetwork::EndOf(id)];
      --sender.queued_frames;
      sender.queued_bytes -= incoming.frame_bytes;
    }
    events->push_back(std::move(incoming.event));
  }
  inbox_.clear();
}

bool SimEndpoint::Ready() {
  if (!inbox_.empty() || woken_.exchange(false)) return true;
  pollfd watched = {.fd = fd_, .events = POLLIN, .revents = 0};
  return fd_ >= 0 && poll(&watched, 1, 0) > 0;
}

void SimEndpoint::Poll(absl::Duration timeout, std::vector<Event>* events) {
  if (options_.on_ready) {
    TakeInbox(events);
    return Ring(timeout);
  }
  const absl::Time until = network_->Now() + timeout;
  while (!Ready() && network_->clock_->next_at() <= until) {
    if (!network_->RunOne()) break;
  }
  if (inbox_.empty() && !woken_ && timeout < absl::InfiniteDuration()) {
    network_->clock_->AdvanceTo(until);
  }
  TakeInbox(events);
}

// Calls the owner again after `delay`, unless that is due sooner already.
void SimEndpoint::Ring(absl::Duration delay) {
  const absl::Time at = network_->Now() + delay;
  if (at >= ring_at_ || delay == absl::InfiniteDuration()) return;
  ring_at_ = at;
  network_->After(delay, [self = self_, at] {
    SimEndpoint* endpoint = *self;
    if (endpoint == nullptr || endpoint->ring_at_ != at) return;
    endpoint->ring_at_ = absl::InfiniteFuture();
    endpoint->options_.on_ready();
  });
}

}  // namespace strata::transport
