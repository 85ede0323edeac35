#include "server/coordinator/jobs/log_readings.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

LogReadings::Share ShareOf(int worker, std::vector<uint32_t> ranks) {
  LogReadings::Share share;
  share.worker = absl::StrCat("w", worker);
  share.where = absl::StrCat("worker w", worker, " (host", worker, ")");
  for (const uint32_t rank : ranks) share.begin.add_processes()->set_rank(rank);
  return share;
}
proto::LogPart PartOf(uint64_t reading, uint32_t rank, const std::string& lines,
                      bool ended = false) {
  proto::LogPart part;
  part.set_reading(reading);
  part.mutable_process()->set_rank(rank);
  part.set_lines(lines);
  part.set_ended(ended);
  return part;
}

TEST(LogReadings, EachWorkerIsAskedForItsProcessesAndTheLinesComeInTheirOrder) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  readings.OnOffered(2, "w2");
  const auto id = readings.Begin("ada", {ShareOf(1, {0, 1}), ShareOf(2, {2})});
  ASSERT_TRUE(id.ok());
  const auto asked = readings.Outgoing();
  ASSERT_EQ(asked.size(), 2);
  EXPECT_EQ(asked[0].stream, 1);
  EXPECT_EQ(asked[0].wanted.begin().processes_size(), 2);
  EXPECT_EQ(asked[0].wanted.begin().credit_bytes(), LogReadings::kBytesPerReadingMax / 2);
  EXPECT_EQ(asked[1].stream, 2);
  EXPECT_EQ(asked[1].wanted.begin().processes(0).rank(), 2);
  readings.OnPart(2, PartOf(*id, 2, "c\n", true));
  readings.OnPart(1, PartOf(*id, 0, "a\n", true));
  EXPECT_EQ(readings.Take(*id)->lines(), "c\n");
  EXPECT_EQ(readings.Take(*id)->lines(), "a\n");
  EXPECT_FALSE(readings.Take(*id).has_value());
  EXPECT_FALSE(readings.IsDone(*id)) << "rank 1 has not ended";
  readings.OnPart(1, PartOf(*id, 1, "b\n", true));
  EXPECT_FALSE(readings.IsDone(*id)) << "what it said was not taken";
  EXPECT_EQ(readings.Take(*id)->process().rank(), 1);
  EXPECT_TRUE(readings.IsDone(*id));
}

TEST(LogReadings, WhoTakesNothingHoldsNoMoreThanTheCreditAndTakingGivesItBack) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  const auto id = readings.Begin("ada", {ShareOf(1, {0})});
  ASSERT_TRUE(id.ok());
  uint32_t credit = readings.Outgoing()[0].wanted.begin().credit_bytes();
  EXPECT_EQ(credit, LogReadings::kBytesPerReadingMax);
  const std::string lines((32 << 10) - LogReadings::kPartBytes, 'x');
  for (; credit > 0; credit -= 32 << 10) readings.OnPart(1, PartOf(*id, 0, lines));
  EXPECT_TRUE(readings.Outgoing().empty()) << "credit for what nobody took";
  uint32_t given_back = 0;
  while (readings.Take(*id).has_value()) {
    for (const auto& sent : readings.Outgoing()) given_back += sent.wanted.more_credit_bytes();
  }
  EXPECT_EQ(given_back, LogReadings::kBytesPerReadingMax);
}

TEST(LogReadings, AWorkerThatSendsMoreThanItsCreditIsAskedNoMore) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  const auto id = readings.Begin("ada", {ShareOf(1, {0})});
  ASSERT_TRUE(id.ok());
  readings.Outgoing();
  readings.OnPart(1, PartOf(*id, 0, std::string(LogReadings::kBytesPerReadingMax, 'x')));
  EXPECT_TRUE(readings.Outgoing().at(0).wanted.has_end());
  EXPECT_EQ(readings.Take(*id)->error(),
            "rank 0's log is on worker w1 (host1), which sends what it was not asked for");
  EXPECT_TRUE(readings.IsDone(*id));
}

