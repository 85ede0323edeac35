#include "server/coordinator/service/coordinator_service.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/control/addresses.h"
#include "common/control/session.h"
#include "common/job/job.h"
#include "common/log.h"
#include "common/os/message_bounds.h"
#include "server/coordinator/access/call_table.h"
#include "server/coordinator/service/doorkeeper.h"

namespace strata::server {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(100);
constexpr size_t kSessionMessagesMax = kQueuedMessagesMax;
// How long a daemon may take to close a connection that is to end.
constexpr absl::Duration kCloseGrace = absl::Milliseconds(500);

// The order of the calls in proto/control.proto, as gRPC numbers them.
enum Method { kSubmit = 1, kCancel, kListJobs, kGetJob, kListNodes, kFollow, kGetTrace, kDrain };

// How often new certificates are saved.
constexpr absl::Duration kSaveEvery = absl::Seconds(1);

uint64_t RandomToken() {
  std::random_device random;
  return static_cast<uint64_t>(random()) << 32 | random();
}

std::string NameOf(const proto::Register& registration) {
  return absl::StrCat(registration.role() == proto::SERVER ? "server " : "worker ",
                      registration.name());
}

bool MaySee(const Caller& caller, const JobOwner& owner) {
  return Decide(caller, Call::kGetJob, SideOf(caller, owner)) == Verdict::kYes;
}

// Removes the totals of all users' jobs and calls.
void LeaveOutUse(proto::ListNodesReply* reply) {
  const auto leave_out = [](proto::DaemonStatus* status) {
    status->clear_resources();
    status->clear_refusals();
  };
  for (proto::DaemonStatus& daemon : *reply->mutable_daemons()) leave_out(&daemon);
  leave_out(reply->mutable_coordinator());
}

std::vector<std::string> ShardAddresses(const proto::Register& server) {
  std::vector<std::string> addresses;
  for (const uint32_t port : server.shard_ports())
    addresses.push_back(absl::StrCat("tcp://", server.address(), ":", port));
  return addresses;
}

constexpr size_t kFollowEventsMax = 16384;
// How often a follower's thread checks whether the follower is still connected.
constexpr absl::Duration kFollowerCheck = absl::Milliseconds(500);
// How often to check whether a trace is complete.
constexpr absl::Duration kTraceCheck = absl::Milliseconds(100);

bool IsLast(const proto::FollowEvent& event) {
  const proto::JobState state = event.status().state();
  return event.has_status() && state != proto::QUEUED && state != proto::RUNNING;
}

}  // namespace

CoordinatorService::CoordinatorService(CoordinatorCore::Options options,
                                       const CoordinatorLimits& limits, JobStore* store,
                                       Access* access, AuditLog* audit, StoreOpener open_store,
                                       Leading leading)
    : store_(store),
      access_(access),
      leading_(std::move(leading)),
      doorkeeper_(access, audit),
      session_gate_("sessions of daemons", "--sessions", limits.sessions_max),
      call_gate_("calls", "--calls", limits.calls_max),
      core_(options, store->cluster_id(), this),
      keeper_(std::move(open_store)),
      loop_([this] { Tick(); }, kTick) {
  using Self = CoordinatorService;
  MarkMethodStreamed(kSubmit, HandlerOf(this, &Self::StreamedSubmit));
  MarkMethodStreamed(kCancel, HandlerOf(this, &Self::StreamedCancel));
  MarkMethodStreamed(kListJobs, HandlerOf(this, &Self::StreamedListJobs));
  MarkMethodStreamed(kGetJob, HandlerOf(this, &Self::StreamedGetJob));
  MarkMethodStreamed(kListNodes, HandlerOf(this, &Self::StreamedListNodes));
  MarkMethodStreamed(kFollow, HandlerOf(this, &Self::StreamedFollow));
  MarkMethodStreamed(kGetTrace, HandlerOf(this, &Self::StreamedGetTrace));
  MarkMethodStreamed(kDrain, HandlerOf(this, &Self::StreamedDrain));
}

void CoordinatorService::Tick() {
  core_.Tick(clock_.Now());
  const absl::Time now = absl::Now();
  if (now - renewals_saved_ < kSaveEvery) return;
  renewals_saved_ = now;
  const absl::Status saved = access_->SaveRenewals();
  if (!saved.ok()) LogWarning("who has renewed keys is not saved: %s", saved.ToString());
}

