#include "worker/contract/device_trace.h"

#include <algorithm>
#include <utility>

namespace strata::worker {

using device::Event;

absl::StatusOr<size_t> DeviceTrace::AddLane(const std::shared_ptr<device::Device>& device,
                                            device::Stream* stream) {
  auto found = std::find_if(devices_.begin(), devices_.end(),
                            [&](const UsedDevice& used) { return used.device == device; });
  if (found == devices_.end()) {
    auto clock = device::DeviceClock::Create(device, [log = &log_] { return log->Now(); });
    if (!clock.ok()) return clock.status();
    found = devices_.insert(found, {.device = device, .clock = *std::move(clock)});
    absl::MutexLock lock(&mutex_);
    free_events_.emplace_back();
  }
  const auto index = static_cast<size_t>(found - devices_.begin());
  lanes_.push_back({.stream = stream, .device = index});
  return lanes_.size() - 1;
}

std::unique_ptr<Event> DeviceTrace::FreeEvent(size_t device) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::unique_ptr<Event>>& free = free_events_[device];
  if (free.empty()) return nullptr;
  std::unique_ptr<Event> event = std::move(free.back());
  free.pop_back();
  return event;
}

absl::StatusOr<std::unique_ptr<Event>> DeviceTrace::Record(size_t lane) {
  std::unique_ptr<Event> event = FreeEvent(lanes_[lane].device);
  if (event == nullptr) {
    auto made = devices_[lanes_[lane].device].device->NewTimedEvent();
    if (!made.ok()) return made.status();
    event = *std::move(made);
  }
  if (absl::Status status = lanes_[lane].stream->Record(event.get()); !status.ok()) return status;
  return event;
}

absl::StatusOr<DeviceTrace::Spans> DeviceTrace::Begin(size_t lane, ChunkId chunk, uint64_t clock) {
  Spans spans;
  if (!log_.Wants(clock)) return spans;
  spans.queued_ = log_.Now();
  absl::StatusOr<std::unique_ptr<Event>> begin = Record(lane);
  if (!begin.ok()) return begin.status();
  spans.begin_ = *std::move(begin);
  spans.trace_ = this;
  spans.lane_ = lane;
  spans.chunk_ = chunk;
  spans.clock_ = clock;
  return spans;
}

absl::Status DeviceTrace::Spans::Did(TraceLog::Phase phase) {
  if (empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<Event>> end = trace_->Record(lane_);
  if (!end.ok()) return end.status();
  phases_.push_back({phase, *std::move(end)});
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceTrace::Spans::Done() const {
  return phases_.empty() ? true : phases_.back().end->Done();
}

absl::Status DeviceTrace::Note(std::vector<Spans> all, bool is_chain) {
  const absl::Time seen = log_.Now();
  std::vector<std::vector<absl::Duration>> ends(all.size());  // since the first span's start
  std::vector<absl::Duration> left(all.size());               // from there to the end of all
  for (size_t s = all.size(); s-- > 0;) {
    if (is_chain && s + 1 < all.size()) left[s] = left[s + 1];
    for (const Spans::Phase& phase : all[s].phases_) {
      const absl::StatusOr<double> since = phase.end->SecondsSince(*all[s].begin_);
      if (!since.ok()) return since.status();
      ends[s].push_back(absl::Seconds(*since));
    }
    if (!ends[s].empty()) left[s] += ends[s].back();
  }
  absl::Time after = absl::InfinitePast();
  for (size_t s = 0; s < all.size(); ++s) {
    Spans& spans = all[s];
    if (spans.empty()) continue;
    Lane& lane = lanes_[spans.lane_];
    UsedDevice& used = devices_[lane.device];
    if (absl::Status status = used.clock->KeepUp(); !status.ok()) return status;
    const absl::StatusOr<absl::Time> told = used.clock->TimeOf(*spans.begin_);
    if (!told.ok()) return told.status();
    absl::Time begin =
        std::max({std::min(*told, seen - left[s]), spans.queued_, lane.until, after});
    const absl::Time first = begin;
    for (size_t i = 0; i < ends[s].size(); ++i) {
      const absl::Time end = std::clamp(first + ends[s][i], begin, std::max(begin, seen));
      log_.Note(spans.phases_[i].phase, spans.chunk_, spans.clock_, begin, end, /*node=*/0,
                used.device->info().index + 1);
      begin = end;
    }
    lane.until = begin;
    if (is_chain) after = begin;
    absl::MutexLock lock(&mutex_);
    std::vector<std::unique_ptr<Event>>& free = free_events_[lane.device];
    free.push_back(std::move(spans.begin_));
    for (Spans::Phase& phase : spans.phases_) free.push_back(std::move(phase.end));
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
