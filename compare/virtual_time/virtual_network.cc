#include "compare/virtual_time/virtual_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::compare {
namespace {

using transport::ConnectionId;
using transport::Event;

// Of a packet on Ethernet, as traffic shaping counts it: 14 + 20 + 32 (TCP with timestamps) + 1448.
constexpr double kPacketBytes = 1514, kPacketDataBytes = 1448;
// Between processes of one host: a system call and a wake-up.
constexpr absl::Duration kSameHostLatency = absl::Microseconds(15);

double SecondsPerByte(double bytes_per_s) { return bytes_per_s > 0 ? 1 / bytes_per_s : 0; }

}  // namespace

double WireBytes(const wire::Frame& frame) {
  const double bytes = static_cast<double>(wire::kHeaderBytes + frame.payload.size());
  return bytes * (kPacketBytes / kPacketDataBytes);
}

VirtualNetwork::VirtualNetwork(VirtualClock* clock, double memory_bytes_per_s, uint64_t seed)
    : clock_(clock), memory_seconds_per_byte_(SecondsPerByte(memory_bytes_per_s)), random_(seed) {}

uint32_t VirtualNetwork::AddHost(const VirtualLink& link, const std::string& site) {
  Host host{.link = link, .site = site, .out = {}, .in = {}, .memory = {}};
  host.out.seconds_per_byte = host.in.seconds_per_byte = SecondsPerByte(link.bytes_per_s);
  host.memory.seconds_per_byte = memory_seconds_per_byte_;
  hosts_.push_back(std::move(host));
  return static_cast<uint32_t>(hosts_.size() - 1);
}

void VirtualNetwork::JoinSites(const std::string& a, const std::string& b,
                               const VirtualLink& link) {
  const Pipe pipe{.seconds_per_byte = SecondsPerByte(link.bytes_per_s), .free = {}};
  site_links_[{a, b}] = site_links_[{b, a}] = {.link = link, .pipe = pipe};
}

VirtualNetwork::End* VirtualNetwork::Find(const VirtualEndpoint* endpoint, ConnectionId id) {
  if (id.value() < 2 || ConnectionAt(id) >= connections_.size()) return nullptr;
  End* end = &connections_[ConnectionAt(id)].ends[EndAt(id)];
  return end->endpoint == endpoint ? end : nullptr;
}

ConnectionId VirtualNetwork::Connect(VirtualEndpoint* from, const std::string& address) {
  const size_t number = connections_.size();
  Connection& connection = connections_.emplace_back();
  connection.ends[0] = {.endpoint = from, .host = from->host_, .last_arrival = {}};
  const auto listener = listeners_.find(address);
  if (listener == listeners_.end()) {
    Disconnect(number, 0, absl::ZeroDuration(), absl::StrCat("nobody listens at ", address));
    return IdOf(number, 0);
  }
  VirtualEndpoint* to = listener->second;
  connection.ends[1] = {.endpoint = to, .host = to->host_, .last_arrival = {}};
  to->open_.push_back(IdOf(number, 1));
  return IdOf(number, 0);
}

absl::Duration VirtualNetwork::Jitter(const VirtualLink& link) {
  if (link.jitter <= absl::ZeroDuration()) return absl::ZeroDuration();
  return random_.Fraction() * link.jitter;
}

absl::Time VirtualNetwork::Pass(Pipe* pipe, Transit* transit) {
  const absl::Time begin = std::max(clock_->Now(), pipe->free);
  pipe->free = begin + absl::Seconds(transit->bytes * pipe->seconds_per_byte);
  transit->tail = std::max(transit->tail, pipe->free);
  return begin;
}

absl::Status VirtualNetwork::Send(const VirtualEndpoint* from, ConnectionId id,
                                  const wire::Frame& frame) {
  const End* own = Find(from, id);
  if (own == nullptr) {
    return absl::NotFoundError(absl::StrFormat("no connection %d", id.value()));
  }
  const auto transit = std::make_shared<Transit>();
  transit->connection = static_cast<uint32_t>(ConnectionAt(id));
  transit->to = 1 - EndAt(id);
  transit->frame = frame;
  transit->frame.header.payload_checksum = wire::ChecksumOf(frame.payload);
  transit->bytes = WireBytes(frame);
  Host& host = hosts_[own->host];
  const End& theirs = connections_[transit->connection].ends[transit->to];
  const Host& receiver = hosts_[theirs.host];
  if (own->host == theirs.host) {
    Pass(&host.memory, transit.get());
    transit->tail += kSameHostLatency;
    Arrive(transit);
    return absl::OkStatus();
  }
  bytes_between_hosts_ += transit->bytes;
  transit->jitter = Jitter(host.link) + Jitter(receiver.link);
  const absl::Time out = Pass(&host.out, transit.get()) + host.link.latency;
  transit->tail += host.link.latency;
  if (host.site == receiver.site) {
    clock_->At(out, [this, transit] { EnterHost(transit); });
  } else {
    SiteLink* link = &site_links_[{host.site, receiver.site}];
    clock_->At(out, [this, transit, link] { EnterSiteLink(transit, link); });
  }
  return absl::OkStatus();
}

