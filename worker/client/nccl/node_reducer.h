#ifndef STRATA_WORKER_CLIENT_NCCL_NODE_REDUCER_H_
#define STRATA_WORKER_CLIENT_NCCL_NODE_REDUCER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "kernels/device/communicator.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "proto/job.pb.h"
#include "worker/client/aggregator_link.h"
#include "worker/client/nccl/reduce_trace.h"
#include "worker/contract/agent_channel.h"

namespace strata::nccl {

// One of a node's ranks, each with a device of its own, that sum their gradients for the node's
// aggregator (node_sum: NCCL). A rank checks each published chunk, and the sum replaces the
// gradients of the chunk's root. The root alternates by chunk, so that all their devices' links to
// the host carry sums: chunk c's root is local rank c modulo their number.
//
// Chunks are summed in the arena's order, in which backward completes them, whatever the order of
// publication; each waits for those before it. Every rank publishes all of them in every step.
//
// Threads: one calls; one of this object's own queues the device's work and waits for events.
// Errors: InvalidArgument (this rank's gradient of a chunk is not finite), Internal (the device or
// the communicator's library, in its words), and those of the calls; the first stays.
class NodeReducer final : public client::NodeSum {
 public:
  // Called by all ranks of the node. Errors: those of device::Device.
  static absl::StatusOr<std::unique_ptr<NodeReducer>> Create(client::NodeSumSetup setup);
  // Ends pending work.
  ~NodeReducer() override;

  absl::Status PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                            uint64_t step) override;
  absl::Status Drain() override;
  absl::Status Finish() override;
  void SendTrace(client::AgentChannel* agent, bool all) override;
  size_t device_bytes() const override { return map_.chunks() * sizeof(device::Verdict); }

 private:
  struct Chunk {
    std::unique_ptr<device::Event> computed, reduced;
    std::optional<uint64_t> step;  // published, and not yet queued
  };
  struct Item {
    ChunkId chunk{0};
    uint64_t step = 0;
  };

  explicit NodeReducer(client::NodeSumSetup setup)
      : device_(std::move(setup.device)),
        local_rank_(setup.local_rank),
        local_ranks_(setup.local_ranks),
        map_(setup.map),
        calls_(std::move(setup.calls)),
        gradients_(std::move(setup.gradients)),
        communicator_(std::move(setup.communicator)) {}

  absl::Status Init(const proto::Job& job);
  void Stop();

  // Methods for the thread.
  void Run();
  absl::Status MoveOn(absl::Span<const Item> published);
  // Queues the chunk's work in the stream.
  absl::Status Queue(ChunkId chunk);
  // Reports the chunks that have been computed and reduced.
  absl::Status NoteComputed();
  absl::Status NoteReduced();
  absl::Status ExpectFinite(const Item& item) const;
  void Fail(absl::Status status);
  bool Woken() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || woken_; }
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return pending_ == 0 || !status_.ok(); }

  const std::shared_ptr<device::Device> device_;
  const uint32_t local_rank_;
  const uint32_t local_ranks_;
  const ChunkMap map_;
  const client::NodeSumCalls calls_;

  // Memory outlives the communicator and the stream that use it.
  const device::Memory gradients_;
  device::Memory verdicts_, verdicts_on_host_;  // by chunk
  std::vector<Chunk> chunks_;
  const std::unique_ptr<device::Communicator> communicator_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Stream> told_;  // recorded by calls to wake the thread; orders a call's
                                          // work before what follows
  std::unique_ptr<ReduceTrace> trace_;    // null: the job is not traced

  uint64_t step_ = 0;  // for the caller

  // For the thread.
  uint32_t next_ = 0;  // the chunk whose turn it is
  std::deque<Item> computing_, reducing_;
  absl::Time look_;  // when to check that the others are still there

  absl::Mutex mutex_;
  std::vector<Item> published_ ABSL_GUARDED_BY(mutex_);  // for the thread to take
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;           // chunks published and not reduced
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
  std::thread thread_;
};

// Creates a NodeReducer for code that knows only NodeSum (client::CreateNodeSum).
absl::StatusOr<std::unique_ptr<client::NodeSum>> CreateNodeReducer(client::NodeSumSetup setup);

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_NODE_REDUCER_H_
