#ifndef STRATA_SERVER_COORDINATOR_SERVICE_COORDINATOR_SERVICE_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_COORDINATOR_SERVICE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/closure_queue.h"
#include "proto/control.grpc.pb.h"
#include "server/coordinator/access/access.h"
#include "server/coordinator/core/coordinator_core.h"
#include "server/coordinator/jobs/log_readings.h"
#include "server/coordinator/service/admission.h"
#include "server/coordinator/service/background_work.h"
#include "server/coordinator/service/doorkeeper.h"
#include "server/coordinator/service/job_store.h"
#include "server/coordinator/service/one_request.h"
#include "server/coordinator/service/port_watch.h"

namespace strata::server {

// The one thread that owns the coordinator's state. Post from any thread; Start and Stop from one.
class ControlLoop {
 public:
  // `tick` runs on the loop's thread every `period`, between closures.
  ControlLoop(std::function<void()> tick, absl::Duration period);
  ~ControlLoop() { Stop(); }

  void Start();
  // Runs the closures posted so far, then ends. Idempotent.
  void Stop();

  // Runs the closure on the loop's thread. Errors: those of ClosureQueue::Post; the closure does
  // not run then.
  absl::Status Post(ClosureQueue::Closure closure) { return queue_.Post(std::move(closure)); }
  // Posts the closure and waits until it has run; never from the loop's thread.
  absl::Status Run(const std::function<void()>& closure);

 private:
  void Loop();

  const std::function<void()> tick_;
  const absl::Duration period_;
  ClosureQueue queue_;
  std::thread thread_;

  absl::Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
};

// Stands between gRPC and the core. Each call's thread posts to the control loop, which alone
// touches core and store; what the core sends goes through a queue per stream to that stream's
// thread.
class CoordinatorService final : public proto::Coordinator::Service, private CoordinatorActions {
 public:
  // Set for a coordinator that competes for leadership.
  struct Leading {
    uint64_t epoch = 0;           // number of leader changes; 0: there is a single coordinator
    std::function<bool()> leads;  // returns whether it leads now; empty: always. Any thread calls
                                  // it.
    // A daemon knows of a later leader.
    std::function<void()> on_later_epoch;
  };
  // `store`, `access` and `audit` outlive the service. `open_store` opens what jobs' checkpoint.dir
  // names.
  CoordinatorService(CoordinatorCore::Options options, const CoordinatorLimits& limits,
                     JobStore* store, Access* access, AuditLog* audit, StoreOpener open_store,
                     Leading leading);

  // Restores the store's content and starts the control loop.
  absl::Status Start();
  // Ends all followers' streams, so that the gRPC server can shut down.
  void EndFollowers();
  // Counts a connection that was refused for lack of room. Any thread may call it.
  void CountRefusedConnection();
  // Counts a connection that was refused as another user's.
  void CountStranger();
  // Ends the sessions of former members. Any thread may call it.
  void EndRevokedSessions();
  // See LogsService::Look.
  absl::Status LookForLogs(const Guest& guest, JobId job, LogScene* scene);
  Gate* call_gate() { return &call_gate_; }
  Doorkeeper* doorkeeper() { return &doorkeeper_; }
  // Ends the control loop, once the gRPC server has shut down.
  void Stop();

  grpc::Status Session(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::CoordinatorMessage, proto::DaemonMessage>* stream) override;

 private:
  // The calls with a single request; see OneRequest.
  grpc::Status StreamedSubmit(grpc::ServerContext* context,
                              OneRequest<proto::SubmitRequest, proto::SubmitReply>* stream);
  grpc::Status StreamedCancel(grpc::ServerContext* context,
                              OneRequest<proto::CancelRequest, proto::CancelReply>* stream);
  grpc::Status StreamedListJobs(grpc::ServerContext* context,
                                OneRequest<proto::ListJobsRequest, proto::ListJobsReply>* stream);
  grpc::Status StreamedGetJob(grpc::ServerContext* context,
                              OneRequest<proto::GetJobRequest, proto::JobStatus>* stream);
  grpc::Status StreamedListNodes(
      grpc::ServerContext* context,
      OneRequest<proto::ListNodesRequest, proto::ListNodesReply>* stream);
  grpc::Status StreamedFollow(grpc::ServerContext* context,
                              OneRequestStream<proto::FollowRequest, proto::FollowEvent>* stream);
  grpc::Status StreamedGetTrace(
      grpc::ServerContext* context,
      OneRequestStream<proto::GetTraceRequest, proto::TraceBatch>* stream);