absl::Status CoordinatorService::Start() {
  const absl::StatusOr<std::vector<proto::StoredJob>> jobs = store_->Load();
  if (!jobs.ok()) return jobs.status();
  const auto seen = store_->LoadSeen();
  if (!seen.ok()) return seen.status();
  const auto draining = store_->LoadDraining();
  if (!draining.ok()) return draining.status();
  core_.RestoreDraining(*draining);
  core_.Restore(*jobs, store_->next_job_id(), *seen, clock_.Now());
  loop_.Start();
  return absl::OkStatus();
}

void CoordinatorService::CountRefusedConnection() {
  const uint64_t refused = ++refused_connections_;
  // Logs only at powers of two, in case there are very many.
  if ((refused & (refused - 1)) != 0) return;
  LogWarning("refused a connection: all that sessions and calls may take are open (%d refused)",
             refused);
}

void CoordinatorService::CountStranger() {
  const uint64_t strangers = ++strangers_;
  if ((strangers & (strangers - 1)) != 0) return;
  LogWarning("refused a connection of another user (%d refused)", strangers);
}

void CoordinatorService::EndFollowers() {
  loop_
      .Run([this] {
        for (const auto& [job, queues] : followers_) {
          for (const auto& [queue, reports] : queues) queue->Close();
        }
      })
      .IgnoreError();
}

grpc::Status CoordinatorService::Session(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::CoordinatorMessage, proto::DaemonMessage>* stream) {
  const absl::StatusOr<Guest> guest = doorkeeper_.LetIn(context, Call::kSession, &session_gate_);
  if (!guest.ok()) return ToGrpc(guest.status());
  const SessionId id(next_session_++);
  const auto queue = std::make_shared<SessionQueue>(kSessionMessagesMax);
  const auto line = std::make_shared<OpenLine>(context);
  const Member member{guest->caller, guest->peer, queue, line};
  absl::Notification read_ended;
  const auto in_hand = std::make_shared<InHand>();
  std::thread writer([&] {
    while (!queue->IsDone()) {
      const std::optional<proto::CoordinatorMessage> message = queue->Pop(absl::Seconds(60));
      if (message.has_value() && !stream->Write(*message)) break;
    }
    if (!read_ended.WaitForNotificationWithTimeout(kCloseGrace)) context->TryCancel();
  });
  absl::Status posted = loop_.Post([this, id, member] {
    sessions_[id] = member;
    // It may have been revoked since.
    if (!access_->StillCounts(member.caller).ok()) member.line->Cancel();
    core_.OnConnected(id, clock_.Now());
  });
  proto::DaemonMessage message;
  while (posted.ok() && stream->Read(&message)) {
    FitProse(&message);
    if (!IsBounded(member, message) || !IsForCore(member, message)) {
      message.Clear();
      continue;
    }
    in_hand->Add();
    posted = loop_.Post([this, id, in_hand, message = std::move(message)] {
      if (message.has_register_()) sessions_[id].registers_as = NameOf(message.register_());
      core_.OnMessage(id, message, clock_.Now());
      in_hand->Done();
    });
    message.Clear();
  }
  read_ended.Notify();
  queue->Close();
  loop_
      .Post([this, id] {
        sessions_.erase(id);
        core_.OnDisconnected(id, clock_.Now());
      })
      .IgnoreError();
  writer.join();
  line->End();
  return ToGrpc(posted);
}

bool CoordinatorService::IsBounded(const Member& member, const proto::DaemonMessage& message) {
  const absl::Status bounded = CheckBounds(message);
  if (bounded.ok()) return true;
  doorkeeper_.Refuse(member.caller, member.peer, "session", 0, bounded);
  if (message.has_register_()) {
    proto::CoordinatorMessage reply;
    reply.mutable_rejected()->set_reason(std::string(bounded.message()));
    member.queue->Push(std::move(reply));
  }
  member.queue->Close();
  return false;
}

