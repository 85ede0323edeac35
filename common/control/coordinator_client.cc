#include "common/control/coordinator_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/control/addresses.h"
#include "common/control/channel.h"
#include "common/control/dial.h"
#include "common/job/job.h"
#include "common/os/unix_socket.h"
#include "common/random.h"
#include "proto/control.grpc.pb.h"

namespace strata::control {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(200);
// Interval of checking a checkpoint that is being written.
constexpr absl::Duration kCheckpointLook = absl::Milliseconds(20);

class GrpcCoordinatorClient final : public CoordinatorClient {
 public:
  explicit GrpcCoordinatorClient(Options options)
      : options_(std::move(options)),
        path_(UnixPath(options_.coordinator)),
        round_(options_.coordinator) {}

  absl::StatusOr<JobId> Submit(const proto::Job& job, const proto::ResumeFrom& resume) override {
    proto::SubmitRequest request;
    *request.mutable_resume() = resume;
    *request.mutable_job() = job;
    request.set_protocol_version(kProtocolVersion);
    request.set_request_id(RandomId());
    proto::SubmitReply reply;
    const absl::Status status =
        Call([&](Stub& stub, grpc::ClientContext* c) { return stub.Submit(c, request, &reply); });
    if (!status.ok()) return status;
    return JobId(reply.job_id());
  }

  absl::Status Cancel(JobId job) override {
    proto::CancelRequest request;
    request.set_job_id(job.value());
    proto::CancelReply reply;
    return Call(
        [&](Stub& stub, grpc::ClientContext* c) { return stub.Cancel(c, request, &reply); });
  }

  absl::StatusOr<std::vector<proto::JobStatus>> ListJobs() override {
    std::vector<proto::JobStatus> jobs;
    proto::ListJobsRequest request;
    while (true) {
      proto::ListJobsReply page;
      const absl::Status status = Call(
          [&](Stub& stub, grpc::ClientContext* c) { return stub.ListJobs(c, request, &page); });
      if (!status.ok()) return status;
      std::move(page.mutable_jobs()->begin(), page.mutable_jobs()->end(), std::back_inserter(jobs));
      // A page that makes no progress would repeat forever.
      if (!page.more() || jobs.empty() || jobs.back().job_id() <= request.after()) return jobs;
      request.set_after(jobs.back().job_id());
    }
  }

  absl::StatusOr<proto::JobStatus> GetJob(JobId job) override {
    proto::GetJobRequest request;
    request.set_job_id(job.value());
    proto::JobStatus reply;
    const absl::Status status =
        Call([&](Stub& stub, grpc::ClientContext* c) { return stub.GetJob(c, request, &reply); });
    if (!status.ok()) return status;
    return reply;
  }

  absl::StatusOr<proto::ListNodesReply> ListNodes() override {
    proto::ListNodesReply all;
    proto::ListNodesRequest request;
    while (true) {
      proto::ListNodesReply page;
      const absl::Status status = Call(
          [&](Stub& stub, grpc::ClientContext* c) { return stub.ListNodes(c, request, &page); });
      if (!status.ok()) return status;
      const bool more = page.more() && !page.daemons().empty();
      if (request.after().empty()) {
        all = std::move(page);
        all.clear_more();
      } else {
        for (proto::DaemonStatus& daemon : *page.mutable_daemons()) {
          *all.add_daemons() = std::move(daemon);
        }
      }
      if (!more || all.daemons().rbegin()->name() <= request.after()) return all;
      request.set_after(all.daemons().rbegin()->name());
    }
  }

  absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest& request) override {
    proto::DrainReply reply;
    const absl::Status status =
        Call([&](Stub& stub, grpc::ClientContext* c) { return stub.Drain(c, request, &reply); });
    if (!status.ok()) return status;
    return reply;
  }

  absl::StatusOr<proto::JobStatus> Follow(
      JobId job, const std::function<void(const proto::FollowEvent&)>& on_event) override {
    absl::Time give_up_at = absl::Now() + options_.deadline;
    AddressRound round = Round();
    while (true) {
      proto::JobStatus newest;
      const absl::Status status = FollowOnce(round, job, on_event, &newest);
      if (StoppedFollowing()) return absl::CancelledError("no longer followed");
      if (status.ok() && HasEnded(newest.state())) return newest;
      if (!status.ok() && !absl::IsUnavailable(status)) return FromPeer(round, status);
      if (newest.job_id() != 0) give_up_at = absl::Now() + options_.deadline;
      if (newest.job_id() != 0) Served(&round);
      const bool all_tried = round.OnFailed(std::string(status.message()));
      if (absl::Now() >= give_up_at) return TooLate(round);
      if (all_tried) Pause();
    }
  }

