#ifndef STRATA_COMMON_CONTROL_SESSION_H_
#define STRATA_COMMON_CONTROL_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "common/os/limits.h"
#include "proto/control.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace strata::control {

// A daemon's connection to the coordinator: registers, sends heartbeats, receives commands. When
// the connection breaks it registers again, with the jobs that `running_jobs` names, and then sends
// the messages queued meanwhile, in order. Messages sent in the last seconds before the break are
// sent again, since they may be lost: the coordinator accepts each message any number of times.
//
// Messages that wait in either direction are bounded (kQueuedMessagesMax, kQueuedBytesMax):
// commands that the callbacks have not handled stay with the coordinator; a daemon with more to
// send than fits ends its session.
//
// Threads: Start, Stop and destruction from one thread, Send and use from any. The callbacks run on
// the session's own thread, one at a time, and must return soon: heartbeats wait for them. They may
// call Send and Stop.
class Session {
 public:
  struct Options {
    // "HOST:PORT", "unix:/PATH"; "HOST:PORT,HOST:PORT": the one that leads is found.
    std::string coordinator;
    Credentials credentials = {};  // with a HOST:PORT
    proto::Register registration;  // protocol_version and daemon_id are filled in if 0
    // How long the first contact may take; then Start fails with Unavailable, naming the address.
    absl::Duration connect_deadline = absl::Seconds(30);
    // How long a break may last; then on_lost.
    absl::Duration reconnect_deadline = absl::Seconds(60);
  };
  struct Callbacks {
    std::function<void(const proto::CoordinatorMessage&)> on_message;
    // Returns the content of a heartbeat.
    std::function<proto::Heartbeat()> heartbeat;
    std::function<std::vector<uint32_t>()> running_jobs;
    // Reports the connection on which this daemon is registered from now on, for streams beside the
    // session's; null: it has ended, and must be released. Optional.
    std::function<void(std::shared_ptr<grpc::Channel>)> on_line = {};
    // Called after Start has succeeded: refused, unreachable for good, or too much waits to be
    // sent: one line for the user. The daemon then stops.
    std::function<void(const absl::Status&)> on_lost;
  };

  // Queued messages and bytes, and the largest message so far.
  struct Use {
    size_t messages = 0;
    size_t bytes = 0;
    size_t message_bytes_max = 0;
  };

  virtual ~Session() = default;  // stops
  static std::unique_ptr<Session> Create(Options options, Callbacks callbacks);

  // Blocks until registered. Errors: Unavailable (address), FailedPrecondition (refused, with the
  // coordinator's reason: another protocol version, a name in use, another cluster, an invalid
  // certificate; or the coordinator is not trusted, or there are no keys for it), ResourceExhausted
  // (the coordinator accepts no more daemons).
  virtual absl::Status Start() = 0;
  // Leaving also applies to later registrations.
  virtual void Send(proto::DaemonMessage message) = 0;
  virtual Use use() = 0;
  // Ends the connection after queued messages have been sent (bounded by 2 s). Idempotent.
  virtual void Stop() = 0;
};

// Adds a resource and its limit to a heartbeat or status. Names that end in "bytes" are shown with
// units; names that begin with "largest" are sizes, of which a cluster shows the maximum instead of
// the sum. A limit of 0 means unlimited.
template <typename Message>
void AddResource(const std::string& name, uint64_t used, uint64_t limit, Message* message) {
  proto::Resource* resource = message->add_resources();
  resource->set_name(name);
  resource->set_used(used);
  resource->set_limit(limit);
}

// A count of 0 is omitted.
template <typename Message>
void AddRefusal(const std::string& cause, uint64_t count, Message* message) {
  if (count == 0) return;
  proto::Refusal* refusal = message->add_refusals();
  refusal->set_cause(cause);
  refusal->set_count(count);
}

template <typename Message>
void AddSessionResources(const Session::Use& use, Message* message) {
  AddResource("largest message bytes", use.message_bytes_max, kControlMessageBytesMax, message);
  AddResource("queued bytes", use.bytes, 2 * kQueuedBytesMax, message);
}

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_SESSION_H_
