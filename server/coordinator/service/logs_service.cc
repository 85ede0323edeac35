#include "server/coordinator/service/logs_service.h"

#include <grpcpp/server_context.h>

#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/os/message_bounds.h"
#include "server/coordinator/jobs/log_readings.h"

namespace strata::server {
namespace {

// How often to check whether the reader still has the right, and whether the job has ended.
constexpr absl::Duration kLookEvery = absl::Milliseconds(500);
// How often to check whether a worker is still a member: there may be a thousand.
constexpr absl::Duration kLookAtWorkersEvery = absl::Seconds(5);
// Unread bytes of LogParts of one worker; see proto::LogWanted::arrived_bytes.
constexpr size_t kTellArrivedBytes = 64 << 10;

bool HasEnded(const LogScene& scene) {
  return scene.job.state() != proto::QUEUED && scene.job.state() != proto::RUNNING;
}

// A request goes to every worker.
absl::Status CheckSize(const proto::ReadLogs& request) {
  constexpr size_t kLinesWantedBytesMax = 2048;
  constexpr size_t kRequestBytesMax = 256 << 10;
  if (request.lines().ByteSizeLong() > kLinesWantedBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("grep: a pattern of ",
                                                   request.lines().grep().size(),
                                                   " bytes, which is longer than it may be"));
  }
  if (request.ByteSizeLong() <= kRequestBytesMax) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("logs: asked for in ", request.ByteSizeLong(),
                                                 " bytes, which may be ", kRequestBytesMax));
}

absl::Status Ending() { return absl::UnavailableError("the coordinator is stopping"); }

}  // namespace

void LogsService::End() {
  absl::MutexLock lock(&mutex_);
  ending_ = true;
  for (const auto& [id, stream] : streams_) stream.queue->Close();
}

void LogsService::Flush() {
  for (LogReadings::ToWorker& message : readings_.Outgoing()) {
    const auto to = streams_.find(message.stream);
    if (to != streams_.end()) to->second.queue->Push(std::move(message.wanted));
  }
}

absl::Status LogsService::Open(uint64_t id, const Guest& guest, const Stream& stream) {
  const absl::Status may = AllowLogsOffer(guest.caller, stream.worker);
  if (!may.ok()) {
    doorkeeper_->Refuse(guest, CallName(Call::kOfferLogs), may);
    return may;
  }
  absl::MutexLock lock(&mutex_);
  if (ending_) return Ending();
  for (const auto& [other, its] : streams_) {
    if (its.worker != stream.worker) continue;
    // A stream that was admitted late may belong to a connection that has ended meanwhile.
    if (other > id) return absl::UnavailableError("there is a newer one");
    its.queue->Close();
  }
  streams_[id] = stream;
  readings_.OnOffered(id, stream.worker);
  Flush();
  return absl::OkStatus();
}

void LogsService::Write(const Guest& guest, WantedQueue* queue,
                        grpc::ServerReaderWriter<proto::LogWanted, proto::LogPart>* stream) {
  while (!queue->IsDone() && access_->StillCounts(guest.caller).ok()) {
    const std::optional<proto::LogWanted> wanted = queue->Pop(kLookAtWorkersEvery);
    if (wanted.has_value() && !stream->Write(*wanted)) return;
  }
}

