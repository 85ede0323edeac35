#ifndef STRATA_WORKER_CLIENT_LINK_NODE_SUM_H_
#define STRATA_WORKER_CLIENT_LINK_NODE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "kernels/device/communicator.h"
#include "kernels/device/device.h"
#include "proto/job.pb.h"

namespace strata::client {

class AgentChannel;

// What a NodeSum tells of a chunk, on a thread of its own.
struct NodeSumCalls {
  // This rank's gradients of one more chunk are complete.
  std::function<void(uint64_t step)> computed;
  // They are in the node's sum and may be written to again, on the chunk's root once the sum, which
  // lies there, has been used. Its error ends the NodeSum.
  std::function<absl::Status(ChunkId chunk, uint64_t step)> reduced;
  // Whether to go on waiting for the others.
  device::StillWanted still_wanted;
  // The same where the caller's thread waits, and nowhere else; null: as long as it takes.
  device::StillWanted caller_waits;
};

// What one rank brings to its node's sum; all of them with the same `map`.
struct NodeSumSetup {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Communicator> communicator;
  uint32_t local_rank = 0, local_ranks = 0;
  device::Memory gradients;  // this rank's arena, on `device`
  ChunkMap map;
  proto::Job job;  // may ask for a trace
  NodeSumCalls calls;
};

// One of a node's ranks that add up their gradients on their devices, for the node's aggregator to
// use the sums (node_sum: NCCL). An AggregatorLink is given one by whoever connects it.
//
// Threads: one calls.
class NodeSum {
 public:
  virtual ~NodeSum() = default;

  // The chunks' gradients are complete once what `stream` has been given until now is done; null:
  // they are. Does not block, but for a step's first call, as Drain does.
  virtual absl::Status PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                                    uint64_t step) = 0;
  // Blocks until `reduced` was called for all that is published.
  virtual absl::Status Drain() = 0;
  // The last call but SendTrace: all ranks of the node make theirs, after as many steps.
  virtual absl::Status Finish() = 0;
  // Hands on what the device did of sums in traced steps, as RankLink::SendTrace.
  virtual void SendTrace(AgentChannel* agent, bool all) = 0;

  // Returns what it has asked for on its device.
  virtual size_t device_bytes() const = 0;
};

using CreateNodeSum = absl::StatusOr<std::unique_ptr<NodeSum>> (*)(NodeSumSetup setup);

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_LINK_NODE_SUM_H_
