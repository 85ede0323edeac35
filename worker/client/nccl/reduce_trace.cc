#include "worker/client/nccl/reduce_trace.h"

#include <vector>

#include "absl/memory/memory.h"
#include "absl/time/time.h"
#include "common/os/limits.h"

namespace strata::nccl {
namespace {

// Interval of checking a pending sum. Nobody waits for the trace.
constexpr absl::Duration kReduceTraceLook = absl::Milliseconds(2);

}  // namespace

absl::StatusOr<std::unique_ptr<ReduceTrace>> ReduceTrace::Create(
    const proto::Job& job, std::shared_ptr<device::Device> device, device::Stream* stream) {
  std::unique_ptr<TraceLog> log = TraceLog::Create(job);
  if (log == nullptr) return nullptr;
  auto trace = absl::WrapUnique(new ReduceTrace(std::move(log)));
  const absl::StatusOr<size_t> lane = trace->trace_.AddLane(device, stream);
  if (!lane.ok()) return lane.status();
  trace->lane_ = *lane;
  trace->thread_ = std::thread([self = trace.get()] { self->Run(); });
  return trace;
}

ReduceTrace::~ReduceTrace() { Stop(); }

void ReduceTrace::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

absl::Status ReduceTrace::Queue(ReduceTrace* trace, ChunkId chunk, uint64_t step,
                                absl::FunctionRef<absl::Status()> reduce) {
  return trace == nullptr ? reduce() : trace->QueueTraced(chunk, step, reduce);
}

absl::Status ReduceTrace::QueueTraced(ChunkId chunk, uint64_t step,
                                      absl::FunctionRef<absl::Status()> reduce) {
  absl::StatusOr<Spans> spans = trace_.Begin(lane_, chunk, step);
  if (!spans.ok()) return spans.status();
  if (absl::Status status = reduce(); !status.ok()) return status;
  if (spans->empty()) {
    past_ = log_->IsPast(step);
    return absl::OkStatus();
  }
  if (absl::Status status = spans->Did(proto::TraceEvent::REDUCE); !status.ok()) return status;
  absl::MutexLock lock(&mutex_);
  if (status_.ok()) queued_.push_back(*std::move(spans));
  return status_;
}

void ReduceTrace::Run() {
  std::deque<Spans> looked_at;
  while (true) {
    bool ends = false;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(this, &ReduceTrace::HasWork),
                              looked_at.empty() ? absl::InfiniteDuration() : kReduceTraceLook);
      ends = ends_;
      for (Spans& spans : queued_) looked_at.push_back(std::move(spans));
      queued_.clear();
    }
    const absl::Status status = NoteDone(&looked_at);
    if (status.ok() && !ends) continue;
    absl::MutexLock lock(&mutex_);
    status_ = status;
    queued_.clear();
    return;
  }
}

absl::Status ReduceTrace::NoteDone(std::deque<Spans>* spans) {
  while (!spans->empty()) {
    const absl::StatusOr<bool> done = spans->front().Done();
    if (!done.ok() || !*done) return done.status();
    std::vector<Spans> noted;
    noted.push_back(std::move(spans->front()));
    spans->pop_front();
    absl::MutexLock lock(&log_mutex_);
    absl::Status status = trace_.Note(std::move(noted), /*is_chain=*/false);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void ReduceTrace::Send(client::AgentChannel* agent, bool all) {
  if (all) {
    log_mutex_.Lock();
  } else if (!log_mutex_.TryLock()) {
    return;
  }
  if (all || past_ || log_->waiting() >= kTraceEventsPerBatchMax / 2) {
    agent->SendTrace(log_.get(), all);
  }
  log_mutex_.Unlock();
}

}  // namespace strata::nccl
