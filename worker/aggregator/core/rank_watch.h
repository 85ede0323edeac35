#ifndef STRATA_WORKER_AGGREGATOR_CORE_RANK_WATCH_H_
#define STRATA_WORKER_AGGREGATOR_CORE_RANK_WATCH_H_

#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "common/require.h"
#include "proto/processes.pb.h"
#include "worker/contract/node_memory.h"

namespace strata::worker {

// Records since when each rank of a node has made no progress. It polls, so times are only as exact
// as the polls are frequent.
//
// Threads: one. Time comes with the calls.
class RankWatch {
 public:
  // A rank's progress at a poll.
  struct Progress {
    uint64_t steps = 0;      // of which it has published every chunk
    uint32_t published = 0;  // chunks of the next step
    bool waiting = false;    // see proto::RankActivity

    bool operator==(const Progress&) const = default;
  };

  RankWatch(RankId first_rank, uint32_t local_ranks, absl::Time now);

  // `chunks`: of the job; 0: unknown so far.
  proto::RankActivity Look(uint32_t local_rank, const Progress& progress, uint32_t chunks,
                           absl::Time now);

 private:
  struct Rank {
    Progress progress;
    absl::Time since;
  };

  const RankId first_rank_;
  std::vector<Rank> ranks_;  // by local rank
};

// Returns the progress of a training rank, from the memory that it shares with its aggregator.
// `least_landed`: see LeastLanded.
RankWatch::Progress MeasureProgress(const NodeMemory& memory, uint32_t local_rank, uint32_t chunks,
                                    uint64_t least_landed);
// Returns the number of steps for which all chunks' weights have landed. Looks at every chunk.
uint64_t LeastLanded(const NodeMemory& memory, uint32_t chunks);

// Sums up the time for which something has been in progress.
//
// Threads: one.
class BusyTime {
 public:
  // Sets whether it is in progress from `now` on. REQUIRES: `now` does not go back.
  void Set(bool busy, absl::Time now) {
    if (busy == busy_) return;
    STRATA_REQUIRE(now >= since_);
    if (busy_) total_ += now - since_;
    busy_ = busy;
    since_ = now;
  }

  absl::Duration Total(absl::Time now) const { return busy_ ? total_ + (now - since_) : total_; }

 private:
  bool busy_ = false;
  absl::Time since_;
  absl::Duration total_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_CORE_RANK_WATCH_H_
