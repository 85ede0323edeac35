#ifndef STRATA_WORKER_EXCHANGE_TESTING_EXCHANGE_WORLD_H_
#define STRATA_WORKER_EXCHANGE_TESTING_EXCHANGE_WORLD_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "proto/record.pb.h"
#include "worker/exchange/testing/fake_shard.h"
#include "worker/exchange/testing/training_node.h"

namespace strata::worker {

inline constexpr uint32_t kWorldChunkElements = 4;

// A job of so many nodes, numbered from 0, whose chunks go round the shards "tcp://shardS".
proto::JobRecord WorldRecord(uint32_t nodes, uint32_t chunks, uint32_t shards, uint32_t window,
                             uint32_t connections = 1);

// The nodes of a job and FakeShards on a simulated network, whose delays and faults come from a
// seed.
class ExchangeWorld {
 public:
  // Every element of the node's sum.
  using Gradient = std::function<float(uint32_t node, uint64_t clock)>;

  // One node per entry of record.view, one shard per entry of record.placement, whose endpoints are
  // names. Every node offers `first_weight` everywhere; where all take those of rank 0, the others
  // offer other ones.
  ExchangeWorld(uint64_t seed, const proto::JobRecord& record, const transport::SimFaults& faults,
                Gradient gradient, float first_weight);

  // Runs all nodes for so many clocks and finishes them; once. Errors: the first that a node has;
  // DeadlineExceeded (it does not end).
  absl::Status Run(uint64_t clocks);

  // After `delay` the shard is to be found at another address, as of this generation. Each node
  // hears of it at a time of its own.
  void MoveShard(size_t shard, const std::string& address, uint32_t generation,
                 absl::Duration delay);
  // From now on no shard can be reached.
  void RemoveShards() { servers_.clear(); }

  FakeShard& shard(size_t i) { return *shards_[i]; }
  size_t shards() const { return shards_.size(); }
  const TrainingNode& node(size_t i) const { return *nodes_[i]; }
  size_t nodes() const { return nodes_.size(); }
  // Connections that were made.
  uint64_t connections() const { return network_.count(transport::SimNote::kConnected); }

 private:
  void Serve(size_t shard);
  std::unique_ptr<transport::SimEndpoint> ServerAt(size_t shard, const std::string& address);

  const proto::JobRecord record_;
  const Gradient gradient_;
  const float first_weight_;
  const bool loses_frames_;
  transport::SimNetwork network_;
  std::vector<std::unique_ptr<FakeShard>> shards_;
  std::vector<std::unique_ptr<transport::SimEndpoint>> servers_;  // of shards_
  std::vector<std::unique_ptr<TrainingNode>> nodes_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_TESTING_EXCHANGE_WORLD_H_
