#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/testing/shard_harness.h"

// The life of jobs on a shard: install, retire, cut, remove, several at once.

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

// The node gave up the first connection before its slow HELLO arrived.
TEST(ShardCoreJobConnections, AnswersGoWhereTheNodeSpeaksNotOnlyWhereItsLastHelloCameFrom) {
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
  // Node 1 leaves without a push: clock 0 completes with the other two.
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
  // A connection that replaces one that has not ended yet.
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
  // Strangers replay captured frames; the answers to these go only to them.
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
  // Connections that end are forgotten.
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

// A node's connections to a shard.

using wire::ErrorCode;

// Two nodes with three connections each; chunks 0, 3 take the first, 1, 4 the second, 2 the third.
class ShardCoreConnections : public testing::Test {
 protected:
  ShardCoreConnections() {
    JobOptions options;
    options.elements = 20;
    options.job_text += " connections: 3";
    record_ = MakeRecord(options);
    EXPECT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node = 0; node < 2; ++node) {
      for (uint32_t i = 0; i < 3; ++i) of_[node].push_back(shard_.Join(record_, node, 1, i));
    }
    for (uint32_t chunk = 0; chunk < 5; ++chunk) {
      const wire::Frame init = InitFrame(record_, 0, chunk, {1, 2, 3, 4});
      EXPECT_EQ(shard_.DeliverForOne(of_[0][chunk % 3], init).header.op, Op::kInitOk);
    }
  }

  wire::Frame Push(uint32_t node, uint32_t chunk, uint64_t clock = 0) {
    return PushFrame(record_, node, chunk, clock, {4, 4, 4, 4}, 4, clock);
  }
  bool IsConnected(uint32_t node) {
    return shard_.core().NextReports().at(JobId(7)).nodes.at(node).connected();
  }

  proto::JobRecord record_;
  ShardHarness shard_;
  std::vector<ConnectionId> of_[2];
};

TEST_F(ShardCoreConnections, AChunksAnswersGoOverItsConnectionAndNoOther) {
  for (uint32_t chunk = 0; chunk < 5; ++chunk) {
    EXPECT_TRUE(shard_.Deliver(of_[0][chunk % 3], Push(0, chunk)).empty());
    const std::vector<Sent> answers = shard_.Deliver(of_[1][chunk % 3], Push(1, chunk));
    ASSERT_EQ(answers.size(), 2u);
    for (uint32_t node = 0; node < 2; ++node) {
      EXPECT_EQ(answers[node].connection, of_[node][chunk % 3]) << "chunk " << chunk;
      EXPECT_EQ(answers[node].frame.header.chunk, chunk);
      EXPECT_EQ(ToFloats(answers[node].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
    }
  }
}

TEST_F(ShardCoreConnections, OneMoreThanTheJobHasIsRefusedByName) {
  const wire::Frame reply = shard_.DeliverForOne(shard_.Connect(), HelloFrame(record_, 0, 1, 3));
  EXPECT_EQ(reply.header.op, Op::kError);
  EXPECT_EQ(reply.header.error, ErrorCode::kWrongConnection);
  EXPECT_EQ(shard_.core().Counters().at(JobId(7)).refused, 1u);
  EXPECT_EQ(shard_.core().refusals().at("outside the job's connections"), 1u);
}

TEST_F(ShardCoreConnections, AChunkOnAnotherConnectionThanItsOwnIsRefusedAndLeavesNoTrace) {
  const wire::Frame reply = shard_.DeliverForOne(of_[0][1], Push(0, 0));
  EXPECT_EQ(reply.header.error, ErrorCode::kWrongConnection);
  EXPECT_TRUE(shard_.Deliver(of_[0][0], Push(0, 0)).empty());
  EXPECT_EQ(shard_.Deliver(of_[1][0], Push(1, 0)).size(), 2u);
}

TEST_F(ShardCoreConnections, AConnectionIsOneOfANodesAndStaysIt) {
  const wire::Frame reply = shard_.DeliverForOne(of_[0][1], HelloFrame(record_, 0, 1, 2));
  EXPECT_EQ(reply.header.error, ErrorCode::kNoHello);
}

TEST_F(ShardCoreConnections, WhileOneIsLostTheOthersGoOnAndTheNodeIsNotConnected) {
  EXPECT_TRUE(IsConnected(0));
  shard_.Lose(of_[0][1]);
  EXPECT_FALSE(IsConnected(0));
  EXPECT_TRUE(IsConnected(1));
  shard_.Deliver(of_[1][2], Push(1, 2));
  EXPECT_EQ(shard_.Deliver(of_[0][2], Push(0, 2)).size(), 2u);
  // Its earlier push is answered once it asks again.
  const ConnectionId again = shard_.Join(record_, 0, 1, 1);
  EXPECT_TRUE(IsConnected(0));
  shard_.Deliver(again, Push(0, 4));
  const std::vector<Sent> answers = shard_.Deliver(of_[1][1], Push(1, 4));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].connection, again);
}

