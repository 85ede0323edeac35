#ifndef STRATA_WORKER_CLIENT_NCCL_REDUCE_TRACE_H_
#define STRATA_WORKER_CLIENT_NCCL_REDUCE_TRACE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"
#include "common/job/trace_log.h"
#include "kernels/device/device.h"
#include "proto/job.pb.h"
#include "worker/contract/agent_channel.h"
#include "worker/contract/device_trace.h"

namespace strata::nccl {

// Records when a rank's device sums each chunk with those of the other ranks (TraceEvent::REDUCE),
// including the wait for them: from the end of the stream's earlier work to the end of the sum.
//
// Threads: one queues and one, the same or another, sends, and neither waits for the device; one of
// this object's own checks events and compares clocks.
class ReduceTrace {
 public:
  // Null: the job is not traced. `stream`, of `device`: where sums are queued; outlives this. Waits
  // for the device. Errors: those of device::Device.
  static absl::StatusOr<std::unique_ptr<ReduceTrace>> Create(const proto::Job& job,
                                                             std::shared_ptr<device::Device> device,
                                                             device::Stream* stream);
  // Stops.
  ~ReduceTrace();

  // Calls `reduce`, which queues the chunk's whole sum in the stream, and nothing else if the trace
  // is null or the step is not traced. Errors: those of `reduce` and of device::Device, including
  // earlier ones.
  static absl::Status Queue(ReduceTrace* trace, ChunkId chunk, uint64_t step,
                            absl::FunctionRef<absl::Status()> reduce);
  // Nothing is queued any more: records what is done by now, and nothing after that.
  void Stop();
  // Sends recorded events, once they fill a message or no more will come: as many as the daemon
  // reads now; or with `all`, waiting for it and this object's thread, all.
  void Send(client::AgentChannel* agent, bool all);

 private:
  using Spans = worker::DeviceTrace::Spans;

  explicit ReduceTrace(std::unique_ptr<TraceLog> log) : log_(std::move(log)), trace_(log_.get()) {}

  absl::Status QueueTraced(ChunkId chunk, uint64_t step, absl::FunctionRef<absl::Status()> reduce);
  // Methods for the thread.
  void Run();
  // Records and removes finished spans in order, up to the first unfinished one.
  absl::Status NoteDone(std::deque<Spans>* spans);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || !queued_.empty(); }

  // Guards the log. Held while clocks are compared, so callers that must not wait only try to lock.
  absl::Mutex log_mutex_;
  const std::unique_ptr<TraceLog> log_;
  worker::DeviceTrace trace_;
  size_t lane_ = 0;
  std::atomic<bool> past_ = false;  // all traced steps are queued

  absl::Mutex mutex_;
  std::deque<Spans> queued_ ABSL_GUARDED_BY(mutex_);  // for the thread to take
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the error with which the thread has ended
  std::thread thread_;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_REDUCE_TRACE_H_