  grpc::Status StreamedDrain(grpc::ServerContext* context,
                             OneRequest<proto::DrainRequest, proto::DrainReply>* stream);

  using SessionQueue = MessageQueue<proto::CoordinatorMessage>;
  using FollowQueue = MessageQueue<proto::FollowEvent>;

  // The call of an open session.
  class OpenLine {
   public:
    explicit OpenLine(grpc::ServerContext* context) : context_(context) {}
    // Breaks it, whatever its threads wait for.
    void Cancel() {
      absl::MutexLock lock(&mutex_);
      if (context_ != nullptr) context_->TryCancel();
    }
    void End() {
      absl::MutexLock lock(&mutex_);
      context_ = nullptr;
    }

   private:
    absl::Mutex mutex_;
    grpc::ServerContext* context_ ABSL_GUARDED_BY(mutex_);
  };
  // The peer of a session.
  struct Member {
    Caller caller;
    std::string peer;
    std::shared_ptr<SessionQueue> queue;
    std::shared_ptr<OpenLine> line;
    std::string registers_as = {};  // the name that it registered: "worker w1"
  };

  // Called regularly on the loop's thread.
  void Tick();

  // Returns whether a daemon's message is within its limits; otherwise its session is ended.
  bool IsBounded(const Member& member, const proto::DaemonMessage& message);

  // Returns whether the message is for the core: neither a registration under another's name nor a
  // request for a certificate, which is answered here.
  bool IsForCore(const Member& member, const proto::DaemonMessage& message);

  // Returns whether the daemon has seen a later leader; its session is ended then.
  bool KnowsLaterLeader(const Member& member, const proto::Register& registration);
  // A deposed leader sends nothing: its state may differ from what was saved.
  bool leads() const { return !leading_.leads || leading_.leads(); }

  // May be called on any thread but the loop's.
  void DropFollower(JobId job, const std::shared_ptr<FollowQueue>& queue);

  // CoordinatorActions; called on the loop's thread.
  void Send(SessionId session, const proto::CoordinatorMessage& message) override;
  void Close(SessionId session) override;
  absl::Status Persist(const proto::StoredJob& job) override { return store_->Save(job); }
  void Forget(JobId job) override;
  absl::Status PersistSeen(const std::vector<SeenRegistrations::Entry>& seen) override {
    return store_->SaveSeen(seen);
  }
  absl::Status PersistDraining(const std::vector<std::string>& daemons) override {
    return store_->SaveDraining(daemons);
  }
  void LearnPorts(const Daemon& server) override;
  void WatchPorts(const Daemon& server) override;
  void Notify(JobId job, const proto::FollowEvent& event) override;
  void FindCheckpoint(const CheckpointQuery& query) override;
  void KeepCheckpoint(const CheckpointToKeep& checkpoint) override;

  // Reads the request of a permitted caller, unless too many calls are open, runs `ask` on the
  // loop's thread and waits.
  template <typename Request, typename Reply>
  grpc::Status Ask(
      grpc::ServerContext* context, OneRequest<Request, Reply>* stream, Call call,
      const std::type_identity_t<std::function<absl::Status(const Guest&, const Request&, Reply*)>>&
          ask) {
    Request request;
    const absl::StatusOr<Guest> guest =
        doorkeeper_.LetIn(context, call, &call_gate_, stream, &request);
    if (!guest.ok()) return ToGrpc(guest.status());
    Reply reply;
    return End(stream, Run([&] { return ask(*guest, request, &reply); }), reply);
  }
  grpc::Status Run(const std::function<absl::Status()>& ask);

  JobStore* const store_;
  Access* const access_;
  const Leading leading_;
  Doorkeeper doorkeeper_;
  const RealClock clock_;
  Gate session_gate_;
  Gate call_gate_;
  std::atomic<uint64_t> next_session_ = 1;
  std::atomic<uint64_t> refused_connections_ = 0;
  std::atomic<uint64_t> strangers_ = 0;

  // Owned by the loop's thread.
  CoordinatorCore core_;
  std::map<SessionId, Member> sessions_;
  absl::Time renewals_saved_ = absl::InfinitePast();
  // By job; the value says whether the follower wants the ranks' reports, too.
  std::map<JobId, std::map<std::shared_ptr<FollowQueue>, bool>> followers_;

  CheckpointKeeper keeper_;
  PortWatch port_watch_;
  ControlLoop loop_;  // destroyed before what its thread uses
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_COORDINATOR_SERVICE_H_
