#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/job.h"
#include "common/random.h"
#include "gtest/gtest.h"
#include "rows/row_key.h"
#include "rows/table_spec.h"
#include "server/shard/shard_core.h"
#include "server/testing/shard_harness.h"
#include "worker/exchange/server/rows_core.h"

// Nodes push rows to shards and look them up over connections that break, lose what is under way,
// and are slow: seeded, in virtual time. Every push counts exactly once, and a node sees its own.

namespace strata {
namespace {

using server::ShardAction;
using transport::ConnectionId;
using worker::CoreActions;
using worker::LinkEvent;
using worker::RowsCore;

constexpr uint32_t kRowNodes = 3, kRowShards = 2, kRowBuckets = 8, kRowIds = 40;
constexpr uint64_t kRowSteps = 12;
constexpr float kInitial = 4096.0f;

proto::JobRecord RecordWithTable() {
  server::JobOptions options;
  options.ranks.assign(kRowNodes, 1);
  options.elements = 2;
  options.chunk_elements = 1;
  options.shards = kRowShards;
  options.job_text = "optimizer { sgd {} } consistency { async {} }";
  proto::JobRecord record = server::MakeRecord(options);
  *record.mutable_layout()->add_tables() =
      rows::ToProto({.name = "items",
                     .columns = 1,
                     .capacity = 1000,
                     .seed = 3,
                     .initial = {.kind = rows::InitialValues::Kind::kConstant, .scale = kInitial},
                     .optimizer = {.kind = rows::RowOptimizerKind::kSgd}});
  for (uint32_t bucket = 0; bucket < kRowBuckets; ++bucket) {
    record.mutable_placement()->add_shard_of_bucket(bucket % kRowShards);
  }
  return record;
}

class RowsWorld {
 public:
  explicit RowsWorld(uint64_t seed) : seed_(seed), record_(RecordWithTable()) {
    for (uint32_t s = 0; s < kRowShards; ++s) {
      shards_.push_back(std::make_unique<server::ShardCore>(kernels::Cpu()));
      EXPECT_TRUE(shards_[s]->Install(record_, ShardId(s)).ok());
    }
    for (uint32_t n = 0; n < kRowNodes; ++n) {
      worker::CoreOptions options;
      options.record = record_;
      options.node = NodeId(n);
      options.incarnation = 1;
      options.timing.give_up_after = absl::InfiniteDuration();
      nodes_.push_back({.core = *RowsCore::Create(options)});
      Tell(n, LinkEvent::Start());
    }
  }

  void Run() {
    for (uint64_t turns = 0; !AllDone(); ++turns) {
      ASSERT_LT(turns, 2000000u) << "it makes no progress";
      const auto n = static_cast<uint32_t>(Draw(kRowNodes));
      if (Draw(400) == 0) {
        Break(static_cast<size_t>(Draw(lines_.size())));
      } else if (Draw(20) == 0) {
        PassTime();
      } else if (Draw(4) == 0) {
        Advance(n);
      } else {
        Deliver();
      }
      if (testing::Test::HasFatalFailure()) return;
    }
    Check();
  }

 private:
  struct Line {
    uint32_t node = 0, shard = 0;
    bool is_up = true;
    std::deque<wire::Frame> to_shard, to_node;
  };
  struct Node {
    std::unique_ptr<RowsCore> core;
    enum class Does { kLooksUp, kWaits, kPushes, kRetires, kIsDone } does = Does::kLooksUp;
    uint64_t step = 0;
    std::vector<uint64_t> ids;           // of the step
    std::map<uint64_t, float> own = {};  // that it has pushed, by id
  };

  uint64_t Draw(uint64_t below) { return RandomBelow(seed_, ++draws_, below); }

  void Tell(uint32_t n, const LinkEvent& event) {
    CoreActions actions;
    ASSERT_TRUE(nodes_[n].core->OnLinkEvent(event, now_, &actions).ok());
    Perform(n, std::move(actions));
  }
  void Perform(uint32_t n, CoreActions actions) {
    for (WireAction& action : actions.wire) {
      if (action.kind == WireAction::Kind::kConnect) {
        const std::string& address = nodes_[n].core->address(action.link);
        const uint32_t shard = address.back() - '0';
        lines_.push_back({.node = n, .shard = shard});
        Tell(n, LinkEvent::Connected(action.link, ConnectionId(lines_.size())));
      } else if (action.kind == WireAction::Kind::kSend) {
        Line& line = lines_[action.connection.value() - 1];
        if (line.is_up) line.to_shard.push_back(std::move(action.frame));
      } else if (action.kind == WireAction::Kind::kClose) {
        Break(action.connection.value() - 1);
      }
    }
  }
  void Break(size_t index) {
    if (index >= lines_.size() || !lines_[index].is_up) return;
    lines_[index].is_up = false;
    lines_[index].to_shard.clear();
    lines_[index].to_node.clear();
    const ConnectionId connection(index + 1);
    std::vector<ShardAction> actions;
    const absl::Status why = absl::UnavailableError("broken");
    shards_[lines_[index].shard]->OnDisconnected(connection, why, now_, &actions);
    Tell(lines_[index].node, LinkEvent::Lost(connection, why));
  }
  void Deliver() {
    std::vector<size_t> busy;
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (!lines_[i].to_shard.empty() || !lines_[i].to_node.empty()) busy.push_back(i);
    }
    if (busy.empty()) return PassTime();
    const size_t index = busy[Draw(busy.size())];
    const ConnectionId connection(index + 1);
    if (lines_[index].to_node.empty() || (!lines_[index].to_shard.empty() && Draw(2) == 0)) {
      wire::Frame frame = std::move(lines_[index].to_shard.front());
      lines_[index].to_shard.pop_front();
      std::vector<ShardAction> actions;
      shards_[lines_[index].shard]->OnFrame(connection, std::move(frame), now_, &actions);
      for (ShardAction& action : actions) {
        if (action.kind != ShardAction::Kind::kSend) continue;
        Line& line = lines_[action.connection.value() - 1];
        ASSERT_NE(action.frame.header.op, wire::Op::kError) << wire::Describe(action.frame.header);
        if (line.is_up) line.to_node.push_back(std::move(action.frame));
      }
      return;
    }
    const wire::Frame frame = std::move(lines_[index].to_node.front());
    lines_[index].to_node.pop_front();
    Tell(lines_[index].node, LinkEvent::Frame(connection, frame));
  }
  void PassTime() {
    now_ += absl::Milliseconds(static_cast<int64_t>(10 + Draw(6000)));
    for (uint32_t n = 0; n < kRowNodes; ++n) Tell(n, LinkEvent::Time());
  }