void VirtualNetwork::EnterSiteLink(const InTransit& transit, SiteLink* link) {
  transit->jitter += Jitter(link->link);
  const absl::Time out = Pass(&link->pipe, transit.get()) + link->link.latency;
  transit->tail += link->link.latency;
  clock_->At(out, [this, transit] { EnterHost(transit); });
}

void VirtualNetwork::EnterHost(const InTransit& transit) {
  Host& host = hosts_[connections_[transit->connection].ends[transit->to].host];
  Pass(&host.in, transit.get());
  transit->tail += host.link.latency + transit->jitter;
  Arrive(transit);
}

// With its last byte, after what was sent before it.
void VirtualNetwork::Arrive(const InTransit& transit) {
  End& to = connections_[transit->connection].ends[transit->to];
  to.last_arrival = std::max(to.last_arrival, transit->tail);
  clock_->At(to.last_arrival, [this, transit] {
    const End& end = connections_[transit->connection].ends[transit->to];
    if (end.endpoint == nullptr) return;
    Event event;
    event.connection = IdOf(transit->connection, transit->to);
    event.frame = std::move(transit->frame);
    end.endpoint->Take(std::move(event));
  });
}

void VirtualNetwork::Disconnect(size_t connection, uint32_t end, absl::Duration delay,
                                const std::string& why) {
  clock_->After(delay, [this, connection, end, why] {
    End& told = connections_[connection].ends[end];
    VirtualEndpoint* endpoint = std::exchange(told.endpoint, nullptr);
    if (endpoint == nullptr) return;
    Event event;
    event.kind = Event::Kind::kDisconnected;
    event.connection = IdOf(connection, end);
    event.error = absl::UnavailableError(why);
    endpoint->Take(std::move(event));
  });
}

// The other end is told once what was sent to it is there.
void VirtualNetwork::Close(const VirtualEndpoint* from, ConnectionId id) {
  End* own = Find(from, id);
  if (own == nullptr) return;
  own->endpoint = nullptr;
  const uint32_t other = 1 - EndAt(id);
  const End& theirs = connections_[ConnectionAt(id)].ends[other];
  if (theirs.endpoint == nullptr) return;
  const absl::Duration in_flight = theirs.last_arrival - clock_->Now();
  Disconnect(ConnectionAt(id), other, in_flight, "the peer closed it");
}

VirtualEndpoint::VirtualEndpoint(VirtualNetwork* network, uint32_t host,
                                 std::function<void()> on_ready)
    : network_(network), host_(host), on_ready_(std::move(on_ready)) {}

VirtualEndpoint::~VirtualEndpoint() {
  *alive_ = false;
  for (auto it = network_->listeners_.begin(); it != network_->listeners_.end();) {
    it = it->second == this ? network_->listeners_.erase(it) : std::next(it);
  }
  for (const ConnectionId connection : std::exchange(open_, {})) {
    network_->Close(this, connection);
  }
}

absl::StatusOr<int> VirtualEndpoint::Listen(const std::string& address) {
  if (!network_->listeners_.emplace(address, this).second) {
    return absl::AlreadyExistsError(absl::StrCat(address, " is in use"));
  }
  return 0;
}

absl::StatusOr<ConnectionId> VirtualEndpoint::Connect(const std::string& address) {
  open_.push_back(network_->Connect(this, address));
  return open_.back();
}

absl::Status VirtualEndpoint::Send(ConnectionId connection, const wire::Frame& frame) {
  return network_->Send(this, connection, frame);
}

void VirtualEndpoint::Close(ConnectionId connection) {
  open_.erase(std::remove(open_.begin(), open_.end(), connection), open_.end());
  network_->Close(this, connection);
  // No event follows, also none that waits here already.
  inbox_.erase(std::remove_if(inbox_.begin(), inbox_.end(),
                              [&](const Event& event) { return event.connection == connection; }),
               inbox_.end());
}

void VirtualEndpoint::Take(Event event) {
  if (event.kind == Event::Kind::kDisconnected) {
    open_.erase(std::remove(open_.begin(), open_.end(), event.connection), open_.end());
  }
  inbox_.push_back(std::move(event));
  on_ready_();
}

void VirtualEndpoint::Poll(absl::Duration timeout, std::vector<Event>* events) {
  for (Event& event : inbox_) events->push_back(std::move(event));
  inbox_.clear();
  if (timeout == absl::InfiniteDuration()) return;
  // The owner is called again then, unless that is due sooner already.
  const absl::Time at = network_->clock_->Now() + timeout;
  if (at >= ring_at_) return;
  ring_at_ = at;
  network_->clock_->At(at, [this, at, alive = alive_] {
    if (!*alive || ring_at_ != at) return;
    ring_at_ = absl::InfiniteFuture();
    on_ready_();
  });
}

}  // namespace strata::compare