TEST_F(ShardCoreConnections, ANewIncarnationOnOneFencesTheOldOneOnAll) {
  shard_.Join(record_, 0, 2, 0);
  EXPECT_EQ(shard_.DeliverForOne(of_[0][1], Push(0, 1)).header.error, ErrorCode::kFenced);
  EXPECT_FALSE(IsConnected(0)) << "its second and third are still to come";
}

// Frames that are refused: one test for each reason.

using wire::Frame;

class ShardCoreRefusal : public testing::Test {
 protected:
  ShardCoreRefusal() : record_(MakeRecord({})) {
    EXPECT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    a_ = shard_.Join(record_, 0);
    b_ = shard_.Join(record_, 1);
    Seed(0);
  }

  void Seed(uint32_t chunk) {
    EXPECT_EQ(shard_.DeliverForOne(a_, InitFrame(record_, 0, chunk, kWeights)).header.op,
              Op::kInitOk);
  }
  uint64_t Refused() { return shard_.core().Counters().at(JobId(record_.job_id())).refused; }

  // Expects that the frame is refused with `code` and counted, and that the error identifies the
  // frame to its sender.
  void ExpectRefused(ConnectionId connection, const Frame& frame, ErrorCode code) {
    const uint64_t before = Refused();
    const Frame reply = shard_.DeliverForOne(connection, frame);
    EXPECT_EQ(reply.header.op, Op::kError);
    EXPECT_EQ(reply.header.error, code) << wire::ToString(reply.header.error);
    EXPECT_EQ(reply.header.chunk, frame.header.chunk);
    EXPECT_EQ(reply.header.clock, frame.header.clock);
    EXPECT_EQ(reply.header.node, frame.header.node);
    EXPECT_EQ(Refused(), before + 1);
  }
  void ExpectRetry(ConnectionId connection, const Frame& frame) {
    const uint64_t before = Refused();
    const Frame reply = shard_.DeliverForOne(connection, frame);
    EXPECT_EQ(reply.header.op, Op::kRetry);
    EXPECT_EQ(reply.header.chunk, frame.header.chunk);
    EXPECT_EQ(reply.header.clock, frame.header.clock);
    EXPECT_EQ(Refused(), before);
  }
  // Refused frames have had no effect: an ordinary clock 0 still works.
  void ExpectClockZeroStillWorks() {
    EXPECT_TRUE(shard_.Deliver(a_, Push(0)).empty());
    const auto answers = shard_.Deliver(b_, Push(1));
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(ToFloats(answers[0].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
  }
  Frame Push(uint32_t node, uint64_t clock = 0) {
    return PushFrame(record_, node, 0, clock, {4, 4, 4, 4}, 4, clock);
  }

  const std::vector<float> kWeights = {1, 2, 3, 4};
  proto::JobRecord record_;
  ShardHarness shard_;
  ConnectionId a_, b_;
};

TEST_F(ShardCoreRefusal, DataBeforeHello) {
  const ConnectionId stranger = shard_.Connect();
  const Frame reply = shard_.DeliverForOne(stranger, Push(0));
  EXPECT_EQ(reply.header.error, ErrorCode::kNoHello);
  EXPECT_EQ(shard_.core().refused(), 1u);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, HelloOfAnUnknownJob) {
  Frame hello = HelloFrame(record_, 0);
  hello.header.job = 404;
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), hello).header.error, ErrorCode::kWrongJob);
  EXPECT_EQ(shard_.core().refused(), 1u);
}

