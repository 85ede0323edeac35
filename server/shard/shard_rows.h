#ifndef STRATA_SERVER_SHARD_SHARD_ROWS_H_
#define STRATA_SERVER_SHARD_SHARD_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/wire/frame.h"
#include "common/wire/rows_payload.h"
#include "rows/row_batch.h"
#include "rows/row_table.h"
#include "server/shard/chunk/chunk_parts.h"
#include "server/shard/chunk/consistency_modes.h"
#include "server/shard/rows_cuts.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// An answer that is due now to a node's last push to a bucket, or an error of it.
struct RowsAnswer {
  size_t bucket = 0;  // its index in the plan
  size_t node = 0;
  uint64_t clock = 0;
  uint32_t staleness = 0;  // clocks that the slowest node is behind; async: updates since the node
                           // looked at the bucket
  uint32_t refused = 0;    // new rows that had no room
  Bytes wanted;            // the weights of the rows that the push wants
  PushResult error;        // its `error` is set: the push turned out not to be applicable
};

// The rows of one job on one shard. A bucket is to rows what a chunk is to the arena: it has a
// watermark for each node, and its rows and the watermarks change together, so each push is applied
// exactly once. Pushes are applied as they come (async, lazy on arrival), or all nodes' pushes of a
// clock at once, when the last of them has come (sync, lazy): each row's gradients are added along
// the tree of kernels::SumTreeSplit over the nodes, without those that have none of it. So a row
// gets the same bits in whatever order pushes come, and wherever the row lies.
//
// A pure state machine. Threads: one.
class ShardRows {
 public:
  // Errors: those of RowTable::Create.
  static absl::StatusOr<std::unique_ptr<ShardRows>> Create(const RowsPlan& plan, size_t nodes);

  // `bucket`: its index in the plan. A push that is refused changes nothing. Appends the answers
  // that are due now; that of a repeated push is one of the only node that it concerns.
  PushResult OnPush(size_t bucket, size_t node, const wire::Frame& frame,
                    std::vector<RowsAnswer>* due);
  // Returns the weights of the rows that a node's LOOKUP wants, of any bucket here. Errors:
  // InvalidArgument: the payload's, or naming an id of another shard's bucket.
  absl::StatusOr<Bytes> Lookup(size_t node, const wire::Frame& frame);
  // The node pushes no more. Appends the answers that are due now.
  void OnRetire(size_t node, std::vector<RowsAnswer>* due);

  uint64_t Received(size_t bucket, size_t node) const {
    return buckets_[bucket].nodes[node].received;
  }
  uint64_t MinClock(size_t bucket) const { return buckets_[bucket].nodes.MinClock(); }
  // Pushes applied to the bucket.
  uint64_t version(size_t bucket) const { return buckets_[bucket].version; }
  // Returns the bytes of the tables, of pushes that wait and of copies for checkpoints.
  size_t memory_bytes() const;

  // Goes on from rows of a checkpoint: takes those of its own buckets. Errors: InvalidArgument
  // naming table, id or bucket that does not fit; FailedPrecondition naming the table that has no
  // room for them. REQUIRES: no push has come.
  absl::Status Restore(const RowsImage& image);
  // Errors: InvalidArgument naming a bucket of which no rows came.
  absl::Status CheckRestored() const;
  // The copies for checkpoints.
  RowsCuts& cuts() { return cuts_; }
  const std::vector<rows::TableSpec>& tables() const { return plan_.tables; }

 private:
  using Rows = std::shared_ptr<const wire::DecodedRows>;
  // A clock for which not all pushes have come.
  struct OpenClock {
    std::vector<Rows> pushes;  // by node; null: has none, or no rows in it
    uint64_t samples = 0;
    // By table, if a push has rows of it: the rate of the step, and the node that said so.
    std::vector<std::optional<std::pair<float, size_t>>> rates;
  };
  // A node's data in a bucket, besides its progress.
  struct OfNode {
    Rows wants;            // what its unanswered push wants; null: nothing
    uint64_t seen = 0;     // the version that it has looked up
    uint32_t refused = 0;  // new rows of its last push, or of that one's clock, that had no room
  };
  struct Bucket {
    uint32_t number = 0;  // of the job's
    ChunkNodes nodes;
    std::vector<OfNode> of_node;
    uint64_t version = 0;
    std::map<uint64_t, OpenClock> open;  // only if pushes are applied per clock
    PushResult failed;  // its `error` is set: a clock could not be applied, and no push is any more
    bool is_restored = false;
  };
  // One table's gradients of a clock.
  struct Sum {
    absl::Span<const uint64_t> ids;
    const float* values = nullptr;
    std::unique_ptr<rows::RowGradients> own;  // null: a push has them
  };

