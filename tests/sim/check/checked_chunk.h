#ifndef STRATA_TESTS_SIM_CHECK_CHECKED_CHUNK_H_
#define STRATA_TESTS_SIM_CHECK_CHECKED_CHUNK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "common/transport/endpoint.h"
#include "tests/sim/check/shard_copies.h"
#include "tests/sim/model/reference_chunk.h"

namespace strata::sim {

// What must be true of one chunk.
struct CheckedChunk {
  uint32_t elements = 0, shard = 0, ledger = 0;
  uint32_t line = 0;  // of a node's connections to the shard: the one that carries it
  std::unique_ptr<ReferenceChunk> reference;
  std::vector<uint64_t> received;        // by node
  std::vector<uint32_t> pushed_by;       // by node: incarnation of the last push
  std::vector<uint64_t> due;             // by node: pushes whose answers have been due
  std::vector<bool> retired;             // by node
  std::map<uint32_t, uint64_t> cuts;     // by node: clock of a CUT that waits
  std::vector<uint64_t> version_told;    // by node
  std::vector<std::set<uint64_t>> told;  // by node and round: hashes of all answers
  uint64_t first_hash = 0;               // of the first weights
  std::vector<float> marks;              // what each ledger element must be once it is applied
  uint64_t version = 0;
  const std::byte* checked = nullptr;  // weights that were compared, of checked_version
  uint64_t checked_version = 0, checked_hash = 0;
  size_t held = 0;
  std::map<uint64_t, uint64_t> hash_of_clock;  // what nodes got as the answer to a clock
  std::optional<uint64_t> final_hash;
  // Of jobs with second copies:
  std::map<uint64_t, PastWeights> past;  // by version
  // Pushes of clocks that are not complete, where those may be left out of a copy.
  std::deque<ShardCopies::Awaited> open;
  // By node: the pushes that the primary has not taken itself: it may not know what was in them.
  std::vector<uint64_t> taken_over;
  bool is_followed = false;  // the model goes on when the backup does
  bool is_filled = false;    // the backup has it
  uint64_t copy_parts = 0;   // frames of its copy that are to come to the backup
};

// What a shard knows of one of the connections that a node has by the job.
struct CheckedPeer {
  uint32_t incarnation = 0;  // newest
  // What was taken of it last came over this one; HELLO, that anybody can repeat, apart.
  std::optional<transport::ConnectionId> speaks_on;
  // Its connections, those that said HELLO or brought a new push last at the end.
  std::vector<transport::ConnectionId> open;

  void MoveToBack(transport::ConnectionId connection);
};

// What one process of a node has to keep.
struct CheckedProcess {
  uint32_t incarnation = 0;
  uint64_t first_clock = 0;
  std::vector<uint64_t> pushed, answered;  // by chunk
  std::vector<uint32_t> unanswered;        // by shard
  std::set<uint32_t> finals;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_CHECKED_CHUNK_H_
