#ifndef STRATA_WORKER_EXCHANGE_TESTING_EXCHANGE_WORLD_H_
#define STRATA_WORKER_EXCHANGE_TESTING_EXCHANGE_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/job/arena.h"
#include "common/transport/endpoint.h"
#include "proto/control.pb.h"
#include "worker/exchange/server/parameter_server_core.h"

namespace strata::worker {

// The other side of the wire.
class SimulatedShard {
 public:
  struct Reply {
    transport::ConnectionId connection;
    wire::Frame frame;
  };
  virtual ~SimulatedShard() = default;
  virtual std::vector<Reply> OnFrame(transport::ConnectionId connection,
                                     const wire::Frame& frame) = 0;
  virtual void OnDisconnected(transport::ConnectionId connection) = 0;
};

// Probabilities, per frame that moves.
struct WireFaults {
  double drop = 0, duplicate = 0, disconnect = 0;
};

// The cores of all nodes of a job and its shards, joined by a wire whose order and faults come from
// a seed. Time stands still while something is under way, and then jumps to the next deadline.
class ExchangeWorld {
 public:
  // Element i of the node's sum.
  using Gradient = std::function<float(uint32_t node, ChunkId chunk, uint64_t clock, size_t i)>;

  struct Node {
    std::unique_ptr<ParameterServerCore> core;
    std::vector<uint64_t> clock;              // next to submit, by chunk
    std::vector<std::vector<float>> weights;  // in hand, by chunk
    // Answers taken by (chunk, clock), and final weights taken.
    std::map<std::pair<uint32_t, uint64_t>, int> deliveries;
    uint64_t finals = 0;
  };

  // One node per entry of record.view; `shards` in the order of record.placement, not owned. Every
  // node offers `first_weight` everywhere.
  ExchangeWorld(uint32_t seed, const proto::JobRecord& record, std::vector<SimulatedShard*> shards,
                WireFaults faults, Gradient gradient, float first_weight);

  // Runs all nodes for so many clocks and finishes them. Errors: the first that a core returns;
  // DeadlineExceeded (it does not end).
  absl::Status Run(uint64_t clocks);

  // From now on no shard can be reached.
  void GoAway() { away_ = true; }

  const std::vector<Node>& nodes() const { return nodes_; }
  uint32_t connections() const { return next_connection_; }

 private:
  struct Link {
    uint32_t node = 0, shard = 0;
    std::deque<wire::Frame> up, down;
  };

  bool Chance(double p) { return std::uniform_real_distribution<>(0, 1)(random_) < p; }
  bool Done() const;
  bool Publish(uint32_t n, uint64_t clocks);
  bool Move();
  void Break(uint32_t id);
  void PassTime();
  void Keep(const absl::Status& status);
  template <typename Event>
  void Act(uint32_t n, Event event);
  void Do(uint32_t n, WireAction* action, CoreActions* more);
  void Do(uint32_t n, const NodeAction& action, CoreActions* more);

  std::mt19937 random_;
  const ChunkMap map_;
  const std::vector<SimulatedShard*> shards_;
  const WireFaults faults_;
  const Gradient gradient_;
  const float first_weight_;
  absl::Time now_ = absl::UnixEpoch();
  absl::Status status_;
  bool away_ = false;
  uint32_t next_connection_ = 0;
  std::map<uint32_t, Link> links_;
  std::vector<Node> nodes_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_TESTING_EXCHANGE_WORLD_H_
