#ifndef STRATA_SERVER_SHARD_TESTING_SIM_NODES_H_
#define STRATA_SERVER_SHARD_TESTING_SIM_NODES_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {

// Nodes of a job of one shard over a simulated network. Each says what it has to say again and
// again, over connections that it makes anew every now and then, and goes where it is told the
// shard lies.
//
// Threads: one.
class SimNodes {
 public:
  static constexpr uint32_t kNodes = 4;
  static constexpr uint32_t kChunks = 2;
  static constexpr uint64_t kClocks = 12;
  static constexpr uint32_t kElements = kNodes * kClocks;  // of a chunk: one for each push
  // What nodes are confirmed: first weights, pushes, the end and last weights.
  static constexpr uint64_t kConfirmations = kNodes * (kChunks * (kClocks + 2) + 1);

  struct Options {
    bool counts = false;   // each push adds 1 to an element of its own; else they train
    uint32_t divisor = 1;  // of sums that count
    // Whether nodes push a step's chunks for the least version that they had of any of them, as in
    // a job with a quorum, and begin a step when all of the last one has been answered.
    bool has_rounds = false;
    std::string address;  // of the shard, in generation 2
    std::function<void()> on_confirmed;
  };

  SimNodes(transport::SimNetwork* network, proto::JobRecord record, Options options)
      : network_(network), record_(std::move(record)), options_(std::move(options)) {
    for (uint32_t node = 0; node < kNodes; ++node) {
      transport::SimEndpoint::Options endpoint;
      endpoint.name = "node";
      endpoint.host = 2;
      endpoint.addresses_are_names = true;
      endpoint.on_ready = [this, node] { TurnOfNode(node); };
      nodes_[node].endpoint = std::make_unique<transport::SimEndpoint>(network, endpoint);
      nodes_[node].address = options_.address;
    }
  }

  void Begin() {
    for (uint32_t node = 0; node < kNodes; ++node) Tick(node);
  }
  // Older news than what it has heard changes nothing.
  void Move(uint32_t id, const std::string& address, uint32_t generation) {
    Node& node = nodes_[id];
    if (node.generation >= generation) return;
    node.generation = generation;
    if (std::exchange(node.address, address) != address) Reconnect(&node);
  }
  // Every node has the last weights.
  bool Done() const {
    return absl::c_all_of(nodes_, [](const Node& node) {
      return absl::c_none_of(node.chunks, [](const Chunk& c) { return c.final_weights.empty(); });
    });
  }
  std::vector<float> Final() const {
    std::vector<float> all;
    for (uint32_t chunk = 0; chunk < kChunks; ++chunk) {
      const std::vector<float>& weights = nodes_[0].chunks[chunk].final_weights;
      for (const Node& node : nodes_) EXPECT_EQ(node.chunks[chunk].final_weights, weights);
      all.insert(all.end(), weights.begin(), weights.end());
    }
    return all;
  }
  std::string Describe() const {
    std::string text;
    for (const Node& node : nodes_) {
      text += node.greeted ? ", greeted" : ", not greeted";
      text += node.retired ? " and retired:" : ":";
      for (const Chunk& chunk : node.chunks) {
        text += (chunk.seeded ? " " : " first weights ") + std::to_string(chunk.clock);
      }
    }
    return text;
  }

 private:
  using Op = wire::Op;
  // A node's side of one chunk.
  struct Chunk {
    bool seeded = false;
    uint64_t clock = 0;  // of the push in hand; kClocks: done
    bool waiting = false;
    uint64_t base_version = 0;
    std::vector<float> final_weights;
  };
  struct Node {
    std::unique_ptr<transport::SimEndpoint> endpoint;
    std::optional<transport::ConnectionId> connection;
    bool greeted = false;
    bool retired = false;
    std::string address;
    uint32_t generation = 2;
    uint64_t round = 0;  // of the step in hand
    std::vector<Chunk> chunks = std::vector<Chunk>(kChunks);
  };

  void Tick(uint32_t id);
  static void Reconnect(Node* node);
  static void Send(Node* node, wire::Frame frame);
  void Say(uint32_t id, uint32_t chunk);
  std::vector<float> SumOf(uint32_t node, uint32_t chunk, uint64_t clock) const;
  void TurnOfNode(uint32_t id);
  // If all of the step before has been answered.
  static void BeginRound(Node* node);
  void Deliver(const wire::Frame& frame, Node* node);

  transport::SimNetwork* const network_;
  const proto::JobRecord record_;
  const Options options_;
  std::array<Node, kNodes> nodes_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_TESTING_SIM_NODES_H_