TEST_F(ShardCoreRefusal, HelloWithAnotherTokenOrCluster) {
  proto::JobRecord other = record_;
  other.set_token(1);
  ExpectRefused(shard_.Connect(), HelloFrame(other, 0), ErrorCode::kWrongJob);
  other = record_;
  other.set_cluster(1);
  ExpectRefused(shard_.Connect(), HelloFrame(other, 0), ErrorCode::kWrongJob);
}

TEST_F(ShardCoreRefusal, HelloOfAnotherProtocolVersion) {
  wire::Hello hello;
  hello.protocol = kProtocolVersion + 1;
  hello.cluster = record_.cluster();
  hello.token = record_.token();
  const auto bytes = wire::EncodeHello(hello);
  Frame frame = HelloFrame(record_, 0);
  frame.payload = Bytes(nullptr, bytes.data(), bytes.size());
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), frame).header.error, ErrorCode::kWrongVersion);
  EXPECT_EQ(shard_.core().refused(), 1u);
}

TEST_F(ShardCoreRefusal, HelloThatIsNotOne) {
  std::array<std::byte, wire::kHelloBytes> bytes = {};
  Frame frame = HelloFrame(record_, 0);
  frame.payload = Bytes(nullptr, bytes.data(), bytes.size());
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), frame).header.error, ErrorCode::kMalformed);
}

TEST_F(ShardCoreRefusal, HelloOfANodeOutsideTheView) {
  ExpectRefused(shard_.Connect(), HelloFrame(record_, 2), ErrorCode::kWrongView);
}

TEST_F(ShardCoreRefusal, HelloOfASecondNodeOrJobOnOneConnection) {
  ExpectRefused(a_, HelloFrame(record_, 1), ErrorCode::kNoHello);
  JobOptions options;
  options.job = 8;
  const proto::JobRecord other = MakeRecord(options);
  ASSERT_TRUE(shard_.core().Install(other, ShardId(0)).ok());
  ExpectRefused(a_, HelloFrame(other, 0), ErrorCode::kWrongJob);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AnOlderIncarnationOnceANewerHasSaidHello) {
  const ConnectionId newer = shard_.Join(record_, 0, 2);
  ExpectRefused(a_, Push(0), ErrorCode::kFenced);
  ExpectRefused(shard_.Connect(), HelloFrame(record_, 0, 1), ErrorCode::kFenced);
  a_ = newer;
  Frame push = Push(0);
  push.header.incarnation = 2;
  EXPECT_TRUE(shard_.Deliver(newer, push).empty());
}

TEST_F(ShardCoreRefusal, FramesOfAnotherJobNodeOrIncarnationThanHello) {
  Frame frame = Push(0);
  frame.header.job = 8;
  ExpectRefused(a_, frame, ErrorCode::kWrongJob);
  ExpectRefused(a_, Push(1), ErrorCode::kNoHello);
  frame = Push(0);
  frame.header.incarnation = 9;
  ExpectRefused(a_, frame, ErrorCode::kNoHello);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AnOlderViewIsRefusedAndANewerOneOrAnotherGenerationRetried) {
  for (Frame frame : {Push(0), HelloFrame(record_, 0)}) {
    frame.header.view = 2;
    ExpectRefused(a_, frame, ErrorCode::kWrongView);
    frame.header.view = 4;
    ExpectRetry(a_, frame);
    frame.header.view = 3;
    frame.header.generation = 1;
    ExpectRetry(a_, frame);  // the node will learn where the shard is now
    frame.header.generation = 3;
    ExpectRetry(a_, frame);
  }
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, OpsThatOnlyServersSend) {
  for (Op op : {Op::kHelloOk, Op::kInitOk, Op::kAnswer, Op::kCutAnswer, Op::kRetireOk, Op::kRetry,
                Op::kPulled, Op::kError}) {
    ExpectRefused(a_, ControlFrame(record_, op, 0, 0, 0), ErrorCode::kWrongRole);
  }
}