  ShardRows(const RowsPlan& plan, size_t nodes,
            std::vector<std::unique_ptr<rows::RowTable>> tables);

  PushResult CheckClock(const Bucket& bucket, size_t node, const wire::Header& header) const;
  // Decodes the payload of a frame to one bucket, by its index, or to any of the shard's (nullopt).
  // Errors: MALFORMED, or WRONG_CHUNK naming an id of another bucket.
  PushResult Decode(std::optional<size_t> bucket, const wire::Frame& frame, Rows* rows) const;
  // Errors: NOT_FINITE naming the table and the id.
  PushResult CheckFinite(const wire::DecodedRows& rows) const;
  // Counts the bytes of a node's step, of what it pushes and of what it wants. Errors:
  // BEYOND_WINDOW: more of either than rows.bytes_per_step.
  PushResult CountBytes(size_t node, uint64_t clock, const wire::DecodedRows& rows);
  // Checks that a push goes with the others of its clock. Errors: MALFORMED, CONFLICT naming a
  // table of which nodes say other rates.
  PushResult CheckClockOf(const Bucket& bucket, const wire::Header& header, const Rows& rows) const;
  void Take(Bucket* bucket, size_t node, const wire::Header& header, const Rows& rows);
  // Applies a push by itself.
  void ApplyPush(Bucket* bucket, uint64_t clock, size_t node, const wire::Header& header,
                 const Rows& rows);
  // Applies all clocks of which all pushes have come.
  void ApplyClocks(size_t index, std::vector<RowsAnswer>* due);
  absl::Status ApplyClock(Bucket* bucket, uint64_t number, const OpenClock& clock);
  // Returns the sum of a table's gradients over the nodes from `begin` up to `end`. Errors: a
  // DivergedError naming table and id of a sum that is not finite.
  absl::StatusOr<Sum> AddUp(const OpenClock& clock, uint32_t table, size_t begin, size_t end) const;
  // Updates rows of a table. Returns how many had no room.
  uint64_t Update(const Bucket& bucket, uint64_t clock, uint32_t table, const Sum& sum, float rate,
                  uint64_t samples);
  // The bucket has all pushes that it has received, where these are applied as they come.
  void CutIfDue(size_t index);
  // The clock cannot be applied, for the reason that all of its nodes are told.
  void Fail(size_t index, const std::pair<const uint64_t, OpenClock>& clock, const std::string& why,
            std::vector<RowsAnswer>* due);
  // Stores those rows of a checkpoint that are of buckets here.
  absl::Status Store(const TableRows& rows);
  // Appends the answers that are due to nodes from `begin` up to `end`.
  void CollectDue(size_t index, size_t begin, size_t end, std::vector<RowsAnswer>* due);
  // `gate`: the bucket's ChunkNodes::Gate(), if the plan has a gate.
  RowsAnswer AnswerTo(size_t index, size_t node, uint64_t gate,
                      const wire::DecodedRows* wants) const;
  Bytes Wanted(const wire::DecodedRows& rows) const;
  // The node has looked up the present version of the buckets of these rows.
  void Note(size_t node, const wire::DecodedRows& rows);

  const RowsPlan plan_;
  const std::vector<std::unique_ptr<rows::RowTable>> tables_;
  std::vector<Bucket> buckets_;
  RowsCuts cuts_;
  // By node: the bytes of its pushes of a clock so far, with those that they want, and the number
  // of its newest lookup.
  std::vector<std::map<uint64_t, std::pair<uint64_t, uint64_t>>> bytes_of_;
  std::vector<uint64_t> newest_lookup_;
  static constexpr uint32_t kNotHere = UINT32_MAX;
  std::vector<uint32_t> index_of_;  // in buckets_, by bucket of the job
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_ROWS_H_
