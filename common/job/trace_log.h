#ifndef STRATA_COMMON_JOB_TRACE_LOG_H_
#define STRATA_COMMON_JOB_TRACE_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/os/limits.h"
#include "proto/processes.pb.h"

namespace strata {

// Returns whether the job asks for a trace at all.
inline bool IsTraced(const proto::Job& job) { return job.trace().steps() > 0; }

// Returns a daemon's last trace message of a job: none of its processes records any more.
proto::TraceBatch TraceEnd(uint32_t job);
bool IsTraceEnd(const proto::TraceBatch& batch);

// One process's trace of a job's chunks, for the clocks that the job's Trace asks for. Memory is
// allocated once; events without room are dropped and counted. No decision depends on it, so that
// protocol cores may write it.
//
// Threads: one.
class TraceLog {
 public:
  using Phase = proto::TraceEvent::Phase;

  struct Options {
    // The wall clock: the only one that the processes of a host share.
    std::function<absl::Time()> now = [] { return absl::Now(); };
    size_t waiting_max = kTraceEventsWaitingMax;
    uint64_t events_max = kTraceEventsPerProcessMax;
  };

  // Null: the job asks for no trace.
  static std::unique_ptr<TraceLog> Create(const proto::Job& job, Options options);
  static std::unique_ptr<TraceLog> Create(const proto::Job& job) { return Create(job, Options()); }

  absl::Time Now() const { return options_.now(); }
  // Returns the last step whose results are exchanged at `clock`: nodes may make several steps by
  // themselves (job.proto, local_steps). Below, clocks are steps.
  uint64_t StepOf(uint64_t clock) const { return (clock + 1) * steps_per_clock_ - 1; }
  bool Wants(uint64_t clock) const { return clock >= first_ && clock - first_ < steps_; }
  // Returns whether all clocks to record are before this one.
  bool IsPast(uint64_t clock) const { return clock >= first_ && clock - first_ >= steps_; }

  // Records a phase of a chunk's step. An `end` before `begin` (the clock was set) counts as
  // `begin`.
  // REQUIRES: Wants(clock). `device`: as in TraceEvent.
  void Note(Phase phase, ChunkId chunk, uint64_t clock, absl::Time begin, absl::Time end,
            uint32_t node = 0, uint32_t device = 0);

  size_t memory_bytes() const { return events_.capacity() * sizeof(Event); }
  // Events that wait for TakeBatch.
  size_t waiting() const { return events_.size() - taken_; }
  bool has_news() const { return waiting() > 0 || dropped_ > 0; }
  // Returns the oldest events, at most kTraceEventsPerBatchMax, and how many were dropped since the
  // last call. The caller fills in the source.
  proto::TraceBatch TakeBatch();

 private:
  struct Event {
    uint64_t clock;
    int64_t begin_us;
    uint32_t duration_us;
    uint32_t chunk;
    uint32_t node;
    uint16_t phase;
    uint16_t device;
  };

  TraceLog(const proto::Job& job, Options options);

  const Options options_;
  const uint64_t first_;
  const uint64_t steps_;
  const uint64_t steps_per_clock_;
  std::vector<Event> events_;  // those from taken_ on wait
  size_t taken_ = 0;
  uint64_t noted_ = 0;
  uint64_t dropped_ = 0;  // since the last batch
};

// Records a phase from its construction to its destruction.
class TraceSpan {
 public:
  // A null log records nothing; otherwise it outlives this.
  TraceSpan(TraceLog* log, TraceLog::Phase phase, ChunkId chunk, uint64_t clock, uint32_t node = 0)
      : log_(log != nullptr && log->Wants(clock) ? log : nullptr),
        phase_(phase),
        chunk_(chunk),
        clock_(clock),
        node_(node) {
    if (log_ != nullptr) begin_ = log_->Now();
  }
  ~TraceSpan() {
    if (log_ != nullptr) log_->Note(phase_, chunk_, clock_, begin_, log_->Now(), node_);
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  TraceLog* const log_;
  const TraceLog::Phase phase_;
  const ChunkId chunk_;
  const uint64_t clock_;
  const uint32_t node_;
  absl::Time begin_;
};

}  // namespace strata

#endif  // STRATA_COMMON_JOB_TRACE_LOG_H_