TEST(LogReadings, WhatWasNotAskedForIsNotShown) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  readings.OnOffered(2, "w2");
  const auto id = readings.Begin("ada", {ShareOf(1, {0})});
  ASSERT_TRUE(id.ok());
  readings.OnPart(2, PartOf(*id, 0, "not mine\n"));
  readings.OnPart(1, PartOf(*id + 1, 0, "of no reading\n"));
  EXPECT_FALSE(readings.Take(*id).has_value());
  readings.OnPart(1, PartOf(*id, 7, "another rank\n"));
  EXPECT_EQ(readings.Take(*id)->lines(), "");
}

TEST(LogReadings, AWorkerThatIsNotThereIsAnErrorOfEachOfItsProcesses) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  const auto id = readings.Begin("ada", {ShareOf(1, {0}), ShareOf(2, {3, 4})});
  ASSERT_TRUE(id.ok());
  EXPECT_EQ(readings.Take(*id)->error(),
            "rank 3's log is on worker w2 (host2), which is not there");
  EXPECT_EQ(readings.Take(*id)->process().rank(), 4);
  EXPECT_FALSE(readings.IsDone(*id)) << "w1 still reads";
}

TEST(LogReadings, AWorkerThatGoesEndsWhatItReadAfterTheLinesThatHaveCome) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  const auto id = readings.Begin("ada", {ShareOf(1, {0, 1})});
  ASSERT_TRUE(id.ok());
  readings.OnPart(1, PartOf(*id, 0, "a\n", true));
  readings.OnOffered(5, "w1");  // it registers again
  EXPECT_EQ(readings.Take(*id)->lines(), "a\n");
  EXPECT_EQ(readings.Take(*id)->error(), "rank 1's log is on worker w1 (host1), which is gone");
  EXPECT_TRUE(readings.IsDone(*id));
  readings.OnStreamGone(1);
  readings.Outgoing();
  ASSERT_TRUE(readings.Begin("ada", {ShareOf(1, {0})}).ok());
  EXPECT_EQ(readings.Outgoing().at(0).stream, 5) << "the end of its old stream took the new one";
}

TEST(LogReadings, WhatAllReadingsMayHaveUnderWayIsBounded) {
  LogReadings readings;
  std::vector<LogReadings::Share> many(4000, ShareOf(1, {0}));
  ASSERT_TRUE(readings.Begin("ada", many).ok());
  const auto first = readings.Begin("ada", many);
  ASSERT_TRUE(first.ok());
  const absl::Status refused = readings.Begin("ben", many).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_EQ(refused.message(),
            "logs: 256 MiB of them may be under way, which are; ask for fewer ranks, or later");
  EXPECT_TRUE(readings.Begin("ben", {ShareOf(1, {0})}).ok());
  readings.End(*first);
  EXPECT_TRUE(readings.Begin("ben", many).ok());
}

TEST(LogReadings, AnErrorEndsItsProcessAndIsCut) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  const auto id = readings.Begin("ada", {ShareOf(1, {0})});
  ASSERT_TRUE(id.ok());
  proto::LogPart part = PartOf(*id, 0, "");
  part.set_error(std::string(5000, 'e'));
  readings.OnPart(1, part);
  readings.OnPart(1, part);
  EXPECT_EQ(readings.Take(*id)->error(),
            "rank 0's log on worker w1 (host1): " + std::string(400, 'e'));
  EXPECT_TRUE(readings.IsDone(*id));
}

TEST(LogReadings, WorkersThatStillReadHearThatTheJobOrTheReadingHasEnded) {
  LogReadings readings;
  readings.OnOffered(1, "w1");
  readings.OnOffered(2, "w2");
  const auto id = readings.Begin("ada", {ShareOf(1, {0}), ShareOf(2, {1})});
  ASSERT_TRUE(id.ok());
  readings.OnPart(1, PartOf(*id, 0, "", true));
  readings.Outgoing();
  readings.OnJobEnded(*id);
  readings.End(*id);
  const auto sent = readings.Outgoing();
  ASSERT_EQ(sent.size(), 2);
  EXPECT_EQ(sent[0].stream, 2);
  EXPECT_TRUE(sent[0].wanted.has_job_ended());
  EXPECT_TRUE(sent[1].wanted.has_end());
  EXPECT_EQ(sent[1].wanted.reading(), *id);
}

