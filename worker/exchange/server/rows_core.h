#ifndef STRATA_WORKER_EXCHANGE_SERVER_ROWS_CORE_H_
#define STRATA_WORKER_EXCHANGE_SERVER_ROWS_CORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/bytes.h"
#include "common/wire/rows_payload.h"
#include "rows/table_spec.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/link_core.h"
#include "worker/exchange/server/shard_link.h"

namespace strata::worker {

// One node's side of the rows of a job's tables: pushes the node's gradients of each step, one
// frame to each bucket, and looks rows up. Every push counts exactly once, whatever connections
// lose, repeat or reorder. A lookup that comes after a push on a link that stays up sees it.
//
// A pure state machine: events in, actions out; time comes with the events. Errors end the job and
// name the node, the server's address and the bucket.
class RowsCore final : public LinkCore {
 public:
  // Errors: InvalidArgument naming the table or the field of the placement.
  static absl::StatusOr<std::unique_ptr<RowsCore>> Create(const CoreOptions& options);

  const std::vector<rows::TableSpec>& tables() const { return tables_; }

  // Pushes the node's next step: for each of some tables, ascending, the sums of its rows'
  // gradients, and the ids of rows that are wanted `rows.lookahead` steps later: that step's
  // lookups of these are then answered here. Wanted rows that do not fit are left out. Everything
  // is copied. Errors: InvalidArgument: CheckBytes, or a bucket's rows do not fit into a frame.
  // REQUIRES: !is_pushing().
  absl::Status Push(absl::Span<const wire::RowsSection> sums,
                    absl::Span<const wire::RowsSection> wanted, uint32_t samples, absl::Time now,
                    CoreActions* actions);
  // Errors: InvalidArgument naming rows.bytes_per_step, if a step has more RowBytes.
  absl::Status CheckBytes(uint64_t bytes) const;
  // Returns whether part of the last push is unanswered.
  bool is_pushing() const { return unanswered_ > 0; }

  // Looks up rows of a table; `ids` ascend, each once, and are copied. `of_step`: those that were
  // wanted for this step may be as they came. What has come is in TakeFound. REQUIRES: no other
  // lookup has this `request` until all of its rows have come.
  void LookUp(uint32_t request, uint32_t table, absl::Span<const uint64_t> ids, bool of_step,
              absl::Time now, CoreActions* actions);
  // Some rows of a lookup.
  struct Found {
    uint32_t request = 0;
    std::vector<uint32_t> places;  // of the rows among the lookup's ids
    Bytes weights;                 // fp32: places.size() x columns
    bool is_last = false;          // all rows have come
  };
  std::vector<Found> TakeFound() { return std::exchange(found_, {}); }
  // Rows of lookups that came with a push's answers, and those that were asked for, since the
  // start.
  uint64_t prefetched() const { return prefetched_rows_; }
  uint64_t asked() const { return asked_rows_; }
  // New rows that had no room, since the last call.
  uint64_t TakeRefused() { return std::exchange(refused_, 0); }

  // The node pushes no more. REQUIRES: !is_pushing().
  void Finish(absl::Time now, CoreActions* actions);
  // Returns whether all shards know that.
  bool is_finished() const { return is_finished_; }

  // Adds the links to the activity of the exchange: a shard is connected if this one is, too.
  void AddActivity(absl::Time now, proto::NodeActivity* activity) const;

  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override;
  absl::Time deadline() const override;
  const std::string& address(LinkId link) const override { return links_[link.value()].address(); }

 private:
  struct Bucket {
    uint32_t link = 0;               // index into links_
    std::vector<uint64_t> versions;  // of the last answers, by clock as `wanted_`
  };
  struct Lookup {
    uint32_t request = 0;
    std::vector<uint32_t> places;
    uint32_t columns = 0;
  };
  struct Waiting {
    uint32_t request = 0, table = 0;
    bool of_step = false;
    std::vector<uint64_t> ids;
  };
  // Some rows of one table: their places among all rows of a call.
  using Places = std::vector<uint32_t>;
  // Rows of one table in a step, divided by buckets.
  struct Divided {
    const wire::RowsSection* rows = nullptr;
    std::vector<Places> places;  // by bucket
  };
  // Rows of one table that come with the answers to a push.
  struct Prefetched {
    std::vector<uint64_t> ids;
    std::vector<float> values;
    std::vector<Places> places;  // by bucket
  };

  RowsCore(const CoreOptions& options, std::vector<rows::TableSpec> tables);

  uint32_t BucketOf(uint32_t table, uint64_t id) const;
  std::vector<Divided> DivideByBucket(absl::Span<const wire::RowsSection> rows) const;
  uint64_t BytesOf(absl::Span<const wire::RowsSection> rows) const;
  // Returns whether wanted rows may be fetched together with what is pushed.
  bool Fit(const std::vector<Divided>& sums, const std::vector<Divided>& wanted) const;
  absl::Status PushTo(uint32_t bucket, const std::vector<Divided>& sums,
                      const std::vector<Divided>& wanted, uint32_t samples, absl::Time now,
                      CoreActions* actions);
  // Keeps the rows that came with an answer to a push. Errors: Internal: too few or too many.
  absl::Status Keep(const wire::Header& push, const ShardLink& link, const wire::Frame& answer);
  // Returns whether all of the rows have come for this step, and writes them.
  bool FindPrefetched(uint32_t table, absl::Span<const uint64_t> ids, Bytes* weights) const;
  absl::Status OnFrame(const LinkEvent& event, absl::Time now, CoreActions* actions);
  absl::Status OnAnswer(const ShardLink& link, const wire::Header& asked, const wire::Frame& frame,
                        absl::Time now, CoreActions* actions);
  absl::Status OnFound(const ShardLink& link, const wire::Header& asked, const wire::Frame& frame);
  ShardLink* Find(transport::ConnectionId connection);

  const CoreOptions options_;
  const std::vector<rows::TableSpec> tables_;
  const uint32_t lookahead_;
  std::vector<uint32_t> columns_;  // by table
  uint32_t bucket_bits_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<ShardLink> links_;  // to shards that have buckets
  uint64_t clock_;                // of the next push
  uint32_t unanswered_ = 0;       // buckets of the last push
  uint64_t next_lookup_ = ShardLink::kLookups;
  absl::flat_hash_map<uint64_t, Lookup> lookups_;  // by the clock of their frame
  absl::flat_hash_map<uint32_t, uint32_t> open_;   // by request: frames that are unanswered
  std::vector<Waiting> waiting_;                   // lookups that wait for the push
  std::vector<Found> found_;
  // By clock of the push modulo the lookahead, and by table.
  std::vector<std::map<uint32_t, Prefetched>> wanted_;
  uint64_t prefetched_rows_ = 0, asked_rows_ = 0;
  uint64_t refused_ = 0;
  uint32_t retiring_ = 0;  // links whose RETIRE is unanswered
  bool is_finished_ = false;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_ROWS_CORE_H_