  absl::Status GetTrace(JobId job,
                        const std::function<void(const proto::TraceBatch&)>& on_batch) override {
    proto::GetTraceRequest request;
    request.set_job_id(job.value());
    const absl::Time deadline = absl::Now() + options_.deadline;
    AddressRound round = Round();
    while (true) {
      const absl::StatusOr<StubPointer> stub =
          Connect(round, std::min(deadline, absl::Now() + kPause));
      absl::Status status = stub.status();
      if (stub.ok()) {
        status = Read<proto::TraceBatch>(
            [&](grpc::ClientContext* context) { return (*stub)->GetTrace(context, request); },
            on_batch);
      }
      if (StoppedFollowing()) return absl::CancelledError("no longer followed");
      const bool is_elsewhere = !stub.ok() || IsStandbyText(std::string(status.message()));
      if (!absl::IsUnavailable(status) || !is_elsewhere) return FromPeer(round, status);
      const bool all_tried = round.OnFailed(std::string(status.message()));
      if (absl::Now() >= deadline) return TooLate(round);
      if (all_tried && (stub.ok() || !round.is_one())) Pause();
    }
  }

  void StopFollowing() override {
    absl::MutexLock lock(&mutex_);
    stop_following_ = true;
    for (grpc::ClientContext* context : following_) context->TryCancel();
  }

 private:
  using Stub = proto::Coordinator::Stub;
  using StubPointer = std::unique_ptr<Stub>;

  AddressRound Round() {
    absl::MutexLock lock(&mutex_);
    return round_;
  }
  // Later calls begin there.
  void Served(AddressRound* round) {
    round->OnServed();
    absl::MutexLock lock(&mutex_);
    round_ = *round;
  }

  // Returns a stub at the round's address whose connection is up by then. A Unix socket is dialed
  // again each time, since only then the kernel tells who listens. Errors: Unavailable;
  // PermissionDenied: another user listens; FailedPrecondition: see the class.
  absl::StatusOr<StubPointer> Connect(const AddressRound& round, absl::Time until) {
    if (!path_) return ConnectOverTcp(round, until);
    while (true) {
      absl::StatusOr<UniqueFd> line = DialUnix(*path_);
      if (line.ok()) return proto::Coordinator::NewStub(ChannelOn(*std::move(line)));
      if (!absl::IsUnavailable(line.status())) return line.status();
      if (absl::Now() >= until) return absl::UnavailableError("");
      absl::SleepFor(std::min(kPause, until - absl::Now()));
    }
  }

  absl::StatusOr<StubPointer> ConnectOverTcp(const AddressRound& round, absl::Time until) {
    const std::string& address = round.current();
    if (!round.is_one()) {
      // If nobody listens, this probe is cheaper than a channel.
      const absl::StatusOr<UniqueFd> probe = DialTcp(address, kTryOfSeveral, kTryOfSeveral);
      if (!probe.ok()) return probe.status();
      until = std::min(until, absl::Now() + kTryOfSeveral);
    }
    const absl::StatusOr<Line> line = NewestLine(address);
    if (!line.ok()) return line.status();
    const absl::Status up = line->Await(until);
    if (up.ok()) return proto::Coordinator::NewStub(line->channel);
    if (absl::IsUnavailable(up)) return absl::UnavailableError(round.is_one() ? "" : "no answer");
    if (!absl::IsUnauthenticated(up)) return up;
    ForgetLine(address);
    return FromPeer(round, up);
  }

  // Returns a connection with current keys: those of an existing one may have been renewed since.
  absl::StatusOr<Line> NewestLine(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    const auto it = lines_.find(address);
    if (it != lines_.end()) return it->second;
    const absl::StatusOr<Line> line = LineTo(address, options_.credentials);
    if (line.ok()) lines_.emplace(address, *line);
    return line;
  }
  void ForgetLine(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    lines_.erase(address);
  }

  // Returns Refused if either side rejects the other's certificate.
  absl::Status FromPeer(const AddressRound& round, const absl::Status& status) const {
    if (!absl::IsUnauthenticated(status)) return status;
    return Refused(round.current(), std::string(status.message()));
  }

  absl::Status TooLate(const AddressRound& round) const { return TooLate(round.Reasons()); }
  absl::Status TooLate(const std::string& why) const {
    return GaveUp(options_.coordinator, options_.credentials, options_.deadline, why);
  }

  // With several addresses, one may hang while another one leads.
  absl::Time AnswerBy(const AddressRound& round, absl::Time deadline) const {
    if (round.is_one()) return deadline;
    return std::min(deadline, absl::Now() + options_.deadline / 3);
  }

