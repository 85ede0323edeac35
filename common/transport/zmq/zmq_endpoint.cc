#include "common/transport/zmq/zmq_endpoint.h"

#include <zmq.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/event_fd.h"
#include "common/transport/region_host.h"
#include "common/transport/zmq/listener.h"
#include "common/transport/zmq/outgoing_connection.h"

namespace strata::transport {
namespace {

// Events per Poll, and consecutive messages from one socket.
constexpr size_t kEventsPerPoll = 64;
constexpr size_t kMessagesPerTurn = 16;
// ZeroMQ does not report when a full peer of a ROUTER accepts frames again, so it is polled.
constexpr absl::Duration kRetryInterval = absl::Milliseconds(2);

class ZmqEndpoint : public Endpoint {
 public:
  ZmqEndpoint(const ZmqOptions& options, EventFd wake)
      : socket_limits_{.part_bytes_max =
                           std::max<uint64_t>(options.payload_bytes_max, wire::kHeaderBytes),
                       .connect_timeout = options.connect_timeout,
                       .silence_timeout = options.silence_timeout},
        queue_limits_{.payload_bytes_max = options.payload_bytes_max,
                      .queue_bytes_max = options.queue_bytes_max,
                      .queue_frames_max = options.queue_frames_max},
        // A frame, and as much again for ZeroMQ's overhead.
        listener_limits_{
            .socket = socket_limits_,
            .queue = queue_limits_,
            .watch = {.stranger_bytes_max = options.stranger_bytes_max,
                      .bytes_max =
                          2 * (wire::kHeaderBytes + options.payload_bytes_max) + kStrangerBytesMax,
                      .stranger_timeout = options.stranger_timeout},
            .connections_max = options.connections_max,
            .strangers_max = options.strangers_max},
        wake_(std::move(wake)),
        memory_(options.memory),
        new_memory_(options.new_memory),
        regions_(memory_ == nullptr && new_memory_ == nullptr ? nullptr
                                                              : std::make_unique<RegionHost>()) {}

  absl::StatusOr<int> Listen(const std::string& address) override {
    if (listener_ == nullptr) {
      absl::StatusOr<std::unique_ptr<Listener>> created = Listener::Create(
          listener_limits_, [this] { return NextId(); }, regions_.get());
      if (!created.ok()) return created.status();
      listener_ = *std::move(created);
    }
    return listener_->Bind(address);
  }

  absl::StatusOr<ConnectionId> Connect(const std::string& address) override {
    const ConnectionId id = NextId();
    absl::StatusOr<std::unique_ptr<OutgoingConnection>> created =
        OutgoingConnection::Create(id, address, socket_limits_, queue_limits_, regions_.get());
    if (!created.ok()) return created.status();
    connections_.emplace(id, *std::move(created));
    return id;
  }

  absl::Status Send(ConnectionId connection, const wire::Frame& frame) override {
    if (const auto it = connections_.find(connection); it != connections_.end()) {
      return it->second->Send(frame);
    }
    if (listener_ != nullptr) return listener_->Send(connection, frame);
    return absl::NotFoundError(absl::StrFormat("no connection %d", connection.value()));
  }

  void Poll(absl::Duration timeout, std::vector<Event>* events) override {
    const absl::Time deadline = absl::Now() + timeout;
    const size_t count_before = events->size();
    bool is_woken = false;
    while (true) {
      Flush();
      Receive(events);
      if (is_woken || events->size() > count_before) return;
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) return;
      is_woken = Wait(left);
    }
  }

  void WatchFd(int fd) override { watched_fd_ = fd; }

  EndpointUse use() const override {
    return listener_ == nullptr ? EndpointUse() : listener_->use();
  }

  std::shared_ptr<BlockSource> memory() const override { return memory_; }

  std::shared_ptr<BlockSource> NewMemory() override {
    return new_memory_ == nullptr ? nullptr : new_memory_();
  }

  void Admit(ConnectionId connection, const std::shared_ptr<BlockSource>& memory) override {
    auto region = std::dynamic_pointer_cast<const RegionMemory>(memory);
    if (const auto it = connections_.find(connection); it != connections_.end()) {
      it->second->Admit(std::move(region));
    } else if (listener_ != nullptr) {
      listener_->Admit(connection, std::move(region));
    }
  }

  bool Refers(ConnectionId connection) const override {
    if (const auto it = connections_.find(connection); it != connections_.end()) {
      return it->second->refers();
    }
    return listener_ != nullptr && listener_->Refers(connection);
  }

  void Close(ConnectionId connection) override {
    if (connections_.erase(connection) == 0 && listener_ != nullptr) listener_->Close(connection);
  }

  void Cut(ConnectionId connection) override {
    if (connections_.erase(connection) == 0 && listener_ != nullptr) listener_->Cut(connection);
  }

  void Wake() override { wake_.Notify(); }

 private:
  ConnectionId NextId() { return ConnectionId(++last_id_); }

  void Flush() {
    if (listener_ != nullptr) listener_->Flush();
    for (auto& [id, connection] : connections_) connection->Flush();
    if (regions_ == nullptr) return;
    regions_->Serve(absl::Now());
    regions_->Sweep();
  }

