#ifndef STRATA_COMMON_CONTROL_SESSION_STREAM_H_
#define STRATA_COMMON_CONTROL_SESSION_STREAM_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "common/control/credentials.h"
#include "common/control/redial.h"
#include "proto/control.pb.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace strata::control {

// One connection of a session, from dialling to its end; never reused. A reader thread of its own
// brings what arrives.
//
// Threads: Write from one thread at a time; Cancel from any. The callbacks run on the reader thread
// until the destructor, which waits for it, returns.
class SessionStream {
 public:
  struct Callbacks {
    std::function<void(proto::CoordinatorMessage)> on_message;
    // The line has ended, with the reason; the last call. FailedPrecondition: there are no keys for
    // the coordinator, or something else answers there; Unauthenticated, PermissionDenied: the
    // coordinator's word.
    std::function<void(absl::Status)> on_closed;
  };

  virtual ~SessionStream() = default;  // cancels
  // Blocks up to about `limits`; where that is not enough, or nobody is there, the line has ended
  // already.
  static std::unique_ptr<SessionStream> Dial(const std::string& coordinator,
                                             const Credentials& credentials,
                                             const DialLimits& limits, Callbacks callbacks);

  // Hands the message to the connection; may block while its buffers are full. False: the line is
  // broken, on_closed says why.
  virtual bool Write(const proto::DaemonMessage& message) = 0;
  // Says that no more comes; the coordinator then closes the line in order.
  virtual void Finish() = 0;
  // Breaks the line at once; a Write in progress returns.
  virtual void Cancel() = 0;
  // Null: there never was a connection.
  virtual std::shared_ptr<grpc::Channel> channel() const = 0;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_SESSION_STREAM_H_