TEST_F(ShardCoreRefusal, ChunksThatAreNotHereOrHaveAnotherSize) {
  ExpectRefused(a_, PushFrame(record_, 0, 2, 0, {1, 2, 3, 4}, 4), ErrorCode::kWrongChunk);
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {1, 2, 3}, 4), ErrorCode::kWrongChunk);
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {}, 4), ErrorCode::kWrongChunk);
  ExpectRefused(a_, InitFrame(record_, 0, 1, {1, 2, 3, 4, 5}), ErrorCode::kWrongChunk);
  ExpectRefused(a_, ControlFrame(record_, Op::kCut, 0, 2, 0), ErrorCode::kWrongChunk);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AChunkOfAnotherShard) {
  JobOptions options;
  options.job = 9;
  options.shards = 2;
  const proto::JobRecord record = MakeRecord(options);
  ASSERT_TRUE(shard_.core().Install(record, ShardId(1)).ok());
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), HelloFrame(record, 0)).header.error,
            ErrorCode::kWrongJob);
  const ConnectionId node = shard_.Join(record, 0, 1, 0, 1);
  EXPECT_EQ(shard_.DeliverForOne(node, InitFrame(record, 0, 0, kWeights)).header.error,
            ErrorCode::kWrongChunk);
  EXPECT_EQ(shard_.DeliverForOne(node, InitFrame(record, 0, 1, kWeights)).header.op, Op::kInitOk);
}

TEST_F(ShardCoreRefusal, PushesAndCutsBeforeInitAreRetried) {
  ExpectRetry(a_, PushFrame(record_, 0, 1, 0, {1, 2, 3, 4}, 4));
  ExpectRetry(a_, ControlFrame(record_, Op::kCut, 0, 1, 0));
  Seed(1);
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 1, 0, {1, 2, 3, 4}, 4)).empty());
}

TEST_F(ShardCoreRefusal, ASecondInitWithOtherWeights) {
  ExpectRefused(b_, InitFrame(record_, 1, 0, {1, 2, 3, 5}), ErrorCode::kConflict);
  EXPECT_EQ(shard_.DeliverForOne(b_, InitFrame(record_, 1, 0, kWeights)).header.op, Op::kInitOk);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AClockAheadOfTheNextOrASecondUnansweredPush) {
  ExpectRefused(a_, Push(0, 1), ErrorCode::kBeyondWindow);
  ExpectRefused(a_, Push(0, std::numeric_limits<uint64_t>::max()), ErrorCode::kBeyondWindow);
  EXPECT_TRUE(shard_.Deliver(a_, Push(0)).empty());
  ExpectRefused(a_, PushFrame(record_, 0, 0, 1, {4, 4, 4, 4}, 4), ErrorCode::kBeyondWindow);
  EXPECT_EQ(shard_.Deliver(b_, Push(1)).size(), 2u);
}

TEST_F(ShardCoreRefusal, ABaseVersionThatDoesNotExistYet) {
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 4}, 4, 1), ErrorCode::kBeyondWindow);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, ADuplicateWithAnotherContentOfTheSameProcess) {
  EXPECT_TRUE(shard_.Deliver(a_, Push(0)).empty());
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 5}, 4), ErrorCode::kConflict);
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 4}, 5), ErrorCode::kConflict);
  // The first value of a new process wins, because a replay need not repeat its bits.
  const ConnectionId newer = shard_.Join(record_, 0, 2);
  Frame replay = PushFrame(record_, 0, 0, 0, {4, 4, 4, 5}, 4);
  replay.header.incarnation = 2;
  EXPECT_TRUE(shard_.Deliver(newer, replay).empty());
  const auto answers = shard_.Deliver(b_, Push(1));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0].connection, newer);
  EXPECT_EQ(ToFloats(answers[0].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
}

TEST_F(ShardCoreRefusal, NanOrInfinityInAPushOrInFirstWeights) {
  const float kBad[] = {NAN, -NAN, INFINITY, -INFINITY};
  uint64_t clock = 0;
  for (float bad : kBad) {
    ExpectRefused(a_, InitFrame(record_, 0, 1, {bad, 0, 0, 0}), ErrorCode::kNotFinite);
    EXPECT_TRUE(shard_.Deliver(a_, Push(0, clock)).empty());
    ExpectRefused(b_, PushFrame(record_, 1, 0, clock, {4, 4, bad, 4}, 4, clock),
                  ErrorCode::kNotFinite);
    // The good one stays, the bad one may come again.
    const auto answers = shard_.Deliver(b_, Push(1, clock));
    ASSERT_EQ(answers.size(), 2u);
    EXPECT_EQ(ToFloats(answers[0].frame)[0], 1.0f - 0.5f * ++clock);
  }
}

// A push is checked when it is added: its own node gets the error, not the last one to come.
TEST_F(ShardCoreRefusal, NanInAPushThatWaitsForOthers) {
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 0, 0, {4, NAN, 4, 4}, 4)).empty());
  const uint64_t before = Refused();
  const auto errors = shard_.Deliver(b_, Push(1));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].connection, a_);
  EXPECT_EQ(errors[0].frame.header.op, Op::kError);
  EXPECT_EQ(errors[0].frame.header.error, ErrorCode::kNotFinite);
  EXPECT_EQ(errors[0].frame.header.node, 0u);
  EXPECT_EQ(Refused(), before + 1);
  const auto answers = shard_.Deliver(a_, Push(0));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[1].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
}

