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
#include "proto/control.pb.h"
#include "worker/client/nccl/reduce_trace.h"
#include "worker/contract/agent_line.h"

namespace strata::nccl {

// What is told of a chunk, on the reducer's thread.
struct ReducerCalls {
  // This rank's gradients of one more chunk are complete.
  std::function<void(uint64_t step)> computed;
  // They are in the node's sum and may be written to again, on the chunk's root once the sum, which
  // lies there, has been used. Its error ends the reducer.
  std::function<absl::Status(ChunkId chunk, uint64_t step)> reduced;
  // Whether to go on waiting for the others.
  device::StillWanted still_wanted;
};

// One of a node's ranks, each with a device of its own, that add up their gradients for the node's
// aggregator (node_sum: NCCL): a rank looks at what it publishes of a chunk, and the sum takes the
// place of the gradients of the chunk's root. Ranks take turns, chunk by chunk, so that all their
// devices' links to the host carry sums: chunk c's root is local rank c modulo their number.
//
// Chunks are added in the arena's order, that in which backward completes them, whatever the order
// of publication; one waits for those before it. Every rank publishes all of them in every step.
//
// Threads: one calls; one of this object's own gives the device its work and waits for events.
// Errors: InvalidArgument (this rank's gradient of a chunk is not finite), Internal (the device or
// the communicator's library, in its words), and those of the calls; the first stays.
class NodeReducer {
 public:
  // All ranks of the node do so, with the same `map`. `gradients`: this rank's arena, on `device`.
  // `job` may ask for a trace.
  // Errors: those of device::Device.
  static absl::StatusOr<std::unique_ptr<NodeReducer>> Create(
      std::shared_ptr<device::Device> device, std::unique_ptr<device::Communicator> communicator,
      uint32_t local_rank, uint32_t local_ranks, device::Memory gradients, const ChunkMap& map,
      const proto::Job& job, ReducerCalls calls);
  // Ends what is under way.
  ~NodeReducer();

  // The chunks' gradients are complete once what `stream` has been given until now is done; null:
  // they are. Does not block, but for a step's first call, as Drain does.
  absl::Status PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                            uint64_t step);
  // Blocks until `reduced` was called for all that is published.
  absl::Status Drain();
  // The last call but SendTrace: all ranks of the node make theirs, after as many steps.
  absl::Status Finish();
  // Hands on what the device did of sums in traced steps, as ReduceTrace::Send.
  void SendTrace(client::AgentLine* agent, bool all);

  // What it has asked for on its device.
  size_t device_bytes() const { return map_.chunks() * sizeof(device::Verdict); }

 private:
  struct Chunk {
    std::unique_ptr<device::Event> computed, reduced;
    std::optional<uint64_t> step;  // published, and not yet given to the stream
  };
  struct Item {
    ChunkId chunk{0};
    uint64_t step = 0;
  };

  NodeReducer(std::shared_ptr<device::Device> device,
              std::unique_ptr<device::Communicator> communicator, uint32_t local_rank,
              uint32_t local_ranks, device::Memory gradients, const ChunkMap& map,
              ReducerCalls calls)
      : device_(std::move(device)),
        local_rank_(local_rank),
        local_ranks_(local_ranks),
        map_(map),
        calls_(std::move(calls)),
        gradients_(std::move(gradients)),
        communicator_(std::move(communicator)) {}

  absl::Status Init(const proto::Job& job);
  void Stop();

  // Of the thread.
  void Run();
  absl::Status MoveOn(absl::Span<const Item> published);
  // Gives the stream what the chunk takes.
  absl::Status Queue(ChunkId chunk);
  // Tells what has been computed, and reduced.
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
  const ReducerCalls calls_;

  // Memory outlives the communicator and the stream that use it.
  const device::Memory gradients_;
  device::Memory verdicts_, verdicts_on_host_;  // by chunk
  std::vector<Chunk> chunks_;
  const std::unique_ptr<device::Communicator> communicator_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Stream> told_;  // calls wake the thread; a call holds up what follows it
  std::unique_ptr<ReduceTrace> trace_;    // null: the job is not traced

  uint64_t step_ = 0;  // of the caller's

  // The thread's.
  uint32_t next_ = 0;  // the chunk whose turn it is
  std::deque<Item> computing_, reducing_;
  absl::Time look_;  // when to see whether the others are still there

  absl::Mutex mutex_;
  std::vector<Item> published_ ABSL_GUARDED_BY(mutex_);  // for the thread to take
  size_t pending_ ABSL_GUARDED_BY(mutex_) = 0;           // chunks published and not reduced
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
  std::thread thread_;
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_NODE_REDUCER_H_
