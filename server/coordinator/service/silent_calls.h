#ifndef STRATA_SERVER_COORDINATOR_SERVICE_SILENT_CALLS_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_SILENT_CALLS_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace strata::server {

// How long a call may take to say what it asks for.
inline constexpr absl::Duration kRequestPatience = absl::Seconds(10);
// Calls of one member that may be open without having said it.
inline constexpr uint32_t kSilentCallsMax = 16;

// The calls that have not said yet what they ask for, by who makes them. Thread-safe.
class SilentCalls {
 public:
  // One of them, until it is destroyed. Where that takes longer than kRequestPatience the call is
  // cancelled, so that who reads its request is told that there is none.
  class Call {
   public:
    Call(SilentCalls* calls, std::string who, grpc::ServerContext* context);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call();

   private:
    struct Reach {
      absl::Mutex mutex;
      grpc::ServerContext* context ABSL_GUARDED_BY(mutex);  // null: the call is silent no more
    };
    SilentCalls* const calls_;
    const std::string who_;
    const std::shared_ptr<Reach> reach_;
    grpc::Alarm alarm_;
  };

  // `context` outlives what is returned. Errors: ResourceExhausted: that one has kSilentCallsMax.
  absl::StatusOr<std::unique_ptr<Call>> Begin(const std::string& who, grpc::ServerContext* context);

 private:
  void End(const std::string& who);

  absl::Mutex mutex_;
  std::map<std::string, uint32_t> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_SILENT_CALLS_H_