grpc::Status LogsService::Offer(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<proto::LogWanted, proto::LogPart>* stream) {
  uint64_t id = 0;
  {
    absl::MutexLock lock(&mutex_);
    id = next_stream_++;
  }
  proto::LogPart part;
  const absl::StatusOr<Guest> guest =
      doorkeeper_->LetIn(context, Call::kOfferLogs, &offer_gate_, stream, &part);
  if (!guest.ok()) return ToGrpc(guest.status());
  if (!part.has_offered() || part.offered().worker().empty()) {
    return ToGrpc(absl::InvalidArgumentError("a stream of logs begins with who offers them"));
  }
  const auto queue = std::make_shared<WantedQueue>(kQueuedMessagesMax);
  const absl::Status opened = Open(id, *guest, {part.offered().worker(), queue});
  if (!opened.ok()) return ToGrpc(opened);
  std::thread writer([&] {
    Write(*guest, queue.get(), stream);
    context->TryCancel();  // the reader is told
  });
  size_t arrived = 0;  // and not acknowledged yet
  while (stream->Read(&part)) {
    FitProse(&part);
    if (const absl::Status bounded = CheckBounds(part); !bounded.ok()) {
      doorkeeper_->Refuse(*guest, CallName(Call::kOfferLogs), bounded);
      break;
    }
    arrived += part.ByteSizeLong();
    if (arrived >= kTellArrivedBytes) {
      proto::LogWanted told;
      told.set_arrived_bytes(static_cast<uint32_t>(std::exchange(arrived, 0)));
      queue->Push(std::move(told));
    }
    absl::MutexLock lock(&mutex_);
    readings_.OnPart(id, std::move(part));
    Flush();
    part.Clear();
  }
  queue->Close();
  // The writer may be blocked on a message that the worker does not take.
  context->TryCancel();
  {
    absl::MutexLock lock(&mutex_);
    streams_.erase(id);
    readings_.OnStreamGone(id);
    Flush();
  }
  writer.join();
  return grpc::Status::OK;
}

grpc::Status LogsService::StreamedRead(grpc::ServerContext* context,
                                       OneRequestStream<proto::ReadLogs, proto::LogLines>* stream) {
  proto::ReadLogs request;
  const absl::StatusOr<Guest> guest =
      doorkeeper_->LetIn(context, Call::kReadLogs, call_gate_, stream, &request);
  if (!guest.ok()) return ToGrpc(guest.status());
  const absl::Status small = CheckSize(request);
  if (!small.ok()) return ToGrpc(small);
  LogScene scene;
  const absl::Status may = look_(*guest, JobId(request.job_id()), &scene);
  if (!may.ok()) return ToGrpc(may);
  const auto shares = SharesOf(scene, request);
  if (!shares.ok()) return ToGrpc(shares.status());
  uint64_t reading = 0;
  {
    absl::MutexLock lock(&mutex_);
    const auto begun = readings_.Begin(CallerText(guest->caller), *shares);
    if (!begun.ok()) return ToGrpc(begun.status());
    reading = *begun;
    Flush();
  }
  const grpc::Status shown = Show(context, *guest, request, scene.job, reading, stream);
  absl::MutexLock lock(&mutex_);
  readings_.End(reading);
  Flush();
  return shown;
}

grpc::Status LogsService::Show(grpc::ServerContext* context, const Guest& guest,
                               const proto::ReadLogs& request, const proto::JobStatus& job,
                               uint64_t reading,
                               OneRequestStream<proto::ReadLogs, proto::LogLines>* stream) {
  LogPlaces places(job, request);
  absl::Time look_at = absl::Now();
  bool told = !request.lines().follow();
  while (!context->IsCancelled()) {
    if (absl::Now() >= look_at) {
      LogScene scene{.wants_daemons = false};
      const absl::Status may = look_(guest, JobId(request.job_id()), &scene);
      if (!may.ok()) return ToGrpc(may);
      look_at = absl::Now() + kLookEvery;
      for (std::string& news : places.News(scene.job)) {
        proto::LogLines line;
        line.set_error(std::move(news));
        if (request.lines().follow() && !stream->Write(line)) return grpc::Status::CANCELLED;
      }
      if (!told && HasEnded(scene)) {
        absl::MutexLock lock(&mutex_);
        readings_.OnJobEnded(reading);
        Flush();
        told = true;
      }
    }
    std::optional<proto::LogLines> lines;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_news = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return ending_ || readings_.HasNews(reading);
      };
      mutex_.AwaitWithDeadline(absl::Condition(&has_news), look_at);
      if (ending_) return ToGrpc(Ending());
      lines = readings_.Take(reading);
      Flush();
      if (!lines.has_value() && readings_.IsDone(reading)) return grpc::Status::OK;
    }
    // More may come only once it is written: a reader that takes nothing makes the workers wait.
    if (lines.has_value() && !stream->Write(*lines)) break;
  }
  return grpc::Status::CANCELLED;
}

}  // namespace strata::server