TEST(LogReadings, AUserAndAllOfThemLookAtSoManyAtOnce) {
  LogReadings readings;
  std::vector<uint64_t> open;
  for (size_t i = 0; i < LogReadings::kReadingsPerUserMax; ++i) {
    open.push_back(*readings.Begin("ada", {}));
  }
  EXPECT_EQ(readings.Begin("ada", {}).status(),
            absl::ResourceExhaustedError(
                "logs: this user looks at 64 already, which is all that they may"));
  readings.End(open[0]);
  EXPECT_TRUE(readings.Begin("ada", {}).ok());
  for (size_t i = open.size(); i < LogReadings::kReadingsMax; ++i) {
    ASSERT_TRUE(readings.Begin(absl::StrCat("user", i), {}).ok());
  }
  EXPECT_EQ(readings.Begin("bob", {}).status(),
            absl::ResourceExhaustedError("logs: 1024 are being looked at, which is all that may"));
}

TEST(LogReadings, AWorkerThatCannotShowLogsIsSaidToBeOneUnlessItOffers) {
  LogReadings readings;
  LogReadings::Share share = ShareOf(1, {0});
  share.cannot = "worker w1 is of version 0.0 and offers no logs now";
  const auto id = readings.Begin("ada", {share});
  ASSERT_TRUE(id.ok());
  EXPECT_TRUE(readings.HasNews(*id));
  EXPECT_EQ(readings.Take(*id)->error(), "rank 0: " + share.cannot);
  EXPECT_TRUE(readings.IsDone(*id));
  readings.OnOffered(1, "w1");
  const auto again = readings.Begin("ada", {share});
  ASSERT_TRUE(again.ok());
  EXPECT_FALSE(readings.HasNews(*again));
  EXPECT_EQ(readings.Outgoing().size(), 1);
}

// Two nodes of two ranks each, on w1 and w2.
LogScene Scene() {
  LogScene scene;
  scene.job.set_job_id(7);
  scene.job.set_run_dir("/runs/a-7");
  for (uint32_t node = 0; node < 2; ++node) {
    proto::JobNodeStatus* status = scene.job.add_nodes();
    status->set_node(node);
    status->set_daemon(node == 0 ? "w1" : "w2");
    status->set_first_rank(2 * node);
    status->set_ranks(2);
    proto::DaemonStatus* daemon = scene.daemons.add_daemons();
    daemon->set_role(proto::WORKER);
    daemon->set_name(status->daemon());
    daemon->set_address("host");
    daemon->set_alive(true);
    daemon->set_version(STRATA_VERSION);
  }
  return scene;
}

std::string Text(const LogScene& scene, const proto::ReadLogs& wanted) {
  const auto shares = SharesOf(scene, wanted);
  if (!shares.ok()) return std::string(shares.status().message());
  std::string text;
  for (const LogReadings::Share& share : *shares) {
    text += share.worker + ":";
    for (const proto::LogProcess& process : share.begin.processes()) text += TextOf(process) + ",";
  }
  return text;
}

TEST(LogShares, AllRanksAreWantedWhereNoneIsNamed) {
  EXPECT_EQ(Text(Scene(), {}), "w1:rank 0,rank 1,w2:rank 2,rank 3,");
}

TEST(LogShares, RanksNodesAndAggregatorsAreWhereTheyRun) {
  proto::ReadLogs wanted;
  wanted.add_ranks(3);
  EXPECT_EQ(Text(Scene(), wanted), "w2:rank 3,");
  wanted.add_nodes(0);
  EXPECT_EQ(Text(Scene(), wanted), "w1:rank 0,rank 1,w2:rank 3,");
  proto::ReadLogs aggregators;
  aggregators.set_aggregators(true);
  EXPECT_EQ(Text(Scene(), aggregators), "w1:aggregator of node 0,w2:aggregator of node 1,");
  aggregators.add_nodes(1);
  EXPECT_EQ(Text(Scene(), aggregators), "w2:aggregator of node 1,");
}

TEST(LogShares, WhatTheJobDoesNotHaveIsNamed) {
  proto::ReadLogs wanted;
  wanted.add_ranks(4);
  EXPECT_EQ(Text(Scene(), wanted), "job 7 has no rank 4");
  wanted.clear_ranks();
  wanted.add_nodes(2);
  EXPECT_EQ(Text(Scene(), wanted), "job 7 has no node 2");
  wanted.add_ranks(0);
  wanted.set_aggregators(true);
  EXPECT_EQ(Text(Scene(), wanted), "ranks and aggregators: ask for one of the two");
}

