#ifndef STRATA_SERVER_COORDINATOR_SERVICE_DOORKEEPER_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_DOORKEEPER_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/access/audit_log.h"
#include "server/coordinator/access/call_table.h"
#include "server/coordinator/members/job_owner.h"
#include "server/coordinator/service/admission.h"
#include "server/coordinator/service/one_request.h"

namespace strata::server {

// How long a call may take to send its request.
inline constexpr absl::Duration kRequestPatience = absl::Seconds(10);
// Open calls of one member that have not sent their request.
inline constexpr uint32_t kSilentCallsMax = 16;

// The calls that have not sent their request yet, by caller. Thread-safe.
class SilentCalls {
 public:
  // One such call, until it is destroyed. After kRequestPatience it is cancelled, so that its
  // reader fails.
  class Call {
   public:
    Call(SilentCalls* calls, std::string who, grpc::ServerContext* context);
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call();

   private:
    struct Reach {
      absl::Mutex mutex;
      grpc::ServerContext* context ABSL_GUARDED_BY(mutex);  // null: the request has arrived
    };
    SilentCalls* const calls_;
    const std::string who_;
    const std::shared_ptr<Reach> reach_;
    grpc::Alarm alarm_;
  };

  // `context` outlives the result. Errors: ResourceExhausted: the caller has kSilentCallsMax
  // already.
  absl::StatusOr<std::unique_ptr<Call>> Begin(const std::string& who, grpc::ServerContext* context);

 private:
  void End(const std::string& who);

  absl::Mutex mutex_;
  std::map<std::string, uint32_t> open_ ABSL_GUARDED_BY(mutex_);
};

// An admitted caller, for the duration of the call.
struct Guest {
  Caller caller;
  std::string peer;
  std::unique_ptr<SilentCalls::Call> silent = {};  // set while waiting for the request
  std::optional<Gate::Pass> pass = {};             // set once the request has arrived
};

// Admits permitted calls, counts refused ones, and writes both to the audit log.
//
// Threads: any.
class Doorkeeper {
 public:
  // Both outlive it.
  Doorkeeper(const Access* access, AuditLog* audit) : access_(access), audit_(audit) {}

  // Returns the caller of a permitted call; its request may be read then. A connection without TLS
  // comes through the Unix socket, whose peer the acceptor has checked, or to a coordinator that
  // accepts everybody. Errors, one line each, counted: Unauthenticated, PermissionDenied.
  // ResourceExhausted: too many of the member's calls are silent.
  absl::StatusOr<Guest> Greet(grpc::ServerContext* context, Call call);
  // Admits a guest whose request has arrived through `gate`. Errors: as Greet, by current rights.
  // ResourceExhausted: the gate is full; forbidden or silent calls take no place in it.
  absl::Status Seat(Guest* guest, Call call, Gate* gate);
  // Greet and Seat, for a call that needs no request to begin.
  absl::StatusOr<Guest> LetIn(grpc::ServerContext* context, Call call, Gate* gate);
  // Greet and Seat, with the request read in between. Further errors: those of ReadRequest.
  template <typename Stream, typename Request>
  absl::StatusOr<Guest> LetIn(grpc::ServerContext* context, Call call, Gate* gate, Stream* stream,
                              Request* request) {
    absl::StatusOr<Guest> guest = Greet(context, call);
    absl::Status status = guest.status();
    if (status.ok()) status = ReadRequest(stream, request);
    if (status.ok()) status = Seat(&*guest, call, gate);
    return status.ok() ? std::move(guest) : status;
  }
  // Checks that a guest may make the call about that job now. `owner`: nullopt: there is no such
  // job. Errors: NoSuchJob, also for a job that the guest may not know of, and counted the same
  // way, so that no counter distinguishes the two; PermissionDenied, counted: they may not, or no
  // longer.
  absl::Status MayNow(const Guest& guest, Call call, JobId job,
                      const std::optional<JobOwner>& owner);

  // Counts a call that was refused later, and logs it unless there are too many.
  void Refuse(const Caller& caller, const std::string& peer, const std::string& what, uint32_t job,
              const absl::Status& why);
  void Refuse(const Guest& guest, const std::string& what, const absl::Status& why) {
    Refuse(guest.caller, guest.peer, what, 0, why);
  }
  // Logs a permitted request that failed.
  void NoteRefused(const Caller& caller, const std::string& peer, const std::string& what,
                   const std::string& why);
  void NoteRefused(const Guest& guest, const std::string& what, const absl::Status& why) {
    NoteRefused(guest.caller, guest.peer, what, std::string(why.message()));
  }
  // Logs a completed action.
  void Note(const Caller& caller, const std::string& peer, const std::string& what, uint32_t job,
            const std::string& detail);
  void Note(const Guest& guest, const std::string& what, const std::string& detail) {
    Note(guest.caller, guest.peer, what, 0, detail);
  }

  // Refused calls: without the required certificate, and of users by the policy.
  uint64_t refused() const { return refused_; }
  uint64_t refused_users() const { return refused_users_; }

 private:
  const Access* const access_;
  AuditLog* const audit_;
  SilentCalls silent_;
  std::atomic<uint64_t> refused_ = 0;
  std::atomic<uint64_t> refused_users_ = 0;
};

// Returns a status of the same code and text.
grpc::Status ToGrpc(const absl::Status& status);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_DOORKEEPER_H_
