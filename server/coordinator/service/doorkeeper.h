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

// One who was let in, for as long as the call lasts.
struct Guest {
  Caller caller;
  std::string peer;
  std::unique_ptr<SilentCalls::Call> silent = {};  // while the request is awaited
  std::optional<Gate::Pass> pass = {};             // once it is there
};

// Lets in who may make a call, counts who may not, and writes both down.
//
// Threads: any.
class Doorkeeper {
 public:
  // Both outlive it.
  Doorkeeper(const Access* access, AuditLog* audit) : access_(access), audit_(audit) {}

  // Returns who makes a call, where they may make it; their request may be read then. A connection
  // without TLS is the Unix socket's, whose other end the acceptor has looked at, or that of a
  // coordinator which takes everybody. Errors: Unauthenticated, PermissionDenied, each in one line;
  // they are counted. ResourceExhausted: too many of one member's calls say nothing.
  absl::StatusOr<Guest> Greet(grpc::ServerContext* context, Call call);
  // Gives a guest whose request is there a place. Errors: as Greet, for what they may now.
  // ResourceExhausted: as many as may are inside; who may not make the call, or says nothing, takes
  // no place from them.
  absl::Status Seat(Guest* guest, Call call, Gate* gate);
  // Both, of a call that needs no request to begin.
  absl::StatusOr<Guest> LetIn(grpc::ServerContext* context, Call call, Gate* gate);
  // Both, with the request read between them. Errors besides: those of ReadRequest.
  template <typename Stream, typename Request>
  absl::StatusOr<Guest> LetIn(grpc::ServerContext* context, Call call, Gate* gate, Stream* stream,
                              Request* request) {
    absl::StatusOr<Guest> guest = Greet(context, call);
    absl::Status status = guest.status();
    if (status.ok()) status = ReadRequest(stream, request);
    if (status.ok()) status = Seat(&*guest, call, gate);
    return status.ok() ? std::move(guest) : status;
  }
  // Whether a guest may make the call about that job, now. `owner`: nullopt: there is no such job.
  // Errors: NoSuchJob, also of a job that the guest may not know of, and counted alike, so that no
  // counter tells the two apart; PermissionDenied: they may not, or no longer; counted.
  absl::Status MayNow(const Guest& guest, Call call, JobId job,
                      const std::optional<JobOwner>& owner);

  // Counts a call that was refused further inside, and logs it unless there were many.
  void Refuse(const Caller& caller, const std::string& peer, const std::string& what, uint32_t job,
              const absl::Status& why);
  void Refuse(const Guest& guest, const std::string& what, const absl::Status& why) {
    Refuse(guest.caller, guest.peer, what, 0, why);
  }
  // Writes down what those who may ask for it asked for in vain.
  void NoteRefused(const Caller& caller, const std::string& peer, const std::string& what,
                   const std::string& why);
  void NoteRefused(const Guest& guest, const std::string& what, const absl::Status& why) {
    NoteRefused(guest.caller, guest.peer, what, std::string(why.message()));
  }
  // Writes down what was done.
  void Note(const Caller& caller, const std::string& peer, const std::string& what, uint32_t job,
            const std::string& detail);
  void Note(const Guest& guest, const std::string& what, const std::string& detail) {
    Note(guest.caller, guest.peer, what, 0, detail);
  }

  // Calls that were refused: of those who have no certificate for them, and of users by the policy.
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
