#ifndef STRATA_WORKER_CLIENT_LINK_NODE_SUM_H_
#define STRATA_WORKER_CLIENT_LINK_NODE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "kernels/device/communicator.h"
#include "kernels/device/device.h"
#include "proto/job.pb.h"
#include "worker/contract/agent_line.h"

namespace strata::client {

// What a NodeSum tells of a chunk, on a thread of its own.
struct NodeSumCalls {
  // This rank's gradients of one more chunk are complete.
  std::function<void(uint64_t step)> computed;
  // They are in the node's sum and may be written to again, on the chunk's root once the sum, which
  // lies there, has been used. Its error ends the sum.
  std::function<absl::Status(ChunkId chunk, uint64_t step)> reduced;
  // Whether to go on waiting for the others.
  device::StillWanted still_wanted;
};

// One of a node's ranks, each with a device of its own, that add up their gradients for the node's
// aggregator (node_sum: NCCL). The interface lies here so that AggregatorLink knows nothing of the
// library that does it; nccl::NodeReducer implements it, and connect.cc joins the two.
//
// Threads: one. Errors: as the implementation says; the first stays.
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
  // Hands on what the device did of sums in traced steps.
  virtual void SendTrace(AgentLine* agent, bool all) = 0;
  // Bytes that it has asked for on its device.
  virtual size_t device_bytes() const = 0;
};

// What a rank of a node begins a NodeSum with. All ranks of the node do so, with the same `id`,
// `map` and `local_ranks`.
struct NodeSumRequest {
  std::shared_ptr<device::Device> device;
  std::string id;  // that the node's ranks meet by
  uint32_t local_rank = 0;
  uint32_t local_ranks = 0;
  device::Memory gradients;  // this rank's arena, on `device`
  ChunkMap map;
  proto::Job job;  // may ask for a trace
  NodeSumCalls calls;
};

// Blocks until all ranks of the node have met. Errors: those of device::Device.
using JoinNodeSum = std::function<absl::StatusOr<std::unique_ptr<NodeSum>>(NodeSumRequest request)>;

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_LINK_NODE_SUM_H_
