#ifndef STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_
#define STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"

namespace strata::sim {

// A shard of a job as it lies on one thread of one process, which has a number of its own.
struct Copy {
  uint32_t shard = 0;
  uint64_t process = 0;
};

// What JobChecker knows of the copies of one shard. While there are two, what the second one has is
// what counts: the model of a chunk goes on when the backup follows, not when the primary takes. Of
// a backup that is being filled that holds for each chunk from when the primary says its copy.
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
  uint64_t followed = 0;               // changes
  // What the primary takes for the time, less the time; and likewise the backup: what the primary's
  // time was when it made a change, less the time when the backup took it.
  absl::Duration ahead, backup_ahead;
  // What the primary has taken and its backup does not have, in this order.
  std::deque<Awaited> awaited;
  std::map<transport::ConnectionId, uint32_t> node_of;  // that has said HELLO there
};

// What a chunk's weights were, and how many pushes of each node had been received then.
struct PastWeights {
  std::vector<float> weights;
  std::set<std::pair<uint32_t, uint64_t>> received;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_
