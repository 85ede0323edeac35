#ifndef STRATA_COMMON_CONTROL_LOGS_CLIENT_H_
#define STRATA_COMMON_CONTROL_LOGS_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "proto/logs.pb.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace strata::control {

// A user's connection for reading a job's logs.
//
// Threads: Read from one; Stop from any.
class LogsClient {
 public:
  struct Options {
    // "HOST:PORT", "unix:/PATH"; "HOST:PORT,HOST:PORT": the one that leads is found.
    std::string coordinator;
    Credentials credentials = {};  // with a HOST:PORT
    absl::Duration deadline = absl::Seconds(10);
  };

  explicit LogsClient(Options options) : options_(std::move(options)) {}

  // Calls `on_lines` in this thread with received lines, until everything requested has been shown.
  // Errors: Unavailable: the coordinator cannot be reached (names it), or has ended the stream (a
  // repeated call would show the same lines again); FailedPrecondition: there are no keys for it,
  // it rejects them, or the job has not begun; NotFound: no such job; PermissionDenied: it is
  // somebody else's; InvalidArgument: it has no such process; Unimplemented: the coordinator is of
  // an earlier version; ResourceExhausted: too many readers; Cancelled: by Stop.
  absl::Status Read(const proto::ReadLogs& request,
                    const std::function<void(const proto::LogLines&)>& on_lines);
  // Ends Read, also later calls.
  void Stop();

 private:
  absl::Status ReadFrom(const std::shared_ptr<grpc::Channel>& channel,
                        const proto::ReadLogs& request,
                        const std::function<void(const proto::LogLines&)>& on_lines);
  bool Stopped();

  const Options options_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ClientContext* context_ ABSL_GUARDED_BY(mutex_) = nullptr;  // to cancel
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_LOGS_CLIENT_H_
