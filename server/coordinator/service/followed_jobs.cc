// The calls of CoordinatorService that go on until a job has ended.
#include <grpcpp/server_context.h>

#include <utility>

#include "server/coordinator/service/coordinator_service.h"
#include "server/coordinator/service/doorkeeper.h"

namespace strata::server {
namespace {

constexpr size_t kFollowEventsMax = 16384;
// How often a follower's thread looks whether the follower is still there.
constexpr absl::Duration kFollowerCheck = absl::Milliseconds(500);
// How often it is looked whether a trace is complete.
constexpr absl::Duration kTraceCheck = absl::Milliseconds(100);

bool IsLast(const proto::FollowEvent& event) {
  const proto::JobState state = event.status().state();
  return event.has_status() && state != proto::QUEUED && state != proto::RUNNING;
}

}  // namespace

grpc::Status CoordinatorService::StreamedFollow(
    grpc::ServerContext* context,
    grpc::ServerSplitStreamer<proto::FollowRequest, proto::FollowEvent>* stream) {
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

// Waits until the job has ended and its daemons have said all, as a follower whom every news of the
// job wakes, and the end of the coordinator, too.
grpc::Status CoordinatorService::StreamedGetTrace(
    grpc::ServerContext* context,
    grpc::ServerSplitStreamer<proto::GetTraceRequest, proto::TraceBatch>* stream) {
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

}  // namespace strata::server
