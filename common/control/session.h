#ifndef STRATA_COMMON_CONTROL_SESSION_H_
#define STRATA_COMMON_CONTROL_SESSION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "proto/control.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace strata::control {

// A daemon's line to the coordinator: registers, sends heartbeats, brings commands. When the line
// breaks it registers again, with the jobs that `running_jobs` names, and then sends what was
// queued meanwhile, in order. What was sent in the last seconds before the break is sent again,
// since it may be lost: the coordinator takes each message any number of times.
//
// What waits in either direction is bounded (kQueuedMessagesMax, kQueuedBytesMax): commands that
// the callbacks have not got to are left with the coordinator; a daemon that has more to say than
// fits ends its session.
//
// Threads: Start, Stop and destruction from one thread, Send and use from any. The callbacks run on
// the session's own thread, one at a time, and must return soon: heartbeats wait for them. They may
// call Send and Stop.
class Session {
 public:
  struct Options {
    // "HOST:PORT", "unix:/PATH"; "HOST:PORT,HOST:PORT": of which one leads, and is found.
    std::string coordinator;
    Credentials credentials = {};  // with a HOST:PORT
    proto::Register registration;  // protocol_version and daemon_id are filled in where 0
    // How long the first contact may take; then Start fails with Unavailable, naming the address.
    absl::Duration connect_deadline = absl::Seconds(30);
    // How long a break may last; then on_lost.
    absl::Duration reconnect_deadline = absl::Seconds(60);
  };
  struct Callbacks {
    std::function<void(const proto::CoordinatorMessage&)> on_message;
    // Each heartbeat's content.
    std::function<proto::Heartbeat()> heartbeat;
    std::function<std::vector<uint32_t>()> running_jobs;
    // The connection on which this daemon is registered from now on, for streams beside the
    // session's; null: it has ended, so nothing may hold it. Not called where it is absent.
    std::function<void(std::shared_ptr<grpc::Channel>)> on_line = {};
    // Called after Start has succeeded: refused, unreachable for good, or too much waits to be
    // sent: one line for the user. The daemon then stops.
    std::function<void(const absl::Status&)> on_lost;
  };

  // What is queued now, and the largest message so far.
  struct Use {
    size_t messages = 0;
    size_t bytes = 0;
    size_t message_bytes_max = 0;
  };

  virtual ~Session() = default;  // stops
  static std::unique_ptr<Session> Create(Options options, Callbacks callbacks);

  // Blocks until registered. Errors: Unavailable (address), FailedPrecondition (refused, with the
  // coordinator's reason: another protocol version, a name in use, another cluster, a certificate
  // that does not count; or the coordinator is not to be trusted, or there are no keys for it),
  // ResourceExhausted (the coordinator takes no more daemons).
  virtual absl::Status Start() = 0;
  // Leaving holds for the registrations after it, too.
  virtual void Send(proto::DaemonMessage message) = 0;
  virtual Use use() = 0;
  // Ends the line after what is queued has been sent (bounded by 2 s). Idempotent.
  virtual void Stop() = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_SESSION_H_
