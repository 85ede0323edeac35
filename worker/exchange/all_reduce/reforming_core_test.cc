#include "worker/exchange/all_reduce/reforming_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/str_cat.h"
#include "worker/exchange/testing/reforming_nodes.h"

namespace strata::worker {
namespace {

using testing::HasSubstr;
using Phase = Exchange::Phase;

using Nodes = ReformingNodes;

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
