#ifndef STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_
#define STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "server/shard/chunk/chunk_copy.pb.h"

namespace strata::sim {

// JobChecker's view of a third copy that is being filled to become a shard's next backup: the state
// in each chunk's copy, and the changes that it has followed since.
class NextCopy {
 public:
  // `retired`: nodes known as retired by the copy that fills this one. `process`: the process to
  // fill; 0 until it is known.
  NextCopy(uint32_t generation, uint64_t process, std::set<uint32_t> retired)
      : generation_(generation), process_(process), retired_(std::move(retired)) {}

  uint32_t generation() const { return generation_; }
  uint64_t process() const { return process_; }
  void set_process(uint64_t process) { process_ = process; }

  // The copy of a chunk is sent. Sending it again changes nothing.
  void OnCopySent(uint32_t chunk, const proto::ChunkCopy& head);
  // It has received a frame. Returns what is wrong with that; "": nothing.
  std::string OnTaken(const wire::Frame& frame);
  bool IsWhole(size_t chunks) const { return whole_ == chunks; }
  uint64_t taken() const { return taken_; }

  // Returns true if the change is in no copy of a chunk, and this copy does not have it yet.
  bool Lacks(const wire::Header& change) const;
  // Returns true if the copy of the chunk contains it.
  bool IsInCopy(const wire::Header& change) const;
  // The node is to join the job again: it will retire once more, which no copy of a chunk contains.
  void OnJoined(uint32_t node) { retired_.erase(node); }
  // The model has applied this change.
  void Forget(const wire::Header& change);
  // Changes that it has and the model does not, in order.
  const std::deque<wire::Frame>& ahead() const { return ahead_; }

 private:
  struct SaidChunk {
    std::vector<uint64_t> received;  // by node
    uint64_t gate = 0;               // clocks before this one are complete
    bool seeded = false;
    uint64_t parts_left = 0;
  };

  uint32_t generation_;
  uint64_t process_;
  std::set<uint32_t> retired_;
  std::map<uint32_t, SaidChunk> said_;  // by chunk
  size_t whole_ = 0;
  uint64_t taken_ = 0;
  std::deque<wire::Frame> ahead_;
};

// Returns true if both frames describe the same change.
bool IsSameChange(const wire::Header& a, const wire::Header& b);

// A shard of a job on one thread of one process; the process has a unique number.
struct Copy {
  uint32_t shard = 0;
  uint64_t process = 0;
};

// What JobChecker knows of the copies of one shard. While there are two, what the second one has is
// what counts: the model of a chunk continues when the backup follows, not when the primary takes.
// While a backup is being filled, this holds for each chunk from the moment when the primary sends
// its copy. If another copy is filled as well, only what both have counts.
struct ShardCopies {
  struct Awaited {
    wire::Frame frame;  // kApply: the time has come for something
    absl::Time at;
  };

  uint64_t primary = 0, backup = 0;    // processes; 0: none
  bool has_backup = false;             // or is to have one
  uint32_t generation = 0;             // generation in which the backup is filled; 0: it was there
                                       // at first
  std::map<uint32_t, uint64_t> empty;  // processes to be filled, by generation
  bool stands_still = false;           // nobody is answered
  // Number of changes that the backup has, and how many of those it has confirmed.
  uint64_t taken = 0, followed = 0;
  std::deque<Awaited> unconfirmed;  // the others
  std::deque<Awaited> confirmed;    // confirmed changes that wait for the next backup
  // The next backups: the one that the primary fills, and the one that the backup fills.
  std::optional<NextCopy> next, next_of_backup;
  // Changes unconfirmed at its takeover because another copy lacked them; it may confirm them
  // later.
  uint64_t took_over_with = 0;
  // The primary's clock minus the time. For the backup: the primary's clock when it made a change,
  // minus the time at which the backup received it.
  absl::Duration ahead, backup_ahead;
  // Changes that the primary has made and its backup does not have, in this order.
  std::deque<Awaited> awaited;
  std::map<transport::ConnectionId, uint32_t> node_of;  // that has said HELLO there
};

// Returns the primary's clock when it sent a change.
inline absl::Time TimeIn(const wire::Frame& change) {
  return absl::FromUnixNanos(static_cast<int64_t>(change.header.min_clock));
}

// A chunk's earlier weights, and the number of pushes received from each node by then.
struct PastWeights {
  std::vector<float> weights;
  std::set<std::pair<uint32_t, uint64_t>> received;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_SHARD_COPIES_H_
