#include "worker/exchange/testing/exchange_world.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr int kEventsMax = 1'000'000;
// Hosts of shards, beyond those of nodes.
constexpr uint32_t kFirstServerHost = 32;

}  // namespace

proto::JobRecord WorldRecord(uint32_t nodes, uint32_t chunks, uint32_t shards, uint32_t window,
                             uint32_t connections) {
  proto::JobRecord record;
  record.set_job_id(3);
  record.mutable_job()->set_connections(connections);
  record.mutable_job()->set_window(window);
  for (uint32_t n = 0; n < nodes; ++n) record.mutable_view()->add_nodes()->set_node(n);
  record.mutable_layout()->set_elements(chunks * kWorldChunkElements - 1);  // a shorter last chunk
  record.mutable_placement()->set_chunk_elements(kWorldChunkElements);
  for (uint32_t s = 0; s < shards; ++s) {
    record.mutable_placement()->add_shard_endpoints(absl::StrCat("tcp://shard", s));
  }
  for (uint32_t c = 0; c < chunks; ++c) record.mutable_placement()->add_shard_of_chunk(c % shards);
  return record;
}

ExchangeWorld::ExchangeWorld(uint64_t seed, const proto::JobRecord& record,
                             const transport::SimFaults& faults, Gradient gradient,
                             float first_weight)
    : record_(record),
      gradient_(std::move(gradient)),
      first_weight_(first_weight),
      loses_frames_(faults.drop > 0),
      network_(seed) {
  network_.set_faults(faults);
  const auto nodes = static_cast<uint32_t>(record.view().nodes_size());
  for (const std::string& address : record.placement().shard_endpoints()) {
    shards_.push_back(std::make_unique<FakeShard>(nodes));
    servers_.push_back(ServerAt(shards_.size() - 1, address));
  }
}

std::unique_ptr<transport::SimEndpoint> ExchangeWorld::ServerAt(size_t shard,
                                                                const std::string& address) {
  transport::SimEndpoint::Options options;
  options.name = absl::StrCat("s", shard);
  options.host = kFirstServerHost + static_cast<uint32_t>(shard);
  options.addresses_are_names = true;
  options.on_ready = [this, shard] { Serve(shard); };
  auto server = std::make_unique<transport::SimEndpoint>(&network_, options);
  EXPECT_TRUE(server->Listen(address).ok());
  return server;
}

void ExchangeWorld::MoveShard(size_t shard, const std::string& address, uint32_t generation,
                              absl::Duration delay) {
  network_.After(delay, [=, this] {
    servers_[shard] = ServerAt(shard, address);
    shards_[shard]->set_generation(generation);
    const ShardMove move{ShardId(static_cast<uint32_t>(shard)), address, generation};
    for (const auto& node : nodes_) {
      const absl::Duration heard =
          network_.random().Between(absl::Microseconds(1), absl::Milliseconds(5));
      network_.After(heard, [&node, move] { node->OnShardMoved(move); });
    }
  });
}

void ExchangeWorld::Serve(size_t shard) {
  transport::SimEndpoint& server = *servers_[shard];
  std::vector<transport::Event> events;
  server.Poll(absl::InfiniteDuration(), &events);
  for (const transport::Event& event : events) {
    if (event.kind != transport::Event::Kind::kFrame) {
      shards_[shard]->OnDisconnected(event.connection);
      continue;
    }
    for (const FakeShard::Reply& reply : shards_[shard]->OnFrame(event.connection, event.frame)) {
      // A reply to who has gone meanwhile is lost.
      server.Send(reply.connection, reply.frame).IgnoreError();
    }
  }
}

absl::Status ExchangeWorld::Run(uint64_t clocks) {
  for (const proto::LogicalNode& logical : record_.view().nodes()) {
    TrainingNode::Options options;
    options.core.record = record_;
    options.core.node = NodeId(logical.node());
    // HELLO is lost too, again and again.
    if (loses_frames_) options.core.timing.give_up_after = absl::Hours(1);
    options.name = absl::StrCat("n", logical.node());
    options.addresses_are_names = true;
    options.clocks = clocks;
    const uint32_t other = record_.takes_first_weights() ? logical.first_rank() : 0;
    options.first_weight = [this, other](uint64_t) { return first_weight_ + other; };
    options.gradient = [this, node = logical.node()](uint64_t clock, uint64_t) {
      return gradient_(node, clock);
    };
    nodes_.push_back(std::make_unique<TrainingNode>(&network_, std::move(options)));
  }
  for (const auto& node : nodes_) node->Start();
  for (int events = 0; events < kEventsMax; ++events) {
    bool all_over = true;
    for (const auto& node : nodes_) {
      if (!node->status().ok()) return node->status();
      all_over = all_over && node->is_over();
    }
    if (all_over) return absl::OkStatus();
    if (!network_.RunOne()) break;
  }
  return absl::DeadlineExceededError("the run does not end");
}

}  // namespace strata::worker