  // Lets the node go on, if it can.
  void Advance(uint32_t n) {
    Node& node = nodes_[n];
    CoreActions actions;
    switch (node.does) {
      case Node::Does::kLooksUp:
        if (node.step == kRowSteps) {
          if (node.core->is_pushing()) return;
          node.does = Node::Does::kRetires;
          node.core->Finish(now_, &actions);
          break;
        }
        node.ids.clear();
        for (uint64_t id = 0; id < kRowIds; ++id) {
          if (Draw(4) == 0) node.ids.push_back(id);
        }
        node.does = Node::Does::kWaits;
        node.core->LookUp(0, 0, node.ids, now_, &actions);
        break;
      case Node::Does::kWaits:
        Take(&node);
        break;
      case Node::Does::kPushes: {
        if (node.core->is_pushing()) return;
        const std::vector<float> sums(node.ids.size(), static_cast<float>(1 + n));
        for (const uint64_t id : node.ids) node.own[id] += sums[0];
        std::vector<wire::RowsSection> pushed;
        if (!node.ids.empty()) {
          pushed.push_back({.table = 0, .rate = 1.0f, .ids = node.ids, .values = sums.data()});
        }
        ASSERT_TRUE(node.core->Push(pushed, 1, now_, &actions).ok());
        ++node.step;
        node.does = Node::Does::kLooksUp;
        break;
      }
      case Node::Does::kRetires:
        if (node.core->is_finished()) node.does = Node::Does::kIsDone;
        break;
      case Node::Does::kIsDone:
        break;
    }
    Perform(n, std::move(actions));
  }
  // What it finds has at least its own pushes, and no more than all.
  void Take(Node* node) {
    for (const RowsCore::Found& found : node->core->TakeFound()) {
      for (size_t i = 0; i < found.places.size(); ++i) {
        const uint64_t id = node->ids[found.places[i]];
        float most = 0;
        for (Node& other : nodes_) most += other.own[id];
        EXPECT_LE(found.weights.floats()[i], kInitial - node->own[id]) << id;
        EXPECT_GE(found.weights.floats()[i], kInitial - most) << id;
      }
      if (found.is_last) node->does = Node::Does::kPushes;
    }
  }
  bool AllDone() const {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](const Node& node) { return node.does == Node::Does::kIsDone; });
  }

  void Check() {
    uint64_t pushes = 0;
    for (const auto& shard : shards_) pushes += shard->Counters().at(JobId(7)).pushes;
    EXPECT_EQ(pushes, kRowNodes * kRowSteps * kRowBuckets);
    // A node that has come back reads the final rows.
    for (uint64_t id = 0; id < kRowIds; ++id) {
      const uint64_t bucket = rows::HighBits(rows::HashOf(3, id), 3);
      server::ShardCore& shard = *shards_[bucket % kRowShards];
      const ConnectionId connection(lines_.size() + 1);
      std::vector<ShardAction> actions;
      shard.OnFrame(connection,
                    server::HelloFrame(record_, 0, 2, /*connection=*/1,
                                       static_cast<uint32_t>(bucket % kRowShards)),
                    now_, &actions);
      wire::Frame lookup = server::ControlFrame(record_, wire::Op::kLookup, 0, 0, 1);
      lookup.header.key_space = wire::KeySpace::kRows;
      lookup.header.incarnation = 2;
      lookup.payload = wire::EncodeRows({}, {{.table = 0, .ids = {&id, 1}}}, {{1}});
      actions.clear();
      shard.OnFrame(connection, lookup, now_, &actions);
      ASSERT_EQ(actions.size(), 1u);
      float sum = 0;
      for (Node& node : nodes_) sum += node.own[id];
      EXPECT_EQ(actions[0].frame.payload.floats()[0], kInitial - sum) << id;
    }
  }

  const uint64_t seed_;
  const proto::JobRecord record_;
  uint64_t draws_ = 0;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<std::unique_ptr<server::ShardCore>> shards_;
  std::vector<Node> nodes_;
  std::deque<Line> lines_;
};

TEST(Rows, CountExactlyOnceOverConnectionsThatBreak) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    RowsWorld world(seed);
    world.Run();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace strata