bool CoordinatorService::IsForCore(const Member& member, const proto::DaemonMessage& message) {
  proto::CoordinatorMessage reply;
  if (message.has_register_()) {
    if (KnowsLaterLeader(member, message.register_())) return false;
    const absl::Status may = AllowRegistration(member.caller, message.register_());
    if (may.ok()) return true;
    doorkeeper_.Refuse(member.caller, member.peer, "register", 0, may);
    reply.mutable_rejected()->set_reason(std::string(may.message()));
    member.queue->Push(std::move(reply));
    member.queue->Close();
    return false;
  }
  if (!message.has_renew()) return true;
  const auto issued = access_->Renew(member.caller, message.renew().request_pem(), absl::Now());
  proto::CertificateRenewed* renewed = reply.mutable_renewed();
  if (issued.ok()) {
    renewed->set_chain_pem(issued->chain_pem());
    renewed->set_roots_pem(issued->roots_pem());
  } else {
    renewed->set_error(std::string(issued.status().message()));
    doorkeeper_.NoteRefused(member.caller, member.peer, CallName(Call::kRenew), renewed->error());
  }
  member.queue->Push(std::move(reply));
  return false;
}

bool CoordinatorService::KnowsLaterLeader(const Member& member,
                                          const proto::Register& registration) {
  if (!control::WasDeposed(leading_.epoch, registration.epoch())) return false;
  doorkeeper_.NoteRefused(member.caller, member.peer, "register",
                          absl::StrCat(NameOf(registration), ": knows a leader of epoch ",
                                       registration.epoch(), ", this one's is ", leading_.epoch));
  if (leading_.on_later_epoch) leading_.on_later_epoch();
  // It looks for the leader; a refusal would end it.
  member.queue->Close();
  return true;
}

void CoordinatorService::EndRevokedSessions() {
  loop_
      .Post([this] {
        for (const auto& [id, member] : sessions_) {
          // At once, whether it reads or not.
          if (!access_->StillCounts(member.caller).ok()) member.line->Cancel();
        }
      })
      .IgnoreError();
}

grpc::Status CoordinatorService::Run(const std::function<absl::Status()>& ask) {
  absl::Status answer;
  const absl::Status run = loop_.Run([&] { answer = ask(); });
  if (!run.ok()) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator is stopping");
  }
  if (!leads()) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator leads no longer");
  }
  return ToGrpc(answer);
}

void CoordinatorService::Stop() {
  loop_.Stop();
  access_->SaveRenewals().IgnoreError();  // they renew again
  port_watch_.Stop();
  keeper_.Stop();  // later messages are ignored
}

void CoordinatorService::LearnPorts(const Daemon& server) {
  port_watch_.Learn(server.registration.daemon_id(), ShardAddresses(server.registration));
}

void CoordinatorService::WatchPorts(const Daemon& server) {
  const proto::Register& registration = server.registration;
  const uint64_t id = registration.daemon_id();
  port_watch_.Look(id, ShardAddresses(registration), [this, name = registration.name(), id] {
    const auto tell = [this, name, id] { core_.OnServerEnded(name, id, clock_.Now()); };
    loop_.Post(tell).IgnoreError();  // the coordinator ends
  });
}

void CoordinatorService::FindCheckpoint(const CheckpointQuery& query) {
  keeper_.Find(query, [this, job = JobId(query.job)](const absl::StatusOr<CheckpointFound>& found) {
    const auto tell = [this, job, found] { core_.OnCheckpointFound(job, found, clock_.Now()); };
    loop_.Post(tell).IgnoreError();  // the coordinator ends
  });
}

void CoordinatorService::KeepCheckpoint(const CheckpointToKeep& checkpoint) {
  if (!leads()) return;
  const JobId job(checkpoint.manifest.job);
  const uint64_t clock = checkpoint.manifest.clock;
  keeper_.Keep(checkpoint, [this, job, clock](const absl::Status& kept) {
    const auto tell = [=, this] { core_.OnCheckpointKept(job, clock, kept, clock_.Now()); };
    loop_.Post(tell).IgnoreError();  // the coordinator ends
  });
}