  // Receives from connections in turn, beginning after the last one of the previous call.
  void Receive(std::vector<Event>* events) {
    const size_t events_max = events->size() + kEventsPerPoll;
    if (listener_ != nullptr) listener_->Receive(kMessagesPerTurn, events);
    auto it = connections_.upper_bound(last_served_);
    for (size_t turns = connections_.size(); turns > 0 && events->size() < events_max; --turns) {
      if (it == connections_.end()) it = connections_.begin();
      last_served_ = it->first;
      it->second->Receive(std::min(kMessagesPerTurn, events_max - events->size()), events);
      it = it->second->is_gone() ? connections_.erase(it) : std::next(it);
    }
  }

  // Sleeps until something may have happened. Returns whether it was woken by Wake or the watched
  // descriptor.
  bool Wait(absl::Duration timeout) {
    bool is_full = listener_ != nullptr && listener_->wants_send();
    absl::Time connect_deadline = absl::InfiniteFuture();
    std::vector<zmq_pollitem_t> items = {{nullptr, wake_.fd(), ZMQ_POLLIN, 0},
                                         {nullptr, watched_fd_, ZMQ_POLLIN, 0}};
    if (watched_fd_ < 0) items.pop_back();
    const size_t descriptors = items.size();
    if (listener_ != nullptr) {
      items.push_back({listener_->socket_handle(), 0, ZMQ_POLLIN, 0});
      items.push_back({listener_->monitor_handle(), 0, ZMQ_POLLIN, 0});
    }
    if (regions_ != nullptr && regions_->door() >= 0) {
      items.push_back({nullptr, regions_->door(), ZMQ_POLLIN, 0});
    }
    for (const auto& [id, connection] : connections_) {
      const short out = connection->wants_send() ? ZMQ_POLLOUT : 0;
      items.push_back({connection->socket_handle(), 0, static_cast<short>(ZMQ_POLLIN | out), 0});
      items.push_back({connection->monitor_handle(), 0, ZMQ_POLLIN, 0});
      if (connection->region_fd() >= 0) {
        items.push_back({nullptr, connection->region_fd(), ZMQ_POLLIN, 0});
      }
      connect_deadline = std::min(connect_deadline, connection->connect_deadline());
    }
    if (is_full) timeout = std::min(timeout, kRetryInterval);
    const absl::Time look = listener_ == nullptr ? absl::InfiniteFuture() : listener_->next_look();
    timeout = std::min({timeout, std::min(connect_deadline, look) - absl::Now(), absl::Hours(1)});
    const auto timeout_ms =
        static_cast<long>(absl::ToInt64Milliseconds(absl::Ceil(timeout, absl::Milliseconds(1))));
    if (zmq_poll(items.data(), static_cast<int>(items.size()), std::max(timeout_ms, 0L)) <= 0) {
      return false;
    }
    if (items[0].revents != 0) wake_.Drain();
    return std::any_of(items.begin(), items.begin() + descriptors,
                       [](const zmq_pollitem_t& item) { return item.revents != 0; });
  }

  const Socket::Limits socket_limits_;
  const SendQueue::Limits queue_limits_;
  const Listener::Limits listener_limits_;
  const EventFd wake_;
  const std::shared_ptr<RegionMemory> memory_;
  const std::function<std::shared_ptr<RegionMemory>()> new_memory_;
  int watched_fd_ = -1;
  const std::unique_ptr<RegionHost> regions_;
  uint64_t last_id_ = 0;
  ConnectionId last_served_;
  std::unique_ptr<Listener> listener_;
  std::map<ConnectionId, std::unique_ptr<OutgoingConnection>> connections_;
};

}  // namespace

absl::Status ZmqOptions::Validate() const {
  // ZeroMQ limits a part to 2^31 - 1 bytes on the paths that copy.
  if (payload_bytes_max == 0 || payload_bytes_max > (uint64_t{1} << 30)) {
    return absl::InvalidArgumentError("payload_bytes_max is not within 1 byte and 1 GiB");
  }
  if (queue_bytes_max == 0) return absl::InvalidArgumentError("queue_bytes_max is 0");
  if (connections_max == 0) return absl::InvalidArgumentError("connections_max is 0");
  if (queue_frames_max == 0) return absl::InvalidArgumentError("queue_frames_max is 0");
  for (const absl::Duration duration : {connect_timeout, silence_timeout}) {
    if (duration < absl::Milliseconds(10) || duration > absl::Hours(1)) {
      return absl::InvalidArgumentError(
          "connect_timeout or silence_timeout is not within 10 ms and 1 h");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Endpoint>> CreateZmqEndpoint(const ZmqOptions& options) {
  if (absl::Status valid = options.Validate(); !valid.ok()) return valid;
  absl::StatusOr<EventFd> wake = EventFd::Create();
  if (!wake.ok()) return wake.status();
  return std::make_unique<ZmqEndpoint>(options, *std::move(wake));
}

}  // namespace strata::transport
