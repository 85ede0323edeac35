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

// When a rank's device adds up each chunk with those of the other ranks (TraceEvent::REDUCE), their
// coming included: from the end of what its stream did before to the end of the sum.
//
// Threads: one queues and one, the same or another, sends, and neither waits for the device; one of
// this object's own looks at events and compares clocks.
class ReduceTrace {
 public:
  // Null: the job is not traced. `stream`: that sums are queued in, of `device`; outlives this.
  // Waits for the device. Errors: those of device::Device.
  static absl::StatusOr<std::unique_ptr<ReduceTrace>> Create(const proto::Job& job,
                                                             std::shared_ptr<device::Device> device,
                                                             device::Stream* stream);
  // Stops.
  ~ReduceTrace();

  // Calls `reduce`, which gives the stream all that the chunk's sum is. A null trace, as one of a
  // step that is not traced, does no more. Errors: those of `reduce` and of device::Device, what
  // has gone wrong with earlier ones among them.
  static absl::Status Queue(ReduceTrace* trace, ChunkId chunk, uint64_t step,
                            absl::FunctionRef<absl::Status()> reduce);
  // Nothing is queued any more: what is done now is noted, and nothing else.
  void Stop();
  // Hands on what has been noted, once it is worth a message or no more is to come: as much as the
  // daemon reads now; or, waiting for it and this object's thread, `all`.
  void Send(client::AgentChannel* agent, bool all);

 private:
  using Spans = worker::DeviceTrace::Spans;

  explicit ReduceTrace(std::unique_ptr<TraceLog> log) : log_(std::move(log)), trace_(log_.get()) {}

  absl::Status QueueTraced(ChunkId chunk, uint64_t step, absl::FunctionRef<absl::Status()> reduce);
  // Members of the thread.
  void Run();
  // Notes and removes finished spans in their order, up to the first unfinished one.
  absl::Status NoteDone(std::deque<Spans>* spans);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || !queued_.empty(); }

  // Guards what the log has noted. Held while clocks are compared, so who may not wait only tries.
  absl::Mutex log_mutex_;
  const std::unique_ptr<TraceLog> log_;
  worker::DeviceTrace trace_;
  size_t lane_ = 0;
  std::atomic<bool> past_ = false;  // all traced steps are queued

  absl::Mutex mutex_;
  std::deque<Spans> queued_ ABSL_GUARDED_BY(mutex_);  // for the thread to take
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the thread's error, with which it has ended
  std::thread thread_;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_REDUCE_TRACE_H_
