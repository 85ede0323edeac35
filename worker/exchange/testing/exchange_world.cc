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
    const size_t s = shards_.size();
    shards_.push_back(std::make_unique<FakeShard>(nodes));
    transport::SimEndpoint::Options options;
    options.name = absl::StrCat("s", s);
    options.host = kFirstServerHost + static_cast<uint32_t>(s);
    options.addresses_are_names = true;
    options.on_ready = [this, s] { Serve(s); };
    servers_.push_back(std::make_unique<transport::SimEndpoint>(&network_, options));
    EXPECT_TRUE(servers_.back()->Listen(address).ok());
  }
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
