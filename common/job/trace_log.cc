#include "common/job/trace_log.h"

#include <algorithm>
#include <utility>

#include "common/job/consistency.h"
#include "common/require.h"

namespace strata {

proto::TraceBatch TraceEnd(uint32_t job) {
  proto::TraceBatch batch;
  batch.set_job_id(job);
  return batch;
}

bool IsTraceEnd(const proto::TraceBatch& batch) {
  return batch.process().empty() && batch.events().empty();
}

std::unique_ptr<TraceLog> TraceLog::Create(const proto::Job& job, Options options) {
  if (!IsTraced(job)) return nullptr;
  return std::unique_ptr<TraceLog>(new TraceLog(job, std::move(options)));
}

TraceLog::TraceLog(const proto::Job& job, Options options)
    : options_(std::move(options)),
      first_(job.trace().first_step()),
      steps_(job.trace().steps()),
      steps_per_clock_(StepsPerClock(job)) {
  static_assert(kTraceEventsWaitingMax * sizeof(Event) == kTraceLogBytes);
  events_.reserve(options_.waiting_max);
}

void TraceLog::Note(Phase phase, ChunkId chunk, uint64_t clock, absl::Time begin, absl::Time end,
                    uint32_t node, uint32_t device) {
  STRATA_REQUIRE(Wants(clock));
  if (waiting() >= options_.waiting_max || noted_ >= options_.events_max) {
    ++dropped_;
    return;
  }
  ++noted_;
  if (events_.size() == options_.waiting_max) {
    events_.erase(events_.begin(), events_.begin() + static_cast<ptrdiff_t>(taken_));
    taken_ = 0;
  }
  // Rounded down at both ends, so that an event within another one stays within it in the file.
  const int64_t begin_us = absl::ToUnixMicros(begin);
  const int64_t lasted_us = std::max<int64_t>(0, absl::ToUnixMicros(end) - begin_us);
  events_.push_back({.clock = clock,
                     .begin_us = begin_us,
                     .duration_us = static_cast<uint32_t>(std::min<int64_t>(lasted_us, UINT32_MAX)),
                     .chunk = chunk.value(),
                     .node = node,
                     .phase = static_cast<uint16_t>(phase),
                     .device = static_cast<uint16_t>(std::min<uint32_t>(device, UINT16_MAX))});
}

proto::TraceBatch TraceLog::TakeBatch() {
  proto::TraceBatch batch;
  const size_t count = std::min(waiting(), kTraceEventsPerBatchMax);
  batch.mutable_events()->Reserve(static_cast<int>(count));
  for (size_t i = 0; i < count; ++i) {
    const Event& event = events_[taken_ + i];
    proto::TraceEvent* out = batch.add_events();
    out->set_phase(static_cast<Phase>(event.phase));
    out->set_chunk(event.chunk);
    out->set_clock(event.clock);
    out->set_start_us(static_cast<uint64_t>(event.begin_us));
    out->set_duration_us(event.duration_us);
    out->set_node(event.node);
    out->set_device(event.device);
  }
  taken_ += count;
  if (taken_ == events_.size()) {
    events_.clear();
    taken_ = 0;
  }
  batch.set_dropped(std::exchange(dropped_, 0));
  return batch;
}

}  // namespace strata
