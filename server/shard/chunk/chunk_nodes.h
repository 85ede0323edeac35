#ifndef STRATA_SERVER_SHARD_CHUNK_CHUNK_NODES_H_
#define STRATA_SERVER_SHARD_CHUNK_CHUNK_NODES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace strata::server {

// The number of pushes of a node that holds nobody up.
inline constexpr uint64_t kClockInfinity = std::numeric_limits<uint64_t>::max();

// How far one node is with one chunk.
struct NodeProgress {
  uint64_t received = 0;  // pushes, contiguous from clock 0
  bool waiting = false;   // the last push is not answered
  bool retired = false;
  // About the last push:
  uint32_t incarnation = 0;
  uint64_t checksum = 0;
  uint32_t samples = 0;
  float rate = 0;
  uint32_t versions_behind = 0;  // updates since the weights that it was computed with
  // A CUT that is not answered:
  bool cut_waiting = false;
  uint64_t cut_clock = 0;
  uint64_t joined_at = 0;  // the clock of its first push; 0: it is in the job from the start
};

// How far all nodes are with one chunk, by their index.
//
// Threads: one.
class ChunkNodes {
 public:
  explicit ChunkNodes(size_t nodes) : nodes_(nodes) {}

  size_t size() const { return nodes_.size(); }
  NodeProgress& operator[](size_t node) { return nodes_[node]; }
  const NodeProgress& operator[](size_t node) const { return nodes_[node]; }

  // Returns the least number of pushes received from any node that has not retired, and
  // kClockInfinity if all nodes have.
  uint64_t Gate() const;
  // Returns the same, but once all nodes have retired that have pushed since they joined the job,
  // the most pushes received from any of them.
  uint64_t MinClock() const;
  // Makes the node's last push, number `clock`, one that was not received.
  // REQUIRES: it is the node's last one.
  void Withdraw(size_t node, uint64_t clock);
  // The node takes part from this clock on, as if it had pushed all those before. One that has
  // joined at this clock or a later one stays as it is.
  void Join(size_t node, uint64_t clock);
  // It has joined the job, and none of its pushes has been answered.
  bool IsNew(size_t node) const;
  // Returns how many pushes of the node are in weights that have those of all nodes before `clock`,
  // where pushes are applied when they come. One that is not in the job has as many as others.
  uint64_t AppliedBy(size_t node, uint64_t clock) const;

 private:
  std::vector<NodeProgress> nodes_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_NODES_H_
