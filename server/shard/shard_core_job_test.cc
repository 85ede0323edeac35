// The course of jobs on a shard: install, retire, cut, remove, several at once.
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/testing/shard_harness.h"

namespace strata::server {
namespace {

using transport::ConnectionId;
using wire::Op;

JobOptions OneWeight(uint32_t job, std::vector<uint32_t> ranks, const std::string& mode) {
  JobOptions options;
  options.job = job;
  options.ranks = std::move(ranks);
  options.elements = options.chunk_elements = 1;
  options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 } consistency { " + mode + " }";
  return options;
}

std::vector<ConnectionId> ConnectionsOf(const std::vector<Sent>& sent) {
  std::vector<ConnectionId> connections;
  for (const Sent& one : sent) connections.push_back(one.connection);
  return connections;
}

TEST(ShardCoreInstall, TheSameRecordAgainIsFineAndAnotherIsNot) {
  ShardCore core(kernels::Cpu());
  proto::JobRecord record = MakeRecord({});
  ASSERT_TRUE(core.Install(record, ShardId(0)).ok());
  EXPECT_TRUE(core.Install(record, ShardId(0)).ok());
  record.set_token(5);
  EXPECT_EQ(core.Install(record, ShardId(0)).code(), absl::StatusCode::kAlreadyExists);
}

TEST(ShardCoreInstall, NamesWhatIsWrongWithARecord) {
  const auto error = [](auto change) {
    proto::JobRecord record = MakeRecord({});
    change(record);
    const absl::Status status = ShardCore(kernels::Cpu()).Install(record, ShardId(0));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  using Record = proto::JobRecord;
  EXPECT_EQ(error([](Record& r) { r.mutable_view()->clear_nodes(); }),
            "job 7: view.nodes is empty");
  EXPECT_EQ(error([](Record& r) { r.mutable_view()->mutable_nodes(1)->set_node(0); }),
            "job 7: view: node 0 stands there twice");
  EXPECT_EQ(error([](Record& r) { r.mutable_view()->mutable_nodes(1)->set_ranks(0); }),
            "job 7: view: node 1 has no ranks");
  EXPECT_EQ(error([](Record& r) { r.mutable_view()->mutable_nodes(1)->set_first_rank(2); }),
            "job 7: view: node 1 begins at rank 2, not 1");
  EXPECT_EQ(error([](Record& r) { r.mutable_placement()->set_chunk_elements(0); }),
            "job 7: placement.chunk_elements is 0, not 1 to 4194304");
  EXPECT_EQ(error([](Record& r) { r.mutable_placement()->clear_shard_endpoints(); }),
            "job 7: placement has 0 shards, none of number 0");
  EXPECT_EQ(error([](Record& r) { r.mutable_placement()->add_shard_of_chunk(0); }),
            "job 7: placement.shard_of_chunk has 3 chunks, the arena 2");
  EXPECT_EQ(error([](Record& r) { r.mutable_placement()->set_shard_of_chunk(1, 6); }),
            "job 7: placement: chunk 1 lies on shard 6 of 1");
  EXPECT_NE(error([](Record& r) { r.mutable_layout()->mutable_segments(0)->set_shape(0, 7); }), "");
}

TEST(ShardCoreReport, TellsWhoLagsWithWhichChunk) {
  JobOptions options;
  options.ranks = {1, 1, 1};
  options.elements = 12;  // 3 chunks
  const proto::JobRecord record = MakeRecord(options);
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  ConnectionId nodes[] = {shard.Join(record, 0), shard.Join(record, 1), shard.Join(record, 2)};
  const std::vector<float> values = {1, 2, 3, 4};
  for (uint32_t c = 0; c < 3; ++c) shard.Deliver(nodes[0], InitFrame(record, 0, c, values));
  for (uint32_t c = 0; c < 3; ++c) shard.Deliver(nodes[0], PushFrame(record, 0, c, 0, values, 4));
  for (uint32_t c : {0, 2}) shard.Deliver(nodes[1], PushFrame(record, 1, c, 0, values, 4));
  shard.Deliver(nodes[2], PushFrame(record, 2, 0, 0, values, 4));
  shard.Lose(nodes[2]);
  const ShardReport report = shard.core().NextReports().at(JobId(7));
  EXPECT_EQ(report.counters.pushes, 6u);
  ASSERT_EQ(report.nodes.size(), 3u);
  EXPECT_EQ(report.nodes[0].ShortDebugString(), "clock: 1 connected: true unanswered: 2");
  EXPECT_EQ(report.nodes[1].ShortDebugString(), "node: 1 chunk: 1 connected: true unanswered: 1");
  EXPECT_EQ(report.nodes[2].ShortDebugString(), "node: 2 chunk: 1");
  shard.Deliver(nodes[1], ControlFrame(record, Op::kRetire, 1, 0, 0));
  EXPECT_TRUE(shard.core().NextReports().at(JobId(7)).nodes[1].retired());
}

TEST(ShardCoreReport, IsSilentWhereTheShardHoldsNothingOfTheJob) {
  JobOptions options;
  options.shards = 3;  // and 2 chunks
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(MakeRecord(options), ShardId(2)).ok());
  EXPECT_TRUE(shard.core().NextReports().at(JobId(7)).nodes.empty());
}

TEST(ShardCoreReport, OfALargeJobHasTheNodesNowAndThen) {
  JobOptions options;
  options.ranks = std::vector<uint32_t>(256, 1);
  options.chunk_elements = 1;
  options.elements = 4096;  // 2^20 times a node's chunk: 3 reports of 2^19
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(MakeRecord(options), ShardId(0)).ok());
  for (size_t nodes : {256, 0, 0, 256, 0, 0, 256}) {
    EXPECT_EQ(shard.core().NextReports().at(JobId(7)).nodes.size(), nodes);
  }
}

