#ifndef STRATA_TESTS_SIM_CHECK_NODE_CHECKER_H_
#define STRATA_TESTS_SIM_CHECK_NODE_CHECKER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/ids.h"

namespace strata::sim {

// Checks what the nodes of one job do and receive against the promises of docs/semantics.md.
class NodeChecker {
 public:
  virtual ~NodeChecker() = default;

  // A node's process has begun. The first process of a node has incarnation 1.
  virtual void OnNodeStart(uint32_t node, uint32_t incarnation) = 0;
  // A process begins to train at this clock.
  virtual void OnFirstClock(uint32_t /*node*/, uint32_t /*incarnation*/, uint64_t /*clock*/) {}
  // A process begins to train with these weights.
  virtual void OnBegin(uint32_t node, uint32_t incarnation, ChunkId chunk,
                       const std::vector<float>& weights) = 0;
  virtual void OnPush(uint32_t node, ChunkId chunk, uint64_t clock) = 0;
  // The sum of a process's ranks; the process may have been replaced already.
  virtual void OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock,
                     uint32_t samples, absl::Span<const float> sum) = 0;
  // A process has the weights after a step; it may have been replaced already.
  virtual void OnTaken(uint32_t /*node*/, uint32_t /*incarnation*/, ChunkId, uint64_t /*clock*/,
                       absl::Span<const float> /*weights*/) {}
  virtual void OnWeights(uint32_t node, ChunkId chunk, uint64_t clock,
                         absl::Span<const float> weights) = 0;
  virtual void OnFinalWeights(uint32_t node, ChunkId chunk, const Bytes& weights) = 0;
  // The node has finished its part of the job well.
  virtual void OnNodeFinished(uint32_t /*node*/) {}

  // The job has ended well.
  virtual void OnFinished() = 0;
  // Number of pushes that nodes have made.
  virtual uint64_t pushes() const = 0;
  // Returns the hash of the final weights. REQUIRES: the job has ended well.
  virtual uint64_t ModelHash() const = 0;
  // Returns true if the final weights follow from the job's configuration alone.
  virtual bool is_reproducible() const = 0;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_NODE_CHECKER_H_
