#include "worker/exchange/all_reduce/reforming_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "worker/exchange/testing/all_reduce_world.h"

namespace strata::worker {
namespace {

using testing::HasSubstr;
using Phase = Exchange::Phase;

constexpr uint32_t kElements = 64, kChunks = 2;  // two slices each
const absl::Time kNow = absl::FromUnixSeconds(1);

proto::JobRecord Record(uint32_t nodes) {
  AllReduceWorld::Options options;
  options.nodes = nodes;
  options.elements = kElements;
  options.chunk_elements = kElements / kChunks;
  options.job = absl::StrCat("on_loss: DROP ranks_per_node: 1 ranks: ", nodes);
  return AllReduceWorld::RecordOf(options);
}

CoreOptions OptionsOf(const proto::JobRecord& record, uint32_t node) {
  CoreOptions options;
  options.record = record;
  options.node = NodeId(node);
  options.incarnation = 1;
  return options;
}

Bytes Floats(float value) {
  const std::shared_ptr<float> floats(new float[kElements / kChunks],
                                      std::default_delete<float[]>());
  std::fill_n(floats.get(), kElements / kChunks, value);
  return AsBytes(floats, kElements / kChunks);
}

proto::FormRing Forming(uint32_t number, uint64_t clock, const std::vector<uint32_t>& nodes) {
  proto::FormRing forming;
  forming.mutable_change()->set_number(number);
  forming.set_clock(clock);
  forming.mutable_nodes()->Add(nodes.begin(), nodes.end());
  return forming;
}

// Cores whose frames reach each other in order, and whose nodes answer at once: sums are eight
// times the node's number plus the clock.
class Nodes {
 public:
  explicit Nodes(uint32_t nodes)
      : record_(Record(nodes)), made_(nodes), sums_(nodes), failures_(nodes) {
    for (uint32_t n = 0; n < nodes; ++n) {
      cores_.push_back(*ReformingCore::Create(OptionsOf(record_, n), kernels::Cpu()));
    }
    is_carrying_ = true;  // only once all have started
    for (uint32_t n = 0; n < nodes; ++n) {
      const auto start = [&](CoreActions* actions) { return cores_[n]->Start(kNow, actions); };
      EXPECT_EQ(Call(n, start), absl::OkStatus());
    }
    is_carrying_ = false;
    EXPECT_EQ(Wait(0, absl::ZeroDuration()), absl::OkStatus());
    EXPECT_EQ(cores_[0]->phase(), Phase::kTraining);
  }

  ReformingCore& core(uint32_t node) { return *cores_[node]; }
  // Steps that the node has been handed.
  const std::vector<NodeAction>& made(uint32_t node) const { return made_[node]; }
  // Sums that it was asked for.
  int sums(uint32_t node) const { return sums_[node]; }
  void Kill(uint32_t node) { cores_[node].reset(); }
  absl::Time deadline(uint32_t node) const { return cores_[node]->deadline(); }