TEST_F(ShardCoreRefusal, NanInThePushesOfBothNodes) {
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 0, 0, {4, NAN, 4, 4}, 4)).empty());
  const auto errors = shard_.Deliver(b_, PushFrame(record_, 1, 0, 0, {4, 4, 4, INFINITY}, 4));
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[0].connection, b_);
  EXPECT_EQ(errors[1].connection, a_);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, NanBesideNodesThatHaveNoSamples) {
  EXPECT_TRUE(shard_.Deliver(a_, PushFrame(record_, 0, 0, 0, {4, NAN, 4, 4}, 4)).empty());
  const auto errors = shard_.Deliver(b_, EmptyFrame(record_, 1, 0, 0, 0));
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_EQ(errors[0].connection, a_);
  EXPECT_EQ(errors[0].frame.header.error, ErrorCode::kNotFinite);
  const auto answers = shard_.Deliver(a_, Push(0));
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(ToFloats(answers[0].frame), (std::vector<float>{0.5f, 1.5f, 2.5f, 3.5f}));
}

// If a push is applied or answered before others come, it is checked on arrival.
TEST_F(ShardCoreRefusal, NanWhereAPushIsAnsweredBeforeTheOthersCome) {
  uint32_t job = 20;
  for (const char* mode :
       {"consistency { lazy { staleness: 1 } }", "consistency { async {} }", "order: RING"}) {
    const proto::JobRecord record =
        MakeRecord({.job = job++, .job_text = absl::StrCat("optimizer { sgd {} } ", mode)});
    ASSERT_TRUE(shard_.core().Install(record, ShardId(0)).ok()) << mode;
    const ConnectionId node = shard_.Join(record, 0);
    shard_.Deliver(node, InitFrame(record, 0, 0, kWeights));
    const Frame reply =
        shard_.DeliverForOne(node, PushFrame(record, 0, 0, 0, {4, 4, -INFINITY, 4}, 4));
    EXPECT_EQ(reply.header.error, ErrorCode::kNotFinite) << mode;
  }
}

TEST_F(ShardCoreRefusal, TheErrorOfAPushNamesNodeChunkAndClock) {
  proto::JobRecord record = MakeRecord({.job = 12, .elements = 64, .chunk_elements = 64});
  ASSERT_TRUE(shard_.core().Install(record, ShardId(0)).ok());
  const ConnectionId other = shard_.Join(record, 0), node = shard_.Join(record, 1);
  shard_.Deliver(node, InitFrame(record, 1, 0, std::vector<float>(64)));
  shard_.Deliver(node, PushFrame(record, 1, 0, 0, std::vector<float>(64, NAN), 4));
  const auto sent = shard_.Deliver(other, PushFrame(record, 0, 0, 0, std::vector<float>(64), 4));
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].connection, node);
  const Frame& reply = sent[0].frame;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(reply.payload.data()), reply.payload.size()),
            "node 1 chunk 0 clock 0: NaN or infinity");
}

TEST_F(ShardCoreRefusal, ASumWithoutSamples) {
  ExpectRefused(a_, PushFrame(record_, 0, 0, 0, {4, 4, 4, 4}, 0), ErrorCode::kMalformed);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, AMalformedFrameIsAnsweredWithAHeaderOnlyAndCounted) {
  std::vector<ShardAction> actions;
  shard_.core().OnMalformed(a_, &actions);
  shard_.core().OnMalformed(shard_.Connect(), &actions);
  ASSERT_EQ(actions.size(), 2u);
  for (const ShardAction& action : actions) {
    EXPECT_EQ(action.frame.header.error, ErrorCode::kMalformed);
    EXPECT_TRUE(action.frame.payload.empty());
  }
  EXPECT_EQ(Refused(), 1u);
  EXPECT_EQ(shard_.core().refused(), 1u);
  ExpectClockZeroStillWorks();
}

