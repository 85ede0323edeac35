#ifndef STRATA_SERVER_SHARD_FRAME_BACKLOG_H_
#define STRATA_SERVER_SHARD_FRAME_BACKLOG_H_

#include <cstddef>
#include <deque>
#include <map>

#include "common/transport/endpoint.h"

namespace strata::server {

// Frames that wait for room in their peer's queue, in order per connection. Threads: one.
class FrameBacklog {
 public:
  // Lets at most `frames_max` wait per connection. `endpoint` outlives it.
  FrameBacklog(transport::Endpoint* endpoint, size_t frames_max)
      : endpoint_(endpoint), frames_max_(frames_max) {}

  enum class Result {
    kSent,     // or the connection is gone, and its end on its way here as an event
    kFull,     // the peer's queue is full now: this frame waits, as the first one
    kWaits,    // behind others
    kDropped,  // too many wait
  };
  Result Send(transport::ConnectionId connection, const wire::Frame& frame);
  // Sends what there is room for now.
  void SendWaiting();
  // Drops what waits for this connection.
  void Forget(transport::ConnectionId connection) { waiting_.erase(connection); }
  bool empty() const { return waiting_.empty(); }

 private:
  transport::Endpoint* const endpoint_;
  const size_t frames_max_;
  std::map<transport::ConnectionId, std::deque<wire::Frame>> waiting_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAME_BACKLOG_H_
