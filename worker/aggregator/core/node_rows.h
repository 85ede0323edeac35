#ifndef STRATA_WORKER_AGGREGATOR_CORE_NODE_ROWS_H_
#define STRATA_WORKER_AGGREGATOR_CORE_NODE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "rows/row_batch.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/link_core.h"
#include "worker/exchange/server/rows_core.h"

namespace strata::worker {

// Moves rows between the slots of a node's ranks and the job's shards: the gradients of a step are
// added up over the ranks, so that each row crosses the network once, and go out when every rank
// has ended the step. Until then a rank that has ended it waits with what it asks next: what it
// looks up has the step.
//
// Threads: one.
class NodeRows {
 public:
  // Both outlive it. REQUIRES: the memory has slots.
  NodeRows(RankId first_rank, NodeMemory* memory, RowsCore* core);

  // Takes what ranks ask. Returns whether there was anything. Errors: InvalidArgument naming a rank
  // that asks what does not exist, or two that differ; those of RowsCore::Push.
  absl::StatusOr<bool> Look(absl::Time now, CoreActions* actions);
  // Gives ranks the rows that the core has found.
  void GiveFound();
  // Returns whether nothing waits to be pushed, or for its answer.
  bool is_idle() const;

 private:
  struct Rank {
    bool looks_up = false;
    uint32_t table = 0, rows = 0;  // of its lookup: the slot is the rank's to write to
    bool has_ended = false;        // the step whose gradients these are
    uint64_t step = 0;
    uint32_t samples = 0;
    std::vector<rows::RowGradients> gradients;  // by table
    std::vector<float> rates;                   // by table, of those that have gradients
    std::vector<std::vector<uint64_t>> wants;   // by table: ids, in any order
    uint64_t wanted_bytes = 0;                  // RowBytes of all that it wanted
  };

  // Returns false if the request has to wait.
  absl::StatusOr<bool> Take(uint32_t local_rank, absl::Time now, CoreActions* actions);
  absl::Status TakeGradients(uint32_t local_rank, uint32_t table, uint32_t rows);
  // Ids that do not fit are not fetched ahead.
  void TakeWants(uint32_t local_rank, uint32_t table, uint32_t rows);
  // Returns the ids of a table that any rank wants, ascending, each once.
  std::vector<uint64_t> WantedOf(uint32_t table) const;
  void Answer(uint32_t local_rank);
  absl::Status PushStep(absl::Time now, CoreActions* actions);
  absl::Status CheckSameStep() const;
  // Adds up the gradients of ranks from `begin` up to `end` into those of the first: a tree over
  // the ranks, as for chunks. A rank without a row is left out of its sum.
  absl::Status AddUp(uint32_t table, size_t begin, size_t end);
  absl::Status Error(uint32_t local_rank, const std::string& what) const;

  const RankId first_rank_;
  NodeMemory& memory_;
  RowsCore& core_;
  std::vector<Rank> ranks_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_NODE_ROWS_H_
