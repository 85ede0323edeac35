#include "cli/cluster/launch_plan.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using testing::ElementsAre;

std::vector<Host> ListHosts(const std::string& text) {
  auto hosts = ParseHosts(text, "hosts");
  EXPECT_TRUE(hosts.ok()) << hosts.status();
  return hosts.ok() ? *hosts : std::vector<Host>();
}

// "HOST: ARGS" of each daemon.
std::vector<std::string> Plan(const std::string& hosts, LaunchOptions options) {
  options.runs_dir = "runs";
  auto plan = PlanLaunch(ListHosts(hosts), options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> lines;
  if (!plan.ok()) return lines;
  for (const PlannedDaemon& daemon : plan->daemons) {
    lines.push_back(absl::StrCat(daemon.spec.host, ": ", absl::StrJoin(daemon.spec.args, " ")));
  }
  return lines;
}

std::string ErrorOf(const std::string& hosts, const LaunchOptions& options = {}) {
  auto plan = PlanLaunch(ListHosts(hosts), options);
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

TEST(LaunchPlan, WithoutRolesTheFirstHostHasCoordinatorAndServerAndAllAreWorkers) {
  EXPECT_THAT(Plan("n1\nme@n2 slots=4\n", {}),
              ElementsAre("n1: coordinator --listen 0.0.0.0:0 --state runs/state",
                          "n1: server --name s0 --listen 0.0.0.0 --advertise n1 --shards 1",
                          "n1: worker --name n1 --advertise n1 --runs runs",
                          "n2: worker --name n2 --advertise n2 --runs runs --slots 4"));
}

TEST(LaunchPlan, RolesSayWhoRunsWhatAndANumericAddressIsTheOnlyOneListenedOn) {
  EXPECT_THAT(Plan("n1\n"
                   "head role=coordinator address=10.0.0.1\n"
                   "s role=server address=10.0.0.2\n",
                   {.slots = 2, .port = 7070}),
              ElementsAre("head: coordinator --listen 10.0.0.1:7070 --state runs/state",
                          "s: server --name s0 --listen 10.0.0.2 --advertise 10.0.0.2 --shards 1",
                          "n1: worker --name n1 --advertise n1 --runs runs --slots 2"));
}

TEST(LaunchPlan, ServersGoToTheirHostsInTurnWithPortsThatDoNotMeet) {
  EXPECT_THAT(
      Plan("n1\na role=server\nb role=server,worker\n",
           {.servers = 3, .shards = 2, .coordinator_host = "b", .server_port = 7100}),
      ElementsAre("b: coordinator --listen 0.0.0.0:0 --state runs/state",
                  "a: server --name s0 --listen 0.0.0.0 --advertise a --shards 2 --port 7100",
                  "b: server --name s1 --listen 0.0.0.0 --advertise b --shards 2 --port 7100",
                  "a: server --name s2 --listen 0.0.0.0 --advertise a --shards 2 --port 7102",
                  "n1: worker --name n1 --advertise n1 --runs runs",
                  "b: worker --name b --advertise b --runs runs"));
  EXPECT_EQ(Plan("n1\na role=server\nb role=server\n", {}).size(), 4u) << "a server on each";
  EXPECT_EQ(Plan("n1\n", {.servers = 0}).size(), 2u);
}

TEST(LaunchPlan, AWorkerThatStandsInMayLieBesideAnother) {
  auto plan = PlanLaunch(ListHosts("a role=worker,stand-in slots=2\nb role=server\n"
                                   "c role=stand-in\n"),
                         {.runs_dir = "runs"});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->workers, 1);
  EXPECT_THAT(Plan("a role=worker,stand-in slots=2\nb role=server\nc role=stand-in\n", {}),
              ElementsAre("a: coordinator --listen 0.0.0.0:0 --state runs/state",
                          "b: server --name s0 --listen 0.0.0.0 --advertise b --shards 1",
                          "a: worker --name a --advertise a --runs runs --slots 2",
                          "a: worker --name a-stand-in --advertise a --runs runs --slots 2 "
                          "--stand-in",
                          "c: worker --name c-stand-in --advertise c --runs runs --stand-in"));
  EXPECT_EQ(ErrorOf("a role=stand-in\n"), "no host in the hosts file has role=worker");
}

TEST(LaunchPlan, WorkersAreToldOfTheirGpus) {
  LaunchOptions options;
  options.servers = 0;
  options.gpus = {.plugin = "p.so", .gpus = "0,1", .ranks_per_gpu = 2};
  EXPECT_THAT(
      Plan("a role=worker gpus=none\nb role=worker ranks-per-gpu=4\nc role=coordinator\n", options),
      ElementsAre("c: coordinator --listen 0.0.0.0:0 --state runs/state",
                  "a: worker --name a --advertise a --runs runs --device-plugin p.so --gpus "
                  "none --ranks-per-gpu 2",
                  "b: worker --name b --advertise b --runs runs --device-plugin p.so --gpus "
                  "0,1 --ranks-per-gpu 4"));
}

TEST(LaunchPlan, AHostWithBothRolesRunsBothDaemonsAndBothAreToldItsLinksRate) {
  EXPECT_THAT(
      Plan("a role=server,worker link-rate=2.5\nb role=server,worker\n", {}),
      ElementsAre("a: coordinator --listen 0.0.0.0:0 --state runs/state",
                  "a: server --name s0 --listen 0.0.0.0 --advertise a --shards 1 --link-rate 2.5",
                  "b: server --name s1 --listen 0.0.0.0 --advertise b --shards 1",
                  "a: worker --name a --advertise a --runs runs --link-rate 2.5",
                  "b: worker --name b --advertise b --runs runs"));
}

TEST(LaunchPlan, WhatCannotBeIsNamed) {
  EXPECT_EQ(ErrorOf("a role=coordinator\nb role=coordinator\nc"),
            "hosts a and b both have role=coordinator");
  EXPECT_EQ(ErrorOf("a role=coordinator\nb role=server"),
            "no host in the hosts file has role=worker");
  EXPECT_EQ(ErrorOf("a", {.coordinator_host = "b"}),
            "--coordinator-host b: is not in the hosts file");
  EXPECT_EQ(ErrorOf("a", {.servers = 2, .shards = 2, .server_port = 65534}),
            "--server-port 65534: the servers on host a need ports past 65535");
}

}  // namespace
}  // namespace strata::cli
