#ifndef STRATA_COMMON_TRANSPORT_ZMQ_LISTENER_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_LISTENER_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/transport/region_host.h"
#include "common/transport/region_session.h"
#include "common/transport/zmq/connection_watch.h"
#include "common/transport/zmq/message.h"
#include "common/transport/zmq/socket.h"

namespace strata::transport {

// Accepted connections: one ROUTER, and its monitor, which reports vanished peers. A connection
// exists from its first frame on. Threads: one.
class Listener {
 public:
  struct Limits {
    Socket::Limits socket;
    SendQueue::Limits queue;
    ConnectionWatch::Limits watch;
    size_t connections_max = 0;  // as in ZmqOptions, like the next
    size_t strangers_max = 0;
  };
  // `next_id` names new connections; `regions`, which may be null, outlives it.
  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(const Limits& limits,
                                                          std::function<ConnectionId()> next_id,
                                                          RegionHost* regions);
  // Use Create.
  Listener(Socket socket, const Limits& limits, std::function<ConnectionId()> next_id,
           RegionHost* regions);

  // See Endpoint::Listen.
  absl::StatusOr<int> Bind(const std::string& address);

  // Errors: NotFound, and those of SendQueue::Add.
  absl::Status Send(ConnectionId connection, const wire::Frame& frame);
  // `memory`: what a peer on this host may read; may be null.
  void Admit(ConnectionId connection, std::shared_ptr<const RegionMemory> memory);
  bool Refers(ConnectionId connection) const;
  void Close(ConnectionId connection);
  // As Close, and ends the TCP connection.
  void Cut(ConnectionId connection);
  void Flush();
  // Appends events after taking at most `count_max` messages.
  void Receive(size_t count_max, std::vector<Event>* events);

  EndpointUse use() const {
    return {live_fds_.size(), limits_.connections_max, refused_, late_, endless_, silent_};
  }

  // Frames wait for a peer whose queue in ZeroMQ is full.
  bool wants_send() const;
  // Time by which Receive must be called, even without new messages.
  absl::Time next_look() const;
  void* socket_handle() const { return socket_.handle(); }
  void* monitor_handle() const { return monitor_->handle(); }

 private:
  struct Peer {
    Peer(ConnectionId connection, std::string id, int peer_fd, const SendQueue::Limits& limits)
        : connection(connection), routing_id(std::move(id)), fd(peer_fd), queue(limits) {}

    const ConnectionId connection;
    const std::string routing_id;
    const int fd;
    SendQueue queue;
    std::shared_ptr<const RegionMemory> memory;  // of an admitted peer
    uint64_t wanted = 0;                         // number of a session whose greeting has not come
    absl::Time wanted_until;
    std::unique_ptr<RegionSession> session;  // for a peer on this host
    bool is_closed = false;                  // by us: its frames are dropped
    bool is_leaving = false;                 // lost; frames that came before may still be read
  };

  void ReadMonitor();
  void Accepted(int fd);
  // Returns false if the frame was for this endpoint, not for its owner.
  bool Understand(Peer* peer, Event* event);
  void Attach(Peer* peer, uint64_t session);
  // Gives sessions to peers whose greetings have come.
  void Meet(absl::Time now);
  // Returns the sender of a message; null: one that was reported as gone.
  Peer* FindOrAdd(const std::string& routing_id, int fd);
  void Leave(Peer* peer);
  // Ends connections found by ConnectionWatch. `is_drained`: no complete message waits.
  void Look(bool is_drained);
  // Ends it, and counts and logs it as `what`.
  void Refuse(int fd, const char* what, uint64_t* count);
  // Ends a TCP connection; returns false if it is not ours any more.
  bool Shut(int fd);
  void ReportLeaving(std::vector<Event>* events);

  const Limits limits_;
  const wire::Limits frame_limits_;
  const std::function<ConnectionId()> next_id_;
  RegionHost* const regions_;
  Socket socket_;
  std::unique_ptr<Monitor> monitor_;
  absl::flat_hash_map<ConnectionId, std::unique_ptr<Peer>> peers_;
  absl::flat_hash_map<std::string, Peer*> by_routing_id_;
  // TCP connections that the monitor knows of.
  absl::flat_hash_set<int> live_fds_;
  // Connections that we ended: their data is dropped.
  absl::flat_hash_set<int> refused_fds_;
  // Connections that ended without a message that was received; it may still be waiting.
  absl::flat_hash_set<int> unheard_fds_;
  uint64_t refused_ = 0;
  uint64_t silent_ = 0;
  ConnectionWatch watch_;
  uint64_t endless_ = 0, late_ = 0;
  absl::Time looked_at_ = absl::InfinitePast();
  size_t messages_since_look_ = 0;
  int port_ = 0;                       // bound last
  std::vector<ConnectionId> wanting_;  // sessions
  std::vector<ConnectionId> leaving_;
  // Calls of Receive for which leaving_ has waited.
  int leaving_rounds_ = 0;
  // Routing ids of peers reported as gone, newest last: a late frame must not revive one.
  std::deque<std::string> gone_;
  absl::flat_hash_set<std::string> gone_set_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_LISTENER_H_