TEST_F(ShardCoreRefusal, EachIsCountedByItsCauseAndOutlivesItsJob) {
  shard_.DeliverForOne(shard_.Connect(), Push(0));
  Frame hello = HelloFrame(record_, 0);
  hello.header.job = 404;
  shard_.DeliverForOne(shard_.Connect(), hello);
  proto::JobRecord other = record_;
  other.set_token(1);
  shard_.DeliverForOne(shard_.Connect(), HelloFrame(other, 0));
  shard_.DeliverForOne(a_, HelloFrame(record_, 1));
  shard_.DeliverForOne(a_, Push(1));
  Frame frame = Push(0);
  frame.header.job = 8;
  shard_.DeliverForOne(a_, frame);
  frame = Push(0);
  frame.header.chunk = 99;
  shard_.DeliverForOne(a_, frame);
  std::vector<ShardAction> actions;
  shard_.core().OnMalformed(a_, &actions);
  shard_.core().Remove(JobId(record_.job_id()), &actions);
  EXPECT_EQ(shard_.core().refusals(), (Refusals{{"another job than HELLO's", 1},
                                                {"another node than HELLO's", 2},
                                                {"before HELLO", 1},
                                                {"chunk outside the job", 1},
                                                {"malformed", 1},
                                                {"unknown job", 1},
                                                {"wrong token or cluster", 1}}));
}

TEST_F(ShardCoreRefusal, WhatComesLateForAShardThatHasLeftIsExpected) {
  std::vector<ShardAction> actions;
  EXPECT_FALSE(shard_.core().RemoveShard(JobId(record_.job_id()), ShardId(0),
                                         record_.placement().generation() + 1, &actions));
  EXPECT_EQ(shard_.DeliverForOne(a_, Push(0)).header.error, ErrorCode::kNoHello);
  // It does not know yet where the shard is now.
  EXPECT_EQ(shard_.DeliverForOne(shard_.Connect(), HelloFrame(record_, 0)).header.error,
            ErrorCode::kWrongJob);
  EXPECT_EQ(shard_.core().refusals(), (Refusals{{"frame of a shard that has left", 2}}));
  EXPECT_TRUE(IsExpected("frame of a shard that has left"));
  // A peer that does not know the job's token is a stranger, and so is a new connection.
  proto::JobRecord other = record_;
  other.set_token(1);
  shard_.DeliverForOne(shard_.Connect(), HelloFrame(other, 0));
  shard_.DeliverForOne(shard_.Connect(), Push(0));
  shard_.Lose(b_);
  EXPECT_EQ(
      shard_.core().refusals(),
      (Refusals{{"before HELLO", 1}, {"frame of a shard that has left", 2}, {"unknown job", 1}}));
  EXPECT_FALSE(IsExpected("before HELLO") || IsExpected("unknown job"));
}

// A shard's trace of a traced job, by a clock that advances by 1 us per reading.

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ShardTraceTest : public ::testing::Test {
 protected:
  void Begin(const std::string& mode, const std::string& more = "trace { first_step: 1 steps: 1 }",
             uint32_t job = 7) {
    JobOptions options;
    options.job = job;
    options.elements = options.chunk_elements = 4;
    options.job_text = "optimizer { sgd {} } schedule { base_lr: 1 } consistency { " + mode + " } ";
    options.job_text += more;
    record_ = MakeRecord(options);
    ASSERT_TRUE(shard_.core().Install(record_, ShardId(0)).ok());
    for (uint32_t node : {0, 1}) nodes_[node] = shard_.Join(record_, node);
    shard_.Deliver(nodes_[0], InitFrame(record_, 0, 0, {0, 0, 0, 0}));
  }
  void Push(uint32_t node, uint64_t clock) {
    shard_.Deliver(nodes_[node], PushFrame(record_, node, 0, clock, {1, 1, 1, 1}, 4));
  }

  // "PHASE node clock begin+duration"
  std::vector<std::string> Events() {
    std::vector<std::string> events;
    for (const proto::TraceBatch& batch : shard_.core().TakeTraces()) {
      EXPECT_EQ(batch.job_id(), record_.job_id());
      for (const proto::TraceEvent& event : batch.events()) {
        EXPECT_EQ(event.chunk(), 0u);
        events.push_back(absl::StrFormat("%s %d %d %d+%d",
                                         proto::TraceEvent::Phase_Name(event.phase()), event.node(),
                                         event.clock(), event.start_us(), event.duration_us()));
      }
    }
    return events;
  }

  int64_t now_us_ = 0;
  ShardHarness shard_{[this] { return absl::FromUnixMicros(++now_us_); }};
  proto::JobRecord record_;
  ConnectionId nodes_[2];
};

