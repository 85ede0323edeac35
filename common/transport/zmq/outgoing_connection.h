#ifndef STRATA_COMMON_TRANSPORT_ZMQ_OUTGOING_CONNECTION_H_
#define STRATA_COMMON_TRANSPORT_ZMQ_OUTGOING_CONNECTION_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/transport/region_host.h"
#include "common/transport/region_session.h"
#include "common/transport/zmq/message.h"
#include "common/transport/zmq/socket.h"

namespace strata::transport {

// One connection opened by us: a DEALER and the monitor that reports when it is up and when it is
// lost. Threads: one.
class OutgoingConnection {
 public:
  // Starts to connect; `regions`, which may be null, outlives it. Errors: InvalidArgument
  // (address), ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<OutgoingConnection>> Create(
      ConnectionId id, const std::string& address, const Socket::Limits& socket_limits,
      const SendQueue::Limits& queue_limits, RegionHost* regions);
  // Use Create.
  OutgoingConnection(ConnectionId id, std::string address, Socket socket,
                     const Socket::Limits& socket_limits, const SendQueue::Limits& queue_limits,
                     RegionHost* regions);
  ~OutgoingConnection();

  absl::Status Send(const wire::Frame& frame);
  // Marks the peer as authenticated. Asks a peer of this host, which may read `memory`, for its
  // shared memory. Once; null: payloads go with their frames.
  void Admit(std::shared_ptr<const RegionMemory> memory);
  bool refers() const { return session_ != nullptr && session_->is_attached(); }
  // Sends waiting frames, and releases memory that the peer no longer needs.
  void Flush();
  // Appends at most `count_max` events; the last one may be kDisconnected, after which the object
  // is unusable.
  void Receive(size_t count_max, std::vector<Event>* events);

  bool is_gone() const { return is_gone_; }
  bool wants_send() const { return is_up_ && !queue_.empty(); }
  // Time by which it must be up.
  absl::Time connect_deadline() const { return is_up_ ? absl::InfiniteFuture() : deadline_; }
  // Readable when the peer sends something about shared memory; -1: nothing is expected.
  int region_fd() const;
  void* socket_handle() const { return socket_.handle(); }
  void* monitor_handle() const { return monitor_->handle(); }

 private:
  void ReadMonitor();
  void HearRegions();
  // Returns false if the frame was for this endpoint, not for its owner.
  bool Understand(Event* event);
  void Lose(const std::string& reason);

  const ConnectionId id_;
  const std::string address_;
  const wire::Limits frame_limits_;
  const absl::Time deadline_;
  Socket socket_;
  std::unique_ptr<Monitor> monitor_;
  SendQueue queue_;
  RegionHost* const regions_;
  std::unique_ptr<RegionSession> session_;  // with a peer on this host
  int fd_ = -1;                             // of the TCP connection; owned by ZeroMQ
  bool is_up_ = false;
  bool is_gone_ = false;
  // Why the connection is lost; OK while it is not.
  absl::Status loss_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_ZMQ_OUTGOING_CONNECTION_H_