grpc::Status CoordinatorService::StreamedSubmit(
    grpc::ServerContext* context, OneRequest<proto::SubmitRequest, proto::SubmitReply>* stream) {
  return Ask(context, stream, Call::kSubmit,
             [&](const Guest& guest, const auto& request, auto* reply) -> absl::Status {
               const absl::Status speaks = CheckProtocol("this strata", request.protocol_version());
               if (!speaks.ok()) {
                 ++core_.refusals()["wrong protocol version"];
                 return speaks;
               }
               const absl::Status may = CheckSubmission(guest.caller, request);
               if (!may.ok()) {
                 doorkeeper_.Refuse(guest, CallName(Call::kSubmit), may);
                 return may;
               }
               Submitter by = SubmitterOf(guest.caller);
               by.request_id = request.request_id();
               const absl::StatusOr<JobId> job =
                   core_.Submit(request.job(), request.resume(), RandomToken(), clock_.Now(), by);
               if (!job.ok()) {
                 doorkeeper_.NoteRefused(guest, CallName(Call::kSubmit), job.status());
                 return job.status();
               }
               reply->set_job_id(job->value());
               doorkeeper_.Note(guest.caller, guest.peer, CallName(Call::kSubmit), job->value(),
                                request.job().name());
               return absl::OkStatus();
             });
}

grpc::Status CoordinatorService::StreamedListJobs(
    grpc::ServerContext* context,
    OneRequest<proto::ListJobsRequest, proto::ListJobsReply>* stream) {
  return Ask(
      context, stream, Call::kListJobs, [&](const Guest& guest, const auto& request, auto* reply) {
        const auto is_shown = [&](const JobOwner& owner) { return MaySee(guest.caller, owner); };
        *reply = core_.ListJobs(JobId(request.after()), is_shown, kPageBytesMax);
        return absl::OkStatus();
      });
}

grpc::Status CoordinatorService::StreamedGetJob(
    grpc::ServerContext* context, OneRequest<proto::GetJobRequest, proto::JobStatus>* stream) {
  return Ask(
      context, stream, Call::kGetJob, [&](const Guest& guest, const auto& request, auto* reply) {
        const JobId job(request.job_id());
        const absl::Status may = doorkeeper_.MayNow(guest, Call::kGetJob, job, core_.OwnerOf(job));
        if (!may.ok()) return may;
        const absl::StatusOr<proto::JobStatus> status = core_.GetJob(job);
        if (status.ok()) *reply = *status;
        return status.status();
      });
}

grpc::Status CoordinatorService::StreamedListNodes(
    grpc::ServerContext* context,
    OneRequest<proto::ListNodesRequest, proto::ListNodesReply>* stream) {
  const auto list = [&](const Guest& guest, const auto& request, auto* reply) {
    *reply = core_.ListNodes(clock_.Now(), request.after(), kPageBytesMax);
    // Everybody may see daemons, but not what runs on them.
    const auto is_hidden = [&](uint32_t job) {
      const std::optional<JobOwner> owner = core_.OwnerOf(JobId(job));
      return !owner.has_value() || !MaySee(guest.caller, *owner);
    };
    for (proto::DaemonStatus& daemon : *reply->mutable_daemons()) {
      auto* jobs = daemon.mutable_jobs();
      jobs->erase(std::remove_if(jobs->begin(), jobs->end(), is_hidden), jobs->end());
    }
    *reply->mutable_coordinator() = CoordinatorStatus(&session_gate_, &call_gate_);
    reply->set_security(access_->Describe());
    proto::DaemonStatus* coordinator = reply->mutable_coordinator();
    for (const auto& [cause, count] : core_.refusals()) {
      control::AddRefusal(cause, count, coordinator);
    }
    control::AddRefusal("over the limit of connections", refused_connections_, coordinator);
    control::AddRefusal("connection of another user", strangers_, coordinator);
    control::AddRefusal("without a certificate for it", doorkeeper_.refused(), coordinator);
    control::AddRefusal("against the policy", doorkeeper_.refused_users(), coordinator);
    control::AddResource("trace bytes", core_.traces().bytes(), core_.traces().bytes_max(),
                         coordinator);
    const bool may_tell = SubmitterOf(guest.caller).sees_all || !access_->has_tenants(absl::Now());
    if (!may_tell) LeaveOutUse(reply);
    return absl::OkStatus();
  };
  return Ask(context, stream, Call::kListNodes, list);
}

