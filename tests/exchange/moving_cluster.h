#ifndef STRATA_TESTS_EXCHANGE_MOVING_CLUSTER_H_
#define STRATA_TESTS_EXCHANGE_MOVING_CLUSTER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "common/transport/sim/sim_network.h"
#include "proto/record.pb.h"
#include "server/testing/sim_copy.h"
#include "worker/testing/training_node.h"

namespace strata::tests {

// Nodes and shards over a network that loses and repeats frames and cuts connections, from a seed.
// While the nodes train, every shard moves from server to server, one shard at a time and
// repeatedly, and servers die during moves. The cluster itself plays the coordinator.
// Threads: one.
class MovingCluster {
 public:
  static constexpr uint32_t kNodes = 3, kChunks = 4, kShards = 2, kServers = 4;
  static constexpr uint64_t kClocks = 24;
  static constexpr uint32_t kElements = kNodes * kClocks;  // of a chunk: one for each push
  static constexpr uint32_t kAllElements = kElements * kChunks;

  struct Options {
    std::string job;
    bool counts = false;  // pushes, in place of training
    bool has_backups = false;
    uint64_t clocks = kClocks;  // clocks that each node trains, or pushes if pushes are counted
  };
  enum class Course { kStays, kMoves, kMovesAndDies };

  MovingCluster(const Options& options, Course course, uint32_t seed);

  // Runs until every node has the last weights.
  void Run();

  // The final weights, which are the same on all nodes.
  std::vector<float> Final() const;
  int moves() const { return moves_; }  // while nodes trained
  int deaths() const { return deaths_; }

 private:
  using Actions = std::vector<server::ShardAction>*;

  // The place of a shard.
  struct Home {
    uint32_t primary = 0;
    int backup = -1;          // none
    uint32_t generation = 2;  // the newest one assigned
    bool goes_on = true;      // keeps moving from server to server
    uint32_t era = 0;         // incremented at a death, which cancels pending actions
  };

  void MakeRecord();
  void Begin(uint32_t node);
  // The divisor of the clock: samples of all nodes, or of the node itself if pushes are applied on
  // arrival.
  float Count(uint32_t node, uint64_t clock, uint64_t i) const;
  // Depends on all weights that the step began with.
  float Gradient(uint32_t node, uint64_t clock, uint64_t i) const;

  server::SimCopy& CopyOf(uint32_t server, uint32_t shard) {
    return *copies_[server * kShards + shard];
  }
  JobId job() const { return JobId(record_.job_id()); }
  void Later(std::function<void()> what);
  // Calls `what` later, unless the shard has lost a copy meanwhile.
  void Later(uint32_t shard, std::function<void()> what);

  // Plays the coordinator.
  void MoveNext();
  uint32_t FreeServer(uint32_t shard);
  void InstallEmpty(uint32_t server, uint32_t shard, uint32_t generation);
  void Remove(uint32_t server, uint32_t shard, uint32_t generation);
  void Do(uint32_t server, uint32_t shard,
          const std::function<absl::Status(server::ShardCore&, Actions)>& what);
  void WhenWhole(uint32_t filler, uint32_t shard, uint32_t generation, std::function<void()> then);
  // Moves a shard without a backup, which has one only during the move.
  void MoveAlone(uint32_t shard, uint32_t target, uint32_t generation);
  void Switch(uint32_t shard, uint32_t target, bool only_backup);
  // Nodes learn of the move before or after the server that lost the shard.
  void HasMoved(uint32_t shard, uint32_t from);
  void TellNodes(uint32_t shard);
  // One of a shard's two copies dies; the other continues alone.
  void Die(uint32_t shard);

  void Tick();
  bool Done() const;
  std::string Describe() const;

  const Options options_;
  const Course course_;
  transport::SimNetwork network_;
  proto::JobRecord record_;
  std::vector<std::unique_ptr<server::SimCopy>> copies_;  // by server and shard
  std::vector<std::unique_ptr<worker::TrainingNode>> nodes_;
  std::vector<Home> homes_;
  uint32_t turn_ = 0;
  std::optional<uint32_t> moves_now_;  // shard
  int moves_ = 0, deaths_ = 0;
};

inline void PrintTo(const MovingCluster::Options& options, std::ostream* out) {
  *out << options.job << (options.has_backups ? " with second copies" : "");
}

}  // namespace strata::tests

#endif  // STRATA_TESTS_EXCHANGE_MOVING_CLUSTER_H_