  // Runs `method` on a fresh context until it succeeds, fails for a reason other than the
  // connection, or the deadline passes. Calls must be idempotent.
  template <typename Method>
  absl::Status Call(const Method& method) {
    const absl::Time deadline = absl::Now() + options_.deadline;
    AddressRound round = Round();
    while (true) {
      const absl::StatusOr<StubPointer> stub = Connect(round, deadline);
      absl::Status status = stub.status();
      if (!stub.ok() && !absl::IsUnavailable(status)) return status;
      if (stub.ok()) {
        grpc::ClientContext context;
        context.set_deadline(absl::ToChronoTime(AnswerBy(round, deadline)));
        status = FromGrpc(method(**stub, &context));
        if (absl::IsUnimplemented(status)) {
          return TooLate("a gRPC server is there, but it is not a coordinator");
        }
        const bool is_late = absl::IsDeadlineExceeded(status);
        // Not cancelled by us: a coordinator that stops, or begins to lead, cancels calls.
        if (absl::IsCancelled(status)) status = absl::UnavailableError("it ends the call");
        if (!is_late && !absl::IsUnavailable(status)) {
          Served(&round);
          return FromPeer(round, status);
        }
        if (is_late) status = absl::UnavailableError("it does not answer");
      }
      const bool all_tried = round.OnFailed(std::string(status.message()));
      if (absl::Now() + (all_tried ? kPause : absl::ZeroDuration()) >= deadline) {
        return TooLate(round);
      }
      if (all_tried) Pause();
    }
  }

  absl::Status FollowOnce(const AddressRound& round, JobId job,
                          const std::function<void(const proto::FollowEvent&)>& on_event,
                          proto::JobStatus* newest) {
    const absl::StatusOr<StubPointer> stub = Connect(round, absl::Now() + kPause);
    if (!stub.ok()) return stub.status();
    proto::FollowRequest request;
    request.set_job_id(job.value());
    request.set_reports(options_.reports);
    return Read<proto::FollowEvent>(
        [&](grpc::ClientContext* context) { return (*stub)->Follow(context, request); },
        [&](const proto::FollowEvent& event) {
          if (event.has_status()) *newest = event.status();
          on_event(event);
        });
  }

  // Reads a stream to its end, unless StopFollowing comes first.
  template <typename Message, typename Open>
  absl::Status Read(const Open& open, const std::function<void(const Message&)>& on_message) {
    grpc::ClientContext context;
    {
      absl::MutexLock lock(&mutex_);
      if (stop_following_) return absl::CancelledError("");
      following_.insert(&context);
    }
    const auto reader = open(&context);
    Message message;
    while (reader->Read(&message)) on_message(message);
    const absl::Status status = FromGrpc(reader->Finish());
    absl::MutexLock lock(&mutex_);
    following_.erase(&context);
    // Not cancelled by us: a coordinator that stops cancels calls that arrive after it has ended
    // the others.
    const bool by_coordinator = absl::IsCancelled(status) && !stop_following_;
    return by_coordinator ? absl::UnavailableError("the coordinator ends the stream") : status;
  }

  bool StoppedFollowing() {
    absl::MutexLock lock(&mutex_);
    return stop_following_;
  }
  void Pause() {
    absl::MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(absl::Condition(&stop_following_), kPause);
  }

  const Options options_;
  const std::optional<std::string> path_;  // of a Unix socket

  absl::Mutex mutex_;
  AddressRound round_ ABSL_GUARDED_BY(mutex_);                 // where the next call begins
  std::map<std::string, Line> lines_ ABSL_GUARDED_BY(mutex_);  // by HOST:PORT, created on demand
  bool stop_following_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> following_ ABSL_GUARDED_BY(mutex_);  // to cancel
};

}  // namespace

bool HasEnded(proto::JobState state) {
  return state == proto::FINISHED || state == proto::FAILED || state == proto::CANCELLED;
}

void AwaitLastCheckpoint(CoordinatorClient* client, const proto::JobStatus& end,
                         absl::Duration timeout, const std::function<bool()>& still_wanted) {
  const absl::Time give_up_at = absl::Now() + timeout;
  absl::StatusOr<proto::JobStatus> status = end;
  while (status.ok() && status->checkpoints().has_writing_step() && absl::Now() < give_up_at) {
    absl::SleepFor(kCheckpointLook);
    if (!still_wanted()) return;
    status = client->GetJob(JobId(end.job_id()));
  }
}

std::unique_ptr<CoordinatorClient> CoordinatorClient::Create(Options options) {
  return std::make_unique<GrpcCoordinatorClient>(std::move(options));
}

}  // namespace strata::control
