// The node's protocol core against the shard's, over a wire that loses, repeats and breaks.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/kernels.h"
#include "server/shard/shard_core.h"
#include "worker/exchange/exchange_world.h"

namespace strata::tests {
namespace {

using worker::ExchangeWorld;

constexpr uint32_t kChunkElements = 256, kChunks = 6;
constexpr uint64_t kClocks = 5;

class CoreShard final : public worker::SimulatedShard {
 public:
  CoreShard() : core_(kernels::Cpu()) {}

  server::ShardCore& core() { return core_; }
  std::vector<Reply> OnFrame(transport::ConnectionId connection,
                             const wire::Frame& frame) override {
    std::vector<server::ShardAction> actions;
    core_.OnFrame(connection, frame, &actions);
    std::vector<Reply> replies;
    for (server::ShardAction& action : actions) {
      if (action.kind == server::ShardAction::Kind::kSend) {
        replies.push_back({action.connection, std::move(action.frame)});
      }
    }
    return replies;
  }
  void OnDisconnected(transport::ConnectionId connection) override {
    core_.OnDisconnected(connection);
  }

 private:
  server::ShardCore core_;
};

proto::JobRecord Record(const std::string& mode, uint32_t nodes, uint32_t shards, uint32_t window) {
  proto::JobRecord record;
  record.set_job_id(9);
  record.set_samples_per_epoch(1000);
  proto::Job* job = record.mutable_job();
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat("name: 'x' epochs: 1 program { path: 'p' } consistency { ", mode, " }"), job));
  job->set_ranks(nodes);
  job->set_window(window);
  FillDefaults(job);
  const uint64_t elements = kChunks * kChunkElements - 100;
  record.mutable_layout()->set_elements(elements);
  proto::Segment* segment = record.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(elements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  record.mutable_view()->set_number(1);
  for (uint32_t n = 0; n < nodes; ++n) {
    proto::LogicalNode* node = record.mutable_view()->add_nodes();
    node->set_node(n);
    node->set_first_rank(n);
    node->set_ranks(1);
  }
  record.mutable_placement()->set_generation(1);
  record.mutable_placement()->set_chunk_elements(kChunkElements);
  for (uint32_t s = 0; s < shards; ++s) {
    record.mutable_placement()->add_shard_endpoints(absl::StrCat("tcp://shard", s));
  }
  for (uint32_t c = 0; c < kChunks; ++c) record.mutable_placement()->add_shard_of_chunk(c % shards);
  return record;
}

struct Outcome {
  absl::Status status;
  std::vector<std::vector<float>> weights;  // final ones, by chunk
  uint64_t pushes = 0;                      // that the shards applied
};

Outcome RunJob(uint32_t seed, const proto::JobRecord& record, worker::WireFaults faults) {
  Outcome outcome;
  std::vector<std::unique_ptr<CoreShard>> shards;
  std::vector<worker::SimulatedShard*> pointers;
  for (int s = 0; s < record.placement().shard_endpoints_size(); ++s) {
    shards.push_back(std::make_unique<CoreShard>());
    pointers.push_back(shards.back().get());
    outcome.status = shards.back()->core().Install(record, ShardId(s));
    if (!outcome.status.ok()) return outcome;
  }
  ExchangeWorld world(
      seed, record, pointers, faults,
      [](uint32_t node, ChunkId chunk, uint64_t clock, size_t i) {
        return std::sin(0.1f * static_cast<float>(i + 7 * node + 31 * clock + chunk.value()));
      },
      0.25f);
  outcome.status = world.Run(kClocks);
  for (const ExchangeWorld::Node& node : world.nodes()) {
    EXPECT_EQ(node.deliveries.size(), kChunks * kClocks);
    for (const auto& [key, count] : node.deliveries) EXPECT_EQ(count, 1);
    EXPECT_EQ(node.finals, kChunks);
    EXPECT_EQ(node.weights, world.nodes()[0].weights);  // one final model for all
  }
  outcome.weights = world.nodes()[0].weights;
  for (auto& shard : shards) outcome.pushes += shard->core().Counters()[JobId(9)].pushes;
  return outcome;
}

constexpr worker::WireFaults kBadWire = {.drop = 0.2, .duplicate = 0.3, .disconnect = 0.02};

TEST(CoresTest, SyncGivesTheSameBitsOverABadWireAsOverAGoodOne) {
  for (uint32_t nodes : {1, 2, 3}) {
    const Outcome good = RunJob(1, Record("sync {}", nodes, 1, 2), {});
    ASSERT_TRUE(good.status.ok()) << good.status;
    for (uint32_t seed = 0; seed < 60; ++seed) {
      const Outcome bad =
          RunJob(seed, Record("sync {}", nodes, 1 + seed % 2, 2 + seed % 3), kBadWire);
      ASSERT_TRUE(bad.status.ok()) << "seed " << seed << ": " << bad.status;
      ASSERT_EQ(bad.weights, good.weights) << nodes << " nodes, seed " << seed;
      ASSERT_EQ(bad.pushes, nodes * kChunks * kClocks) << "seed " << seed;
    }
  }
}

TEST(CoresTest, EveryModeAppliesEachPushOnceOverABadWire) {
  for (const char* mode : {"lazy { staleness: 2 }", "lazy { staleness: 2 apply: ON_ARRIVAL }",
                           "async {}", "async { damping: INVERSE_STALENESS }"}) {
    for (uint32_t seed = 0; seed < 40; ++seed) {
      const Outcome bad = RunJob(seed, Record(mode, 3, 2, 2), kBadWire);
      ASSERT_TRUE(bad.status.ok()) << mode << ", seed " << seed << ": " << bad.status;
      ASSERT_EQ(bad.pushes, 3 * kChunks * kClocks) << mode << ", seed " << seed;
      ASSERT_FALSE(testing::Test::HasFailure()) << mode << ", seed " << seed;
    }
  }
}

}  // namespace
}  // namespace strata::tests