void CoordinatorService::Send(SessionId session, const proto::CoordinatorMessage& message) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end() || !leads()) return;
  const Member& member = it->second;
  if (message.has_registered()) {
    doorkeeper_.Note(member.caller, member.peer, "register", 0, member.registers_as);
  }
  if (message.has_rejected()) {
    doorkeeper_.NoteRefused(member.caller, member.peer, "register",
                            absl::StrCat(member.registers_as, ": ", message.rejected().reason()));
  }
  if (!message.has_registered()) return member.queue->Push(message);
  proto::CoordinatorMessage registered = message;
  registered.mutable_registered()->set_epoch(leading_.epoch);
  registered.mutable_registered()->set_authority(absl::StrJoin(access_->authorities(), ","));
  member.queue->Push(std::move(registered));
}

void CoordinatorService::Close(SessionId session) {
  const auto it = sessions_.find(session);
  if (it != sessions_.end()) it->second.queue->Close();
}

void CoordinatorService::Forget(JobId job) {
  const absl::Status removed = store_->Remove(job);
  if (!removed.ok()) LogError("job %d is not removed: %s", job.value(), removed.ToString());
}

ControlLoop::ControlLoop(std::function<void()> tick, absl::Duration period)
    : tick_(std::move(tick)), period_(period), queue_([this] {
        absl::MutexLock lock(&mutex_);
        woken_ = true;
      }) {}

void ControlLoop::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void ControlLoop::Stop() {
  queue_.Close();
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    woken_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status ControlLoop::Run(const std::function<void()>& closure) {
  absl::Notification done;
  const absl::Status posted = queue_.Post([&] {
    closure();
    done.Notify();
  });
  if (posted.ok()) done.WaitForNotification();
  return posted;
}

void ControlLoop::Loop() {
  absl::Time next_tick = absl::Now();
  while (true) {
    bool stopping;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithDeadline(absl::Condition(&woken_), next_tick);
      woken_ = false;
      stopping = stopping_;
    }
    queue_.RunAll();
    if (stopping) return;
    if (absl::Now() < next_tick) continue;
    tick_();
    next_tick = absl::Now() + period_;
  }
}

// ---- calls that last until a job has ended ----

grpc::Status CoordinatorService::StreamedFollow(
    grpc::ServerContext* context,
    OneRequestStream<proto::FollowRequest, proto::FollowEvent>* stream) {
  proto::FollowRequest request;
  const absl::StatusOr<Guest> guest =
      doorkeeper_.LetIn(context, Call::kFollow, &call_gate_, stream, &request);
  if (!guest.ok()) return ToGrpc(guest.status());
  const JobId job(request.job_id());
  const auto queue = std::make_shared<FollowQueue>(kFollowEventsMax);
  std::optional<JobOwner> owner;
  const grpc::Status found = Run([&] {
    owner = core_.OwnerOf(job);
    const absl::Status may = doorkeeper_.MayNow(*guest, Call::kFollow, job, owner);
    if (!may.ok()) return may;
    const absl::StatusOr<proto::JobStatus> status = core_.GetJob(job);
    if (!status.ok()) return status.status();
    proto::FollowEvent event;
    *event.mutable_status() = *status;
    queue->Push(event);
    if (!IsLast(event)) followers_[job].emplace(queue, request.reports());
    return absl::OkStatus();
  });
  if (!found.ok()) return found;
  grpc::Status result(grpc::StatusCode::UNAVAILABLE, "the coordinator ends the stream");
  while (!queue->IsDone() && !context->IsCancelled()) {
    const std::optional<proto::FollowEvent> event = queue->Pop(kFollowerCheck);
    const absl::Status may = doorkeeper_.MayNow(*guest, Call::kFollow, job, owner);
    if (!may.ok()) {
      result = ToGrpc(may);
      break;
    }
    if (!event.has_value()) continue;
    if (!stream->Write(*event)) break;
    if (!IsLast(*event)) continue;
    result = grpc::Status::OK;
    break;
  }
  DropFollower(job, queue);
  return result;
}

void CoordinatorService::DropFollower(JobId job, const std::shared_ptr<FollowQueue>& queue) {
  Run([&] {
    const auto it = followers_.find(job);
    if (it != followers_.end()) it->second.erase(queue);
    if (it != followers_.end() && it->second.empty()) followers_.erase(it);
    return absl::OkStatus();
  });
}

