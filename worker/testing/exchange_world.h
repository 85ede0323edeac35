#ifndef STRATA_WORKER_TESTING_EXCHANGE_WORLD_H_
#define STRATA_WORKER_TESTING_EXCHANGE_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/transport/endpoint.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "common/wire/frame.h"
#include "proto/record.pb.h"
#include "worker/testing/training_node.h"

namespace strata::worker {

// The peer for tests of the exchange: one synchronous shard that *adds* the sums of all nodes to
// the weights, once every node has pushed the clock. Plain data, no threads.
class FakeShard {
 public:
  struct Reply {
    transport::ConnectionId connection;
    wire::Frame frame;
  };

  explicit FakeShard(uint32_t nodes) : nodes_(nodes) {}

  std::vector<Reply> OnFrame(transport::ConnectionId connection, const wire::Frame& frame);
  void OnDisconnected(transport::ConnectionId connection) { greeted_.erase(connection); }

  // Frames of other generations are answered with RETRY; initially 0.
  void set_generation(uint32_t generation) { generation_ = generation; }
  // Answers the next `frames` data frames with RETRY.
  void RetryNext(int frames) { retries_ = frames; }
  // Answers the first push of this (chunk, clock) with an error.
  void RefusePush(uint32_t chunk, uint64_t clock, wire::ErrorCode error, const std::string& text);

  // Resumes from a checkpoint: `pushed` pushes of each node are in the weights of version
  // `version`. First weights must not be offered.
  void Resume(uint32_t chunk, std::vector<float> weights, uint64_t version,
              std::map<uint32_t, uint64_t> pushed);

  // Pushes taken, by (node, chunk): always contiguous clocks.
  uint64_t taken(uint32_t node, uint32_t chunk) { return chunks_[chunk].pushed[node]; }
  // Protocol violations seen: data before HELLO, a clock ahead, other bits under an old clock.
  const std::vector<std::string>& faults() const { return faults_; }
  int replays() const { return replays_; }

 private:
  struct Chunk {
    std::vector<float> weights;
    uint64_t version = 0;
    std::map<uint32_t, uint64_t> pushed;                              // by node
    std::map<uint64_t, std::map<uint32_t, std::vector<float>>> sums;  // by clock and node
    std::map<uint32_t, uint64_t> checksum;                            // of the newest push, by node
    std::map<uint32_t, transport::ConnectionId> waiting;              // by node
    std::map<uint32_t, transport::ConnectionId> cutting;              // by node
  };

  void OnInit(transport::ConnectionId connection, const wire::Frame& frame);
  // Answers with what it has, whatever the clock.
  void OnPull(transport::ConnectionId connection, const wire::Header& header);
  void OnPush(transport::ConnectionId connection, const wire::Frame& frame);
  void AnswerCuts();
  void Say(transport::ConnectionId connection, wire::Op op, const wire::Header& request,
           std::vector<float> weights = {}, uint64_t version = 0, uint64_t received = 0);
  void Refuse(transport::ConnectionId connection, wire::Op op, const wire::Header& request,
              wire::ErrorCode error, const std::string& text);

  const uint32_t nodes_;
  std::set<transport::ConnectionId> greeted_;
  std::map<uint32_t, Chunk> chunks_;
  bool resumes_ = false;
  std::set<uint32_t> retired_;
  uint32_t generation_ = 0;
  int retries_ = 0;
  int replays_ = 0;
  std::map<std::pair<uint32_t, uint64_t>, std::pair<wire::ErrorCode, std::string>> refused_;
  std::vector<std::string> faults_;
  std::vector<Reply> replies_;
};

inline constexpr uint32_t kWorldChunkElements = 4;

// A job of `nodes` nodes, numbered from 0, whose chunks are round-robin over the shards
// "tcp://shardS".
proto::JobRecord WorldRecord(uint32_t nodes, uint32_t chunks, uint32_t shards, uint32_t window,
                             uint32_t connections = 1);

// The nodes of a job and FakeShards on a simulated network, with seeded delays and faults.
class ExchangeWorld {
 public:
  // Every element of the node's sum.
  using Gradient = std::function<float(uint32_t node, uint64_t clock)>;

  // One node per entry of record.view, one shard per entry of record.placement, whose endpoints are
  // names. Every node offers `first_weight` everywhere; if all take those of rank 0, the others
  // offer different ones.
  ExchangeWorld(uint64_t seed, const proto::JobRecord& record, const transport::SimFaults& faults,
                Gradient gradient, float first_weight);

  // Runs all nodes for `clocks` clocks and finishes them; once. Errors: the first one of any node;
  // DeadlineExceeded (it does not end).
  absl::Status Run(uint64_t clocks);

  // After `delay` the shard is at another address, as of this generation. The nodes learn it at
  // different times.
  void MoveShard(size_t shard, const std::string& address, uint32_t generation,
                 absl::Duration delay);
  // From now on no shard is reachable.
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

#endif  // STRATA_WORKER_TESTING_EXCHANGE_WORLD_H_