TEST_F(ShardTraceTest, InSyncAPushWaitsForTheLastOneWhichIsAppliedAndAnswersBoth) {
  Begin("sync {}");
  Push(0, 0);
  Push(1, 0);
  EXPECT_THAT(Events(), IsEmpty()) << "step 0 is not traced";
  now_us_ = 100;
  Push(1, 1);  // at 101
  now_us_ = 200;
  Push(0, 1);  // at 201
  EXPECT_THAT(Events(),
              ElementsAre("APPLY 0 1 201+1", "SERVER_WAIT 0 1 201+0", "SERVER_WAIT 1 1 101+100"));
  Push(0, 2);
  Push(1, 2);
  EXPECT_THAT(Events(), IsEmpty());
}

TEST_F(ShardTraceTest, InAsyncEachPushIsAppliedAndAnsweredAtOnce) {
  Begin("async {}");
  Push(0, 0);
  now_us_ = 100;
  Push(0, 1);
  EXPECT_THAT(Events(), ElementsAre("APPLY 0 1 101+1", "SERVER_WAIT 0 1 101+0"));
}

TEST_F(ShardTraceTest, InLazyANodeAheadIsAnsweredBeforeItsPushIsApplied) {
  Begin("lazy { staleness: 1 }", "trace { steps: 1 }");
  now_us_ = 100;
  Push(0, 0);
  EXPECT_THAT(Events(), ElementsAre("SERVER_WAIT 0 0 101+0"));
  now_us_ = 200;
  Push(1, 0);
  EXPECT_THAT(Events(), ElementsAre("APPLY 1 0 201+1", "SERVER_WAIT 1 0 201+0"));
}

TEST_F(ShardTraceTest, ARepetitionDoesNotMakeTheWaitBeginAnew) {
  Begin("sync {}", "trace { steps: 1 }");
  now_us_ = 100;
  Push(0, 0);
  now_us_ = 200;
  Push(0, 0);
  now_us_ = 300;
  Push(1, 0);
  EXPECT_THAT(Events(),
              ElementsAre("APPLY 1 0 301+1", "SERVER_WAIT 0 0 101+200", "SERVER_WAIT 1 0 301+0"));
}

TEST_F(ShardTraceTest, EncodedAnswersShowWhatEncodingTakes) {
  Begin("async {}", "pull { codec: FP16 } trace { steps: 1 }");
  now_us_ = 100;
  Push(1, 0);
  EXPECT_THAT(Events(),
              ElementsAre("APPLY 1 0 101+1", "SERVER_WAIT 1 0 101+0", "ENCODE 1 0 103+1"));
}

TEST_F(ShardTraceTest, AJobThatIsNotTracedLeavesTheClockAlone) {
  Begin("sync {}", "");
  Push(0, 0);
  Push(1, 0);
  EXPECT_EQ(shard_.core().TraceOf(JobId(7)), nullptr);
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_EQ(now_us_, 0);
}

TEST_F(ShardTraceTest, JobsBesideATracedOneAreNotTraced) {
  Begin("async {}", "", 8);
  const proto::JobRecord untraced = record_;
  const ConnectionId node = nodes_[0];
  Begin("async {}", "trace { steps: 5 }", 7);
  shard_.Deliver(node, PushFrame(untraced, 0, 0, 0, {1, 1, 1, 1}, 4));
  EXPECT_THAT(Events(), IsEmpty());
  EXPECT_EQ(shard_.core().TraceOf(JobId(8)), nullptr);
  EXPECT_NE(shard_.core().TraceOf(JobId(7)), nullptr);
  std::vector<ShardAction> actions;
  shard_.core().Remove(JobId(7), &actions);
  EXPECT_EQ(shard_.core().TraceOf(JobId(7)), nullptr);
}

}  // namespace

}  // namespace strata::server