  absl::Status Call(uint32_t node, const std::function<absl::Status(CoreActions*)>& call) {
    CoreActions actions;
    absl::Status status = call(&actions);
    while (!actions.wire.empty() || !actions.node.empty()) {
      CoreActions next;
      for (const WireAction& action : actions.wire) Do(node, action, &next);
      for (const NodeAction& action : actions.node) status.Update(Do(node, action, &next));
      actions = std::move(next);
    }
    if (std::exchange(is_carrying_, true)) return status;
    for (; !on_the_way_.empty(); on_the_way_.pop_front()) on_the_way_.front()();
    is_carrying_ = false;
    return status;
  }
  absl::Status Submit(uint32_t node, uint32_t chunk) {
    return Call(node, [&](CoreActions* actions) {
      return cores_[node]->Submit(ChunkId(chunk), kNow, actions);
    });
  }
  void SubmitAll(uint32_t node) {
    for (uint32_t c = 0; c < kChunks; ++c) EXPECT_EQ(Submit(node, c), absl::OkStatus());
  }
  absl::Status Finish(uint32_t node, uint64_t clocks) {
    return Call(node,
                [&](CoreActions* actions) { return cores_[node]->Finish(clocks, kNow, actions); });
  }
  absl::StatusOr<StoppedRing> Stop(uint32_t node, uint32_t number) {
    absl::StatusOr<StoppedRing> stopped;
    EXPECT_TRUE(Call(node, [&](CoreActions* actions) {
                  stopped = cores_[node]->StopRing(number, kNow, actions);
                  return absl::OkStatus();
                }).ok());
    return stopped;
  }
  absl::Status Form(uint32_t node, const proto::FormRing& forming) {
    return Call(
        node, [&](CoreActions* actions) { return cores_[node]->FormRing(forming, kNow, actions); });
  }
  // Time passes at the node.
  absl::Status Wait(uint32_t node, absl::Duration time) {
    return Call(node, [&](CoreActions* actions) {
      return cores_[node]->OnTime(kNow + time, &actions->wire);
    });
  }
  // GATHERs of the chunk do not reach the node any more.
  void LoseGathers(uint32_t chunk, uint32_t to) { lost_ = {chunk, to}; }
  void LoseNothing() { lost_.reset(); }
  // What a frame that came has led to.
  const absl::Status& failure(uint32_t node) const { return failures_[node]; }

 private:
  struct End {
    uint32_t node = 0;
    bool open = true;
  };

  void Do(uint32_t node, const WireAction& action, CoreActions* next) {
    ReformingCore& core = *cores_[node];
    if (action.kind == WireAction::Kind::kConnect) {
      const std::string& address = core.address(action.link);
      for (uint32_t peer = 0; peer < cores_.size(); ++peer) {
        if (record_.ring().endpoints(static_cast<int>(peer)) != address) continue;
        if (cores_[peer] == nullptr) break;
        ends_.push_back({node});
        ends_.push_back({peer});
        core.OnConnected(action.link, transport::ConnectionId(ends_.size() - 2), kNow, &next->wire);
        return;
      }
      core.OnConnectFailed(action.link, absl::UnavailableError("gone"), kNow, &next->wire);
      return;
    }
    const uint64_t at = action.connection.value(), to = at ^ 1;
    if (action.kind == WireAction::Kind::kAdmit || !ends_[at].open) return;
    if (action.kind == WireAction::Kind::kClose) {
      ends_[at].open = false;
      on_the_way_.push_back([this, to] { Lost(to); });
      return;
    }
    const wire::Header& header = action.frame.header;
    const bool is_lost = lost_ && header.op == wire::Op::kGather && header.chunk == lost_->first &&
                         ends_[to].node == lost_->second;
    if (is_lost) return;
    on_the_way_.push_back([this, to, frame = action.frame] {
      const uint32_t peer = ends_[to].node;
      if (cores_[peer] == nullptr || !ends_[to].open) return;
      failures_[peer].Update(Call(peer, [&](CoreActions* actions) {
        return cores_[peer]->OnFrame(transport::ConnectionId(to), frame, kNow, actions);
      }));
    });
  }

  void Lost(uint64_t end) {
    const uint32_t node = ends_[end].node;
    if (cores_[node] == nullptr || !std::exchange(ends_[end].open, false)) return;
    EXPECT_TRUE(Call(node, [&](CoreActions* actions) {
                  cores_[node]->OnLost(transport::ConnectionId(end),
                                       absl::UnavailableError("closed"), kNow, &actions->wire);
                  return absl::OkStatus();
                }).ok());
  }

