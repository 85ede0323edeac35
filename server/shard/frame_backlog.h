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
  // At most `frames_max` frames wait per connection. `endpoint` outlives it.
  FrameBacklog(transport::Endpoint* endpoint, size_t frames_max)
      : endpoint_(endpoint), frames_max_(frames_max) {}

  enum class Result {
    kSent,     // or the connection is gone, which an event will report
    kFull,     // the peer's queue is full: this frame waits, first in line
    kWaits,    // behind others
    kDropped,  // too many frames wait
  };
  Result Send(transport::ConnectionId connection, const wire::Frame& frame);
  // Sends as many frames as there is room for.
  void SendWaiting();
  // Drops frames that wait for this connection.
  void Forget(transport::ConnectionId connection) { waiting_.erase(connection); }
  bool empty() const { return waiting_.empty(); }

 private:
  transport::Endpoint* const endpoint_;
  const size_t frames_max_;
  std::map<transport::ConnectionId, std::deque<wire::Frame>> waiting_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_FRAME_BACKLOG_H_