// Waits until the job has ended and its daemons have sent their whole trace. Acts as a follower,
// which is woken by every event of the job and by the coordinator's end.
grpc::Status CoordinatorService::StreamedGetTrace(
    grpc::ServerContext* context,
    OneRequestStream<proto::GetTraceRequest, proto::TraceBatch>* stream) {
  proto::GetTraceRequest request;
  const absl::StatusOr<Guest> guest =
      doorkeeper_.LetIn(context, Call::kGetTrace, &call_gate_, stream, &request);
  if (!guest.ok()) return ToGrpc(guest.status());
  const JobId job(request.job_id());
  const auto queue = std::make_shared<FollowQueue>(kFollowEventsMax);
  CoordinatorCore::TraceFound found;
  const auto look = [&] {
    const absl::Status may = doorkeeper_.MayNow(*guest, Call::kGetTrace, job, core_.OwnerOf(job));
    if (!may.ok()) return may;
    absl::StatusOr<CoordinatorCore::TraceFound> trace = core_.GetTrace(job, clock_.Now());
    if (!trace.ok()) return trace.status();
    found = *std::move(trace);
    if (!found.complete) followers_[job].emplace(queue, /*reports=*/false);
    return absl::OkStatus();
  };
  grpc::Status status = Run(look);
  while (status.ok() && !found.complete && !context->IsCancelled()) {
    if (queue->IsDone()) {
      status = grpc::Status(grpc::StatusCode::UNAVAILABLE, "the coordinator ends the stream");
      break;
    }
    queue->Pop(kTraceCheck);
    status = Run(look);
  }
  DropFollower(job, queue);
  for (const auto& text : found.batches) {
    proto::TraceBatch batch;
    if (!status.ok() || !batch.ParseFromString(*text) || !stream->Write(batch)) break;
  }
  return status;
}

absl::Status CoordinatorService::LookForLogs(const Guest& guest, JobId job, LogScene* scene) {
  absl::Status answer;
  const absl::Status run = loop_.Run([&] {
    answer = doorkeeper_.MayNow(guest, Call::kReadLogs, job, core_.OwnerOf(job));
    if (!answer.ok()) return;
    absl::StatusOr<proto::JobStatus> status = core_.GetJob(job);
    answer = status.status();
    if (!status.ok()) return;
    scene->job = *std::move(status);
    if (scene->wants_daemons) scene->daemons = core_.ListNodes(clock_.Now());
  });
  if (!run.ok()) return absl::UnavailableError("the coordinator is stopping");
  if (!leads()) return absl::UnavailableError("the coordinator leads no longer");
  return answer;
}

void CoordinatorService::Notify(JobId job, const proto::FollowEvent& event) {
  const auto it = followers_.find(job);
  if (it == followers_.end() || !leads()) return;
  for (const auto& [queue, reports] : it->second) {
    if (reports || !event.has_report()) queue->Push(event);
  }
}

// ---- calls that end or move jobs ----

grpc::Status CoordinatorService::StreamedCancel(
    grpc::ServerContext* context, OneRequest<proto::CancelRequest, proto::CancelReply>* stream) {
  return Ask(context, stream, Call::kCancel, [&](const Guest& guest, const auto& request, auto*) {
    const JobId job(request.job_id());
    absl::Status status = doorkeeper_.MayNow(guest, Call::kCancel, job, core_.OwnerOf(job));
    if (status.ok()) status = core_.Cancel(job, clock_.Now());
    if (status.ok()) {
      doorkeeper_.Note(guest.caller, guest.peer, CallName(Call::kCancel), job.value(), "");
    }
    return status;
  });
}

grpc::Status CoordinatorService::StreamedDrain(
    grpc::ServerContext* context, OneRequest<proto::DrainRequest, proto::DrainReply>* stream) {
  return Ask(context, stream, Call::kDrain,
             [&](const Guest& guest, const auto& request, auto* reply) -> absl::Status {
               absl::StatusOr<proto::DrainReply> told = core_.Drain(request, clock_.Now());
               const std::string what = CallName(Call::kDrain);
               if (!told.ok()) {
                 doorkeeper_.NoteRefused(guest, what, told.status());
                 return told.status();
               }
               *reply = *std::move(told);
               if (request.action() == proto::DrainRequest::TELL) return absl::OkStatus();
               const bool undo = request.action() == proto::DrainRequest::UNDO;
               doorkeeper_.Note(guest, what,
                                absl::StrCat(request.daemon(), undo ? ": undone" : ""));
               return absl::OkStatus();
             });
}

}  // namespace strata::server
