#ifndef STRATA_SERVER_SHARD_SHARD_ROWS_H_
#define STRATA_SERVER_SHARD_SHARD_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/wire/frame.h"
#include "common/wire/rows_payload.h"
#include "rows/row_table.h"
#include "server/shard/chunk/chunk_parts.h"
#include "server/shard/chunk/consistency_modes.h"
#include "server/shard/shard_plan.h"

namespace strata::server {

// The rows of one job on one shard. A bucket is to rows what a chunk is to the arena: it has a
// watermark for each node, and its rows and the watermarks change together, so each push is applied
// exactly once. Each push is applied when it comes, and answered at once (async).
//
// A pure state machine. Threads: one.
class ShardRows {
 public:
  // Errors: those of RowTable::Create.
  static absl::StatusOr<std::unique_ptr<ShardRows>> Create(const RowsPlan& plan, size_t nodes);

  // What became of a push.
  struct Pushed {
    PushResult result;
    uint32_t staleness = 0;  // updates of the bucket since the node was answered last
    uint32_t refused = 0;    // new rows that had no room
    Bytes wanted;            // the weights of the rows that it wants
  };
  // `bucket`: its index in the plan. A push that is refused changes nothing.
  Pushed OnPush(size_t bucket, size_t node, const wire::Frame& frame);
  // Returns the weights of the rows that a LOOKUP wants, of any bucket here. Errors:
  // InvalidArgument: the payload's, or naming an id of another shard's bucket.
  absl::StatusOr<Bytes> Lookup(const wire::Frame& frame) const;
  // The node pushes no more.
  void OnRetire(size_t node);

  uint64_t Received(size_t bucket, size_t node) const {
    return buckets_[bucket].nodes[node].received;
  }
  uint64_t MinClock(size_t bucket) const { return buckets_[bucket].nodes.MinClock(); }
  // Pushes applied to the bucket.
  uint64_t version(size_t bucket) const { return buckets_[bucket].version; }
  uint64_t rows() const;  // stored
  size_t memory_bytes() const;

 private:
  struct Bucket {
    ChunkNodes nodes;
    uint64_t version = 0;
  };

  ShardRows(const RowsPlan& plan, size_t nodes,
            std::vector<std::unique_ptr<rows::RowTable>> tables);

  PushResult CheckClock(const Bucket& bucket, size_t node, const wire::Header& header) const;
  // Decodes the payload of a frame to one bucket, by its index, or to any of the shard's (nullopt).
  // Errors: MALFORMED, or WRONG_CHUNK naming an id of another bucket.
  PushResult Decode(std::optional<size_t> bucket, const wire::Frame& frame,
                    std::optional<wire::DecodedRows>* rows) const;
  // Errors: NOT_FINITE naming the table and the id.
  PushResult CheckFinite(const wire::DecodedRows& rows) const;
  // Returns how many rows had no room.
  uint64_t Apply(const Bucket& bucket, const wire::DecodedRows& rows, uint32_t samples,
                 uint32_t staleness);
  Bytes Wanted(const wire::DecodedRows& rows) const;

  const RowsPlan plan_;
  const std::vector<std::unique_ptr<rows::RowTable>> tables_;
  std::vector<Bucket> buckets_;
  std::vector<bool> is_here_;  // by bucket of the job
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_SHARD_ROWS_H_