TEST(LogShares, AJobThatHasNotBegunHasNoLogs) {
  LogScene scene = Scene();
  scene.job.clear_nodes();
  EXPECT_EQ(Text(scene, {}), "job 7 has not begun, and has no logs yet");
}

TEST(LogShares, AJobThatWaitsToGoOnIsNotCalledNew) {
  LogScene scene = Scene();
  scene.job.clear_nodes();
  scene.job.add_restarts();
  EXPECT_EQ(Text(scene, {}),
            "job 7 waits to go on: until then its logs are only on the hosts where it ran");
}

TEST(LogShares, ANodeThatIsNowhereIsAnErrorAndTheOthersAreShown) {
  LogScene scene = Scene();
  scene.job.mutable_nodes(1)->clear_daemon();
  const auto shares = SharesOf(scene, {});
  ASSERT_TRUE(shares.ok());
  ASSERT_EQ(shares->size(), 2u);
  EXPECT_EQ((*shares)[0].worker, "");
  EXPECT_EQ((*shares)[0].cannot, "its node is on no worker at present");
  EXPECT_EQ((*shares)[0].begin.processes_size(), 2);
  EXPECT_EQ((*shares)[1].worker, "w1");
  EXPECT_EQ((*shares)[1].cannot, "");
}

TEST(LogShares, AWorkerOfAnotherVersionIsSaidToBeOne) {
  LogScene scene = Scene();
  scene.daemons.mutable_daemons(1)->clear_version();
  const auto shares = SharesOf(scene, {});
  ASSERT_TRUE(shares.ok());
  EXPECT_EQ((*shares)[0].cannot, "");
  EXPECT_EQ((*shares)[0].where, "worker w1 (host)");
  EXPECT_EQ((*shares)[1].cannot,
            "worker w2 is of version before " STRATA_VERSION " and offers no logs now");
}

// Nodes of two ranks each.
proto::JobStatus On(const std::vector<std::string>& workers) {
  proto::JobStatus job;
  for (const std::string& worker : workers) {
    proto::JobNodeStatus* node = job.add_nodes();
    node->set_node(static_cast<uint32_t>(job.nodes_size()) - 1);
    node->set_first_rank(2 * node->node());
    node->set_ranks(2);
    node->set_daemon(worker);
  }
  return job;
}

TEST(LogPlaces, ANodeThatGoesOnElsewhereIsSaidOnce) {
  LogPlaces places(On({"w0", "w1"}), {});
  EXPECT_THAT(places.News(On({"w0", "w1"})), IsEmpty());
  EXPECT_THAT(places.News(On({"w0", ""})), IsEmpty()) << "it waits";
  EXPECT_THAT(places.News(On({"w0", "w1"})), IsEmpty()) << "and goes on where it was";
  EXPECT_THAT(places.News(On({"w0", "w5"})),
              ElementsAre("node 1 is now on worker w5, whose logs are not followed here: ask again "
                          "for them"));
  EXPECT_THAT(places.News(On({"w0", "w5"})), IsEmpty());
}

TEST(LogPlaces, ANodeThatJoinsIsSaidToWhoFollowsAll) {
  LogPlaces all(On({"w0"}), {});
  EXPECT_THAT(all.News(On({"w0", "w1"})), ElementsAre("node 1 is now on worker w1, whose logs "
                                                      "are not followed here: ask again for them"));
  proto::ReadLogs wanted;
  wanted.add_nodes(0);
  EXPECT_THAT(LogPlaces(On({"w0"}), wanted).News(On({"w0", "w1"})), IsEmpty());
}

TEST(LogPlaces, OfNodesThatNobodyAskedForNothingIsSaid) {
  proto::ReadLogs wanted;
  wanted.add_ranks(3);
  LogPlaces places(On({"w0", "w1"}), wanted);
  EXPECT_THAT(places.News(On({"w7", "w1"})), IsEmpty());
  EXPECT_EQ(places.News(On({"w7", "w8"})).size(), 1u);
}

}  // namespace

}  // namespace strata::server
