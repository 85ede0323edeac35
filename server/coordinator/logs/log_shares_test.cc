#include "server/coordinator/logs/log_shares.h"

#include <string>

#include "common/version.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

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

}  // namespace
}  // namespace strata::server
