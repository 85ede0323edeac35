#ifndef STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_
#define STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "tests/sim/check/next_copy.h"

namespace strata::sim {

// A shard of a job as it lies on one thread of one process, which has a number of its own.
struct Copy {
  uint32_t shard = 0;
  uint64_t process = 0;
};

// What JobChecker knows of the copies of one shard. While there are two, what the second one has is
// what counts: the model of a chunk goes on when the backup follows, not when the primary takes. Of
// a backup that is being filled that holds for each chunk from when the primary says its copy.
// Where another one is filled beside it, what counts is what both have.
struct ShardCopies {
  struct Awaited {
    wire::Frame frame;  // kApply: the time has come for something
    absl::Time at;
  };

  uint64_t primary = 0, backup = 0;    // processes; 0: none
  bool has_backup = false;             // or is to have one
  uint32_t generation = 0;             // in which the backup is filled; 0: it was there at first
  std::map<uint32_t, uint64_t> empty;  // processes that are to be filled, by generation
  bool stands_still = false;           // nobody is answered
  // Changes that the backup has, and as many of those as it has confirmed.
  uint64_t taken = 0, followed = 0;
  std::deque<Awaited> unconfirmed;  // the others
  std::deque<Awaited> confirmed;    // which wait for the next backup
  // Copies that are to be the backup next: that the primary fills, and that the backup fills.
  std::optional<NextCopy> next, next_of_backup;
  // What it had not confirmed yet when it took over, as another copy lacked it: it may say so then.
  uint64_t took_over_with = 0;
  // What the primary takes for the time, less the time; and likewise the backup: what the primary's
  // time was when it made a change, less the time when the backup took it.
  absl::Duration ahead, backup_ahead;
  // What the primary has taken and its backup does not have, in this order.
  std::deque<Awaited> awaited;
  std::map<transport::ConnectionId, uint32_t> node_of;  // that has said HELLO there
};

// What its primary took for the time when it said a change.
inline absl::Time TimeIn(const wire::Frame& change) {
  return absl::FromUnixNanos(static_cast<int64_t>(change.header.min_clock));
}

// What a chunk's weights were, and how many pushes of each node had been received then.
struct PastWeights {
  std::vector<float> weights;
  std::set<std::pair<uint32_t, uint64_t>> received;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_