  absl::Status Do(uint32_t node, const NodeAction& action, CoreActions* next) {
    switch (action.kind) {
      case NodeAction::Kind::kFirstWeights:
        return cores_[node]->OnPayload(action, Floats(0.5), {}, kNow, next);
      case NodeAction::Kind::kSum:
        ++sums_[node];
        return cores_[node]->OnPayload(action,
                                       Floats(static_cast<float>(8 * (node + action.clock))),
                                       {.samples = 8}, kNow, next);
      case NodeAction::Kind::kDeliver:
        if (!action.weights.empty()) last_ = action.weights;  // slices may be empty
        if (!action.lands) break;
        made_[node].push_back(action);
        made_[node].back().weights = last_;
        break;
      default:
        break;
    }
    return absl::OkStatus();
  }

  const proto::JobRecord record_;
  std::vector<std::unique_ptr<ReformingCore>> cores_;
  std::vector<std::vector<NodeAction>> made_;
  std::vector<int> sums_;
  Bytes last_;
  std::vector<End> ends_;
  std::deque<std::function<void()>> on_the_way_;
  bool is_carrying_ = false;
  std::optional<std::pair<uint32_t, uint32_t>> lost_;
  std::vector<absl::Status> failures_;
};

TEST(ReformingCore, MeansAreHandedOnOnceThoseOfAllChunksAreThere) {
  Nodes nodes(2);
  for (uint32_t n = 0; n < 2; ++n) EXPECT_EQ(nodes.Submit(n, 0), absl::OkStatus());
  EXPECT_TRUE(nodes.made(0).empty() && nodes.made(1).empty());
  for (uint32_t n = 0; n < 2; ++n) EXPECT_EQ(nodes.Submit(n, 1), absl::OkStatus());
  for (uint32_t n = 0; n < 2; ++n) {
    ASSERT_EQ(nodes.made(n).size(), kChunks);
    EXPECT_EQ(nodes.made(n)[0].weights.floats()[0], 0.5);
    EXPECT_EQ(nodes.made(n)[0].ranks, 0u) << "all of the job's";
    EXPECT_EQ(nodes.core(n).counters().staleness[0], kChunks);
  }
}

TEST(ReformingCore, TheOthersMakeTheStepAgainWithTheSumsThatTheyHaveGiven) {
  Nodes nodes(3);
  nodes.SubmitAll(0);
  nodes.SubmitAll(1);
  nodes.Kill(2);
  for (uint32_t n = 0; n < 2; ++n) {
    const auto stopped = nodes.Stop(n, 4);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    EXPECT_EQ(stopped->clock, 0u);
    EXPECT_FALSE(stopped->is_over);
    EXPECT_EQ(nodes.deadline(n), absl::InfiniteFuture()) << "it waits, however long that takes";
  }
  for (uint32_t n = 0; n < 2; ++n)
    EXPECT_EQ(nodes.Form(n, Forming(4, 0, {0, 1})), absl::OkStatus());
  EXPECT_EQ(nodes.Wait(0, absl::Seconds(1)), absl::OkStatus());
  for (uint32_t n = 0; n < 2; ++n) {
    ASSERT_EQ(nodes.made(n).size(), kChunks) << n;
    EXPECT_EQ(nodes.made(n)[0].weights.floats()[0], 0.5);
    EXPECT_EQ(nodes.made(n)[0].ranks, 2u);
    EXPECT_EQ(nodes.sums(n), static_cast<int>(kChunks));
    EXPECT_EQ(nodes.core(n).counters().pushes, kChunks);
  }
}

TEST(ReformingCore, WhatTheNodePublishesBetweenTwoRingsGoesToTheNext) {
  Nodes nodes(2);
  nodes.Kill(1);
  ASSERT_TRUE(nodes.Stop(0, 4).ok());
  nodes.SubmitAll(0);
  EXPECT_EQ(nodes.sums(0), 0);
  EXPECT_EQ(nodes.Form(0, Forming(4, 0, {0})), absl::OkStatus());
  EXPECT_EQ(nodes.made(0).size(), kChunks);
}

TEST(ReformingCore, ANodeThatLacksAStepIsGivenItsMeansAndGoesOn) {
  Nodes nodes(2);
  nodes.LoseGathers(kChunks - 1, 0);
  for (uint32_t n = 0; n < 2; ++n) nodes.SubmitAll(n);
  nodes.LoseNothing();
  ASSERT_EQ(nodes.Stop(0, 4)->clock, 0u);
  ASSERT_EQ(nodes.Stop(1, 4)->clock, 1u);
  nodes.SubmitAll(1);
  proto::FormRing forming = Forming(4, 1, {0, 1});
  forming.set_some_lack(true);
  for (const uint32_t n : {1, 0}) EXPECT_EQ(nodes.Form(n, forming), absl::OkStatus());
  EXPECT_EQ(nodes.Wait(0, absl::Seconds(1)), absl::OkStatus());
  ASSERT_EQ(nodes.made(0).size(), kChunks);
  EXPECT_EQ(nodes.made(0)[0].ranks, 0u) << "the step was made by all";
  for (uint32_t c = 0; c < kChunks; ++c) {
    EXPECT_EQ(nodes.made(0)[c].clock, 0u);
    EXPECT_EQ(nodes.made(0)[c].weights.float_count(), kElements / kChunks);
    EXPECT_EQ(nodes.made(0)[c].weights.floats()[0], 0.5);
  }
  nodes.SubmitAll(0);
  for (uint32_t n = 0; n < 2; ++n) {
    ASSERT_GE(nodes.made(n).size(), kChunks + 1) << n;
    EXPECT_EQ(nodes.made(n).back().clock, 1u);
    EXPECT_EQ(nodes.made(n).back().weights.floats()[0], 1.5);
    EXPECT_EQ(nodes.made(n).back().ranks, 2u);
    EXPECT_EQ(nodes.failure(n), absl::OkStatus());
  }
}

TEST(ReformingCore, MeansThatOthersMayLackAreKeptNoLongerThanTheyMay) {
  Nodes nodes(2);
  for (uint32_t n = 0; n < 2; ++n) nodes.SubmitAll(n);
  for (uint32_t n = 0; n < 2; ++n) EXPECT_EQ(nodes.Submit(n, 0), absl::OkStatus());
  ASSERT_EQ(nodes.Stop(0, 4)->clock, 1u);
  proto::FormRing forming = Forming(4, 1, {0, 1});
  forming.set_some_lack(true);
  EXPECT_EQ(nodes.Form(0, forming).message(),
            "node 0: ring 4 is to go on after 1 steps, which some lack, but this node has made 1, "
            "and keeps none of the last one's means");
}

TEST(ReformingCore, OldNumbersChangeNothing) {
  Nodes nodes(2);
  EXPECT_TRUE(nodes.Stop(0, 3).ok()) << "the job's own view";
  EXPECT_NE(nodes.deadline(0), absl::InfiniteFuture()) << "it goes on";
  nodes.Kill(1);
  ASSERT_TRUE(nodes.Stop(0, 5).ok());
  EXPECT_EQ(nodes.Form(0, Forming(4, 7, {0})), absl::OkStatus());
  EXPECT_EQ(nodes.Form(0, Forming(5, 0, {0})), absl::OkStatus());
  nodes.SubmitAll(0);
  EXPECT_EQ(nodes.made(0).size(), kChunks);
  EXPECT_EQ(nodes.Form(0, Forming(5, 0, {0})), absl::OkStatus()) << "told twice";
  ASSERT_TRUE(nodes.Stop(0, 5).ok());
  EXPECT_EQ(nodes.Stop(0, 5)->clock, 1u);
  nodes.SubmitAll(0);
  EXPECT_EQ(nodes.made(0).size(), 2 * kChunks);
}

TEST(ReformingCore, ARingThatDoesNotFitIsAnError) {
  const auto error = [](const std::function<void(proto::FormRing*)>& change) {
    Nodes nodes(2);
    for (uint32_t n = 0; n < 2; ++n) nodes.SubmitAll(n);
    EXPECT_TRUE(nodes.Stop(0, 4).ok());
    proto::FormRing forming = Forming(4, 1, {0});
    change(&forming);
    const absl::Status status = nodes.Form(0, forming);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(error([](proto::FormRing* f) { f->set_clock(3); }),
            "node 0: ring 4 is to go on after 3 steps, but this node has made 1");
  EXPECT_EQ(error([](proto::FormRing* f) { f->set_clock(2); }),
            "node 0: ring 4 is to go on after 2 steps, but this node has made 1");
  EXPECT_EQ(error([](proto::FormRing* f) { f->set_clock(0); }),
            "node 0: ring 4 is to go on after 0 steps, but this node has made 1");
  EXPECT_EQ(error([](proto::FormRing* f) {
              f->set_clock(2);
              f->set_is_over(true);
            }),
            "node 0: ring 4 is to go on after 2 steps, but this node has made 1");
  EXPECT_THAT(error([](proto::FormRing* f) { f->set_nodes(0, 1); }),
              HasSubstr("ring 4 does not have node 0"));
}

TEST(ReformingCore, WithoutFirstWeightsItDoesNotGoOn) {
  const auto core = *ReformingCore::Create(OptionsOf(Record(2), 0), kernels::Cpu());
  CoreActions actions;
  EXPECT_EQ(core->Start(kNow, &actions), absl::OkStatus());
  const auto stopped = core->StopRing(4, kNow, &actions);
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(stopped.status().message(), HasSubstr("first weights"));
  EXPECT_EQ(core->FormRing(Forming(4, 0, {0}), kNow, &actions).code(),
            absl::StatusCode::kFailedPrecondition);
}

// What is answered to a HELLO that says this view.
std::string AnswerTo(ReformingCore* core, uint32_t view) {
  CoreOptions peer = OptionsOf(Record(2), 0);
  peer.record.mutable_view()->set_number(view);
  CoreActions actions;
  const transport::ConnectionId id(77);
  EXPECT_TRUE(core->OnFrame(id, MakeHello(MakeIdentity(peer)), kNow, &actions).ok());
  std::string answer;
  for (const WireAction& action : actions.wire) {
    if (action.kind != WireAction::Kind::kSend || action.connection != id) continue;
    const wire::Header& header = action.frame.header;
    answer = absl::StrCat(wire::ToString(header.op), " ", wire::ToString(header.error));
  }
  return answer;
}

TEST(ReformingCore, PutsOffNodesOfOtherRingsAndRefusesThoseOfOtherJobs) {
  Nodes nodes(2);
  ReformingCore* const core = &nodes.core(1);
  const std::string put_off = absl::StrCat("RETRY ", wire::ToString(wire::ErrorCode::kWrongView));
  EXPECT_EQ(AnswerTo(core, 4), put_off) << "of the ring to come";
  ASSERT_TRUE(nodes.Stop(1, 4).ok());
  EXPECT_EQ(AnswerTo(core, 3), put_off);
  EXPECT_EQ(AnswerTo(core, 4), put_off);
  CoreOptions other = OptionsOf(Record(2), 0);
  other.record.set_job_id(8);
  CoreActions actions;
  EXPECT_TRUE(
      core->OnFrame(transport::ConnectionId(78), MakeHello(MakeIdentity(other)), kNow, &actions)
          .ok());
  EXPECT_EQ(actions.wire.back().frame.header.op, wire::Op::kError);
  EXPECT_EQ(nodes.Form(1, Forming(4, 0, {0, 1})), absl::OkStatus());
  EXPECT_EQ(AnswerTo(core, 3), put_off) << "it has not heard of the new ring";
  EXPECT_EQ(AnswerTo(core, 4), "HELLO_OK NONE");
}

TEST(ReformingCore, AConnectionThatIsMadeForAnOlderRingIsClosed) {
  Nodes nodes(2);
  ASSERT_TRUE(nodes.Stop(0, 4).ok());
  for (const bool formed : {false, true}) {
    if (formed) {
      CoreActions unused;
      EXPECT_EQ(nodes.core(0).FormRing(Forming(4, 0, {0, 1}), kNow, &unused), absl::OkStatus());
      ASSERT_FALSE(unused.wire.empty());
      EXPECT_NE(unused.wire[0].link, LinkId(0));
      EXPECT_EQ(nodes.core(0).address(unused.wire[0].link), "tcp://10.0.0.2:4000");
    }
    WireActions actions;
    nodes.core(0).OnConnected(LinkId(0), transport::ConnectionId(9), kNow, &actions);
    ASSERT_EQ(actions.size(), 1u);
    EXPECT_EQ(actions[0].kind, WireAction::Kind::kClose);
    EXPECT_EQ(actions[0].connection, transport::ConnectionId(9));
  }
}

TEST(ReformingCore, ANodeIsDoneOnceAllHaveMadeAllSteps) {
  Nodes nodes(2);
  for (uint32_t n = 0; n < 2; ++n) nodes.SubmitAll(n);
  EXPECT_EQ(nodes.Finish(0, 1), absl::OkStatus());
  EXPECT_EQ(nodes.core(0).phase(), Phase::kFinishing);
  EXPECT_EQ(nodes.Finish(1, 1), absl::OkStatus());
  for (uint32_t n = 0; n < 2; ++n) {
    EXPECT_EQ(nodes.core(n).phase(), Phase::kFinished);
    EXPECT_TRUE(nodes.Stop(n, 4)->is_over);
  }
}

TEST(ReformingCore, WhereAllStepsAreMadeAndOneNodeIsGoneTheOthersFinishAtOnce) {
  Nodes nodes(2);
  for (uint32_t n = 0; n < 2; ++n) nodes.SubmitAll(n);
  EXPECT_EQ(nodes.Finish(0, 1), absl::OkStatus());
  EXPECT_FALSE(nodes.Stop(0, 4)->is_over);
  EXPECT_EQ(nodes.Stop(1, 4)->clock, 1u);
  proto::FormRing forming = Forming(4, 1, {0, 1});
  forming.set_is_over(true);
  EXPECT_EQ(nodes.Form(0, forming), absl::OkStatus());
  EXPECT_EQ(nodes.core(0).phase(), Phase::kFinished);
  EXPECT_EQ(nodes.Form(1, forming), absl::OkStatus());
  EXPECT_EQ(nodes.core(1).phase(), Phase::kTraining) << "its ranks have not said so";
  EXPECT_EQ(nodes.Submit(1, 0).message(),
            "node 1: the other nodes have finished after 1 steps, but this node goes on");
  EXPECT_EQ(nodes.Finish(1, 1), absl::OkStatus());
  EXPECT_EQ(nodes.core(1).phase(), Phase::kFinished);
}

TEST(ReformingCore, ANodeThatGoesOnWhereAnotherHasMadeAllItsStepsIsAnError) {
  Nodes nodes(2);
  for (uint32_t n = 0; n < 2; ++n) nodes.SubmitAll(n);
  EXPECT_EQ(nodes.Finish(0, 1), absl::OkStatus());
  const absl::Status status = nodes.Submit(1, 0);
  EXPECT_THAT(status.message(), HasSubstr("has finished after 1 steps, but this node goes on"));
  EXPECT_THAT(nodes.failure(0).message(), HasSubstr("but this node goes on"));
}

TEST(ReformingCore, ARecordThatCannotGoOnWithoutNodesIsRefused) {
  proto::JobRecord record = Record(2);
  record.mutable_job()->mutable_push()->set_codec(proto::Encoding::FP16);
  EXPECT_EQ(ReformingCore::Create(OptionsOf(record, 0), kernels::Cpu()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace strata::worker