// The node gave the first connection up before its HELLO, which was slow, had arrived.
TEST(ShardCoreConnections, AnswersGoWhereTheNodeSpeaksNotOnlyWhereItsLastHelloCameFrom) {
  const proto::JobRecord record = MakeRecord(OneWeight(7, {1}, "sync {}"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId given_up = shard.Connect();
  const ConnectionId used = shard.Join(record, 0);
  shard.DeliverForOne(used, InitFrame(record, 0, 0, {1}));
  shard.DeliverForOne(given_up, HelloFrame(record, 0));
  const wire::Frame push = PushFrame(record, 0, 0, 0, {1}, 1);
  const std::vector<Sent> answer = shard.Deliver(used, push);
  EXPECT_EQ(ConnectionsOf(answer), (std::vector<ConnectionId>{given_up, used}));
  shard.DeliverForOne(given_up, HelloFrame(record, 0));
  shard.Lose(given_up);
  const wire::Frame next = PushFrame(record, 0, 0, 1, {1}, 1, 1);
  EXPECT_EQ(ConnectionsOf(shard.Deliver(used, next)), (std::vector<ConnectionId>{used}));
}

TEST(ShardCoreRetire, OtherNodesProceedWithoutTheOneThatRetired) {
  const proto::JobRecord record = MakeRecord(OneWeight(7, {1, 1, 1}, "sync {}"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  ConnectionId nodes[] = {shard.Join(record, 0), shard.Join(record, 1), shard.Join(record, 2)};
  shard.Deliver(nodes[0], InitFrame(record, 0, 0, {0.0f}));
  for (uint32_t i : {0, 2}) shard.Deliver(nodes[i], PushFrame(record, i, 0, 0, {-6.0f}, 3));
  // Node 1 leaves without a push: clock 0 completes with the two that are there.
  const auto sent = shard.Deliver(nodes[1], ControlFrame(record, Op::kRetire, 1, 0, 0));
  ASSERT_EQ(sent.size(), 3u);
  EXPECT_EQ(sent[0].frame.header.op, Op::kRetireOk);
  EXPECT_EQ(sent[1].frame.header.op, Op::kAnswer);
  EXPECT_EQ(ToFloats(sent[1].frame)[0], 2.0f) << "12 over 6 samples";
  EXPECT_EQ(shard.Deliver(nodes[1], ControlFrame(record, Op::kRetire, 1, 0, 0)).size(), 1u)
      << "again is fine";
  EXPECT_EQ(shard.DeliverForOne(nodes[1], PushFrame(record, 1, 0, 0, {1.0f}, 1)).header.op,
            Op::kError);
  shard.Deliver(nodes[0], PushFrame(record, 0, 0, 1, {-3.0f}, 3, 1));
  const auto answers = shard.Deliver(nodes[2], PushFrame(record, 2, 0, 1, {-3.0f}, 3, 1));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[0].frame)[0], 3.0f);
  EXPECT_EQ(answers[0].frame.header.min_clock, 2u);
}

TEST(ShardCoreCut, IsAnsweredWithTheFinalWeightsOnceEveryNodeHasRetired) {
  for (const char* mode : {"sync {}", "lazy { staleness: 2 }", "async {}"}) {
    const proto::JobRecord record = MakeRecord(OneWeight(7, {1, 1}, mode));
    ShardHarness shard;
    ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
    const ConnectionId a = shard.Join(record, 0), b = shard.Join(record, 1);
    shard.Deliver(a, InitFrame(record, 0, 0, {0.0f}));
    shard.Deliver(a, PushFrame(record, 0, 0, 0, {-1.0f}, 1));
    shard.Deliver(b, PushFrame(record, 1, 0, 0, {-3.0f}, 1));
    const wire::Frame cut = ControlFrame(record, Op::kCut, 0, 0, 1);
    EXPECT_EQ(shard.Deliver(a, ControlFrame(record, Op::kRetire, 0, 0, 0)).size(), 1u);
    EXPECT_TRUE(shard.Deliver(a, cut).empty()) << mode;
    EXPECT_TRUE(shard.Deliver(a, cut).empty()) << "a repeated question is one question";
    const auto sent = shard.Deliver(b, ControlFrame(record, Op::kRetire, 1, 0, 0));
    ASSERT_EQ(sent.size(), 2u) << mode;
    EXPECT_EQ(sent[1].connection, a);
    EXPECT_EQ(sent[1].frame.header.op, Op::kCutAnswer);
    EXPECT_EQ(sent[1].frame.header.clock, 1u);
    EXPECT_EQ(sent[1].frame.header.min_clock, 1u);
    const float expected = std::string(mode) == "async {}" ? 4.0f : 2.0f;
    EXPECT_EQ(ToFloats(sent[1].frame)[0], expected) << mode;
    EXPECT_EQ(ToFloats(shard.DeliverForOne(a, cut))[0], expected) << "asked again";
  }
}

TEST(ShardCoreCut, ClocksThatOnlyTheFastNodeReachedAreInTheFinalWeights) {
  const proto::JobRecord record = MakeRecord(OneWeight(7, {1, 1}, "lazy { staleness: 3 }"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId a = shard.Join(record, 0), b = shard.Join(record, 1);
  shard.Deliver(a, InitFrame(record, 0, 0, {0.0f}));
  for (uint64_t clock = 0; clock < 3; ++clock) {
    EXPECT_EQ(shard.Deliver(a, PushFrame(record, 0, 0, clock, {-1.0f}, 1)).size(), 1u);
  }
  shard.Deliver(a, ControlFrame(record, Op::kRetire, 0, 0, 0));
  shard.Deliver(a, ControlFrame(record, Op::kCut, 0, 0, 3));
  const auto sent = shard.Deliver(b, ControlFrame(record, Op::kRetire, 1, 0, 0));
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(ToFloats(sent[1].frame)[0], 3.0f);
  EXPECT_EQ(sent[1].frame.header.version, 3u);
}

TEST(ShardCoreJobs, TwoJobsDoNotSeeEachOther) {
  const proto::JobRecord sync = MakeRecord(OneWeight(7, {1, 1}, "sync {}"));
  const proto::JobRecord async = MakeRecord(OneWeight(8, {1, 1}, "async {}"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(sync, ShardId(0)).ok());
  ASSERT_TRUE(shard.core().Install(async, ShardId(0)).ok());
  const ConnectionId a = shard.Join(sync, 0), b = shard.Join(async, 0);
  shard.Deliver(a, InitFrame(sync, 0, 0, {100.0f}));
  EXPECT_EQ(shard.DeliverForOne(b, PushFrame(async, 0, 0, 0, {1.0f}, 1)).header.op, Op::kRetry)
      << "the other job's INIT does not count";
  shard.Deliver(b, InitFrame(async, 0, 0, {200.0f}));
  EXPECT_TRUE(shard.Deliver(a, PushFrame(sync, 0, 0, 0, {1.0f}, 1)).empty());
  const wire::Frame answer = shard.DeliverForOne(b, PushFrame(async, 0, 0, 0, {1.0f}, 1));
  EXPECT_EQ(ToFloats(answer)[0], 199.0f);
  const auto counters = shard.core().Counters();
  EXPECT_EQ(counters.at(JobId(7)).pushes, 1u);
  EXPECT_EQ(counters.at(JobId(7)).answers, 0u);
  EXPECT_EQ(counters.at(JobId(8)).pushes, 1u);
  EXPECT_EQ(counters.at(JobId(8)).answers, 1u);
}

TEST(ShardCoreJobs, RemovingOneClosesItsConnectionsAndNoOthers) {
  const proto::JobRecord first = MakeRecord(OneWeight(7, {1, 1}, "sync {}"));
  const proto::JobRecord second = MakeRecord(OneWeight(8, {1}, "sync {}"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(first, ShardId(0)).ok());
  ASSERT_TRUE(shard.core().Install(second, ShardId(0)).ok());
  const ConnectionId a = shard.Join(first, 0), b = shard.Join(second, 0);
  std::vector<ShardAction> actions;
  shard.core().Remove(JobId(7), &actions);
  ASSERT_EQ(actions.size(), 1u);
  EXPECT_EQ(actions[0].kind, ShardAction::Kind::kClose);
  EXPECT_EQ(actions[0].connection, a);
  shard.core().Remove(JobId(7), &actions);
  EXPECT_EQ(actions.size(), 1u);
  EXPECT_EQ(shard.DeliverForOne(a, InitFrame(first, 0, 0, {1.0f})).header.error,
            wire::ErrorCode::kNoHello);
  EXPECT_EQ(shard.DeliverForOne(b, InitFrame(second, 0, 0, {1.0f})).header.op, Op::kInitOk);
  EXPECT_FALSE(shard.core().Counters().contains(JobId(7)));
}

TEST(ShardCoreJobs, AnAnswerReachesANodeThatCameBack) {
  const proto::JobRecord record = MakeRecord(OneWeight(7, {1, 1}, "sync {}"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId a = shard.Join(record, 0), b = shard.Join(record, 1);
  shard.Deliver(a, InitFrame(record, 0, 0, {0.0f}));
  const wire::Frame push = PushFrame(record, 0, 0, 0, {-2.0f}, 1);
  shard.Deliver(a, push);
  shard.Lose(a);
  // The answer is due while node 0 is away; its resend gets it.
  EXPECT_EQ(shard.Deliver(b, PushFrame(record, 1, 0, 0, {-2.0f}, 1)).size(), 1u);
  const ConnectionId again = shard.Join(record, 0);
  const wire::Frame answer = shard.DeliverForOne(again, push);
  EXPECT_EQ(answer.header.op, Op::kAnswer);
  EXPECT_EQ(ToFloats(answer)[0], 2.0f);
  // A connection that replaces one which has not ended yet.
  shard.Deliver(again, PushFrame(record, 0, 0, 1, {0.0f}, 1, 1));
  const ConnectionId newest = shard.Join(record, 0);
  const auto sent = shard.Deliver(b, PushFrame(record, 1, 0, 1, {0.0f}, 1, 1));
  EXPECT_EQ(ConnectionsOf(sent), (std::vector<ConnectionId>{again, newest, b}));
}

TEST(ShardCoreJobs, ACopyOfANodesHelloTakesNoAnswerAwayFromIt) {
  const proto::JobRecord record = MakeRecord(OneWeight(7, {1, 1}, "sync {}"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId a = shard.Join(record, 0), b = shard.Join(record, 1);
  shard.Deliver(a, InitFrame(record, 0, 0, {0.0f}));
  const wire::Frame first = PushFrame(record, 0, 0, 0, {-2.0f}, 1);
  shard.Deliver(a, first);
  shard.Deliver(b, PushFrame(record, 1, 0, 0, {-2.0f}, 1));
  // Strangers send again what they have captured; what is answered goes to them only.
  std::vector<ConnectionId> strangers;
  for (int i = 0; i < 10; ++i) {
    strangers.push_back(shard.Join(record, 0));
    const auto answered = shard.Deliver(strangers.back(), first);
    EXPECT_EQ(ConnectionsOf(answered), std::vector<ConnectionId>{strangers.back()});
  }
  shard.Deliver(a, PushFrame(record, 0, 0, 1, {0.0f}, 1, 1));
  for (int i = 0; i < 4; ++i) strangers.push_back(shard.Join(record, 0));
  const auto sent = shard.Deliver(b, PushFrame(record, 1, 0, 1, {0.0f}, 1, 1));
  ASSERT_EQ(sent.size(), 5u) << "the node, the newest three strangers and node 1";
  EXPECT_EQ(sent[0].connection, a);
  EXPECT_EQ(sent[4].connection, b);
  EXPECT_EQ(shard.core().Counters().at(JobId(7)).answers, 14u) << "4 of pushes, 10 again";
  // Those that end are forgotten.
  for (const ConnectionId stranger : strangers) shard.Lose(stranger);
  shard.Deliver(a, PushFrame(record, 0, 0, 2, {0.0f}, 1, 2));
  EXPECT_EQ(ConnectionsOf(shard.Deliver(b, PushFrame(record, 1, 0, 2, {0.0f}, 1, 2))),
            (std::vector<ConnectionId>{a, b}));
}

TEST(ShardCoreJobs, CopiesOfItsHelloDoNotKeepANodeFromTheCutThatItAsksFor) {
  const proto::JobRecord record = MakeRecord(OneWeight(7, {1}, "sync {}"));
  ShardHarness shard;
  ASSERT_TRUE(shard.core().Install(record, ShardId(0)).ok());
  const ConnectionId a = shard.Join(record, 0);
  shard.Deliver(a, InitFrame(record, 0, 0, {0.0f}));
  shard.Deliver(a, PushFrame(record, 0, 0, 0, {-2.0f}, 1));
  shard.Deliver(a, ControlFrame(record, Op::kRetire, 0, 0, 0));
  shard.Lose(a);
  const ConnectionId again = shard.Join(record, 0);
  for (int i = 0; i < 4; ++i) shard.Join(record, 0);
  const auto sent = shard.Deliver(again, ControlFrame(record, Op::kCut, 0, 0, 0));
  EXPECT_THAT(ConnectionsOf(sent), testing::Contains(again));
}

}  // namespace
}  // namespace strata::server
