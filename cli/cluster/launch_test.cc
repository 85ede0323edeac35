#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster/cluster_keys.h"
#include "cli/cluster/host_message.h"
#include "cli/cluster/hosts_file.h"
#include "cli/cluster/launch_plan.h"
#include "cli/options/coordinator_address.h"
#include "common/os/unix_socket.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

std::string ErrorOf(const std::string& text) {
  auto hosts = ParseHosts(text, "hosts");
  EXPECT_EQ(hosts.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(hosts.status().message());
}

TEST(HostsFile, ALineIsAHostWithItsFields) {
  auto hosts = ParseHosts(
      "# the cluster\n"
      "\n"
      "head role=coordinator,server address=10.0.0.1  # two cards\r\n"
      "\tme@node-1.lan slots=8 role=worker link-rate=2.5 gpus=0,1 ranks-per-gpu=2\n"
      "node2",
      "hosts");
  ASSERT_TRUE(hosts.ok()) << hosts.status();
  ASSERT_EQ(hosts->size(), 3u);
  const Host& head = (*hosts)[0];
  EXPECT_EQ(head.destination, "head");
  EXPECT_EQ(head.address, "10.0.0.1");
  EXPECT_TRUE(head.has_role && head.coordinator && head.server && !head.worker);
  EXPECT_EQ(head.slots, 0u);
  const Host& node1 = (*hosts)[1];
  EXPECT_EQ(node1.destination, "me@node-1.lan");
  EXPECT_EQ(node1.name, "node-1.lan");
  EXPECT_EQ(node1.address, "node-1.lan");
  EXPECT_EQ(node1.slots, 8u);
  EXPECT_EQ(node1.link_gbit_per_s, 2.5);
  EXPECT_EQ(node1.gpus, "0,1");
  EXPECT_EQ(node1.ranks_per_gpu, 2u);
  EXPECT_EQ(head.gpus, "");
  EXPECT_EQ(head.link_gbit_per_s, 0);
  EXPECT_TRUE(node1.worker && !node1.server);
  EXPECT_FALSE((*hosts)[2].has_role);
}

TEST(HostsFile, WhatIsWrongIsNamedWithItsLine) {
  EXPECT_EQ(ErrorOf("a\nb slots=many\n"),
            "hosts:2: slots \"many\": must be a number from 1 to 1024");
  EXPECT_EQ(ErrorOf("a slots=0"), "hosts:1: slots \"0\": must be a number from 1 to 1024");
  EXPECT_EQ(ErrorOf("a role=server,boss"),
            "hosts:1: role \"boss\": must be coordinator, server, worker or stand-in");
  EXPECT_EQ(ErrorOf("a port=1"),
            "hosts:1: unknown field \"port\" (slots, role, address, link-rate, gpus and "
            "ranks-per-gpu are known)");
  EXPECT_EQ(ErrorOf("a gpus=two"),
            "hosts:1: gpus \"two\": must be none, or ascending indices of devices such as 0,1");
  EXPECT_EQ(ErrorOf("a ranks-per-gpu=0"),
            "hosts:1: ranks-per-gpu \"0\": must be a number from 1 to 1024");
  EXPECT_EQ(ErrorOf("a link-rate=0"), "hosts:1: link-rate \"0\": must be a number of Gbit/s");
  EXPECT_EQ(ErrorOf("a link-rate=nan"), "hosts:1: link-rate \"nan\": must be a number of Gbit/s");
  EXPECT_EQ(ErrorOf("a link-rate=10G"), "hosts:1: link-rate \"10G\": must be a number of Gbit/s");
  EXPECT_EQ(ErrorOf("a b"), "hosts:1: \"b\": expected field=value (one host a line)");
  EXPECT_EQ(ErrorOf("a\n\nb\na slots=2\n"), "hosts:4: host a stands in line 1 already");
  EXPECT_EQ(ErrorOf("a\nme@a\n"), "hosts:2: host a stands in line 1 already");
  EXPECT_EQ(ErrorOf("a address=::1"),
            "hosts:1: address \"::1\": must be a host name or an IPv4 address");
  EXPECT_EQ(ErrorOf("# nobody\n\n"), "hosts: no host in it");
}

TEST(HostsFile, AHostCannotBeAnOptionOrACommandForSsh) {
  for (const char* text : {"-oProxyCommand=reboot", "a;b", "x@-y", "@a", "-l@a", "$(b)", "a@b@c"}) {
    EXPECT_EQ(ErrorOf(text),
              "hosts:1: \"" + std::string(text) + "\": must be a host name or USER@HOST");
  }
}

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

std::string LaunchPlanErrorOf(const std::string& hosts, const LaunchOptions& options = {}) {
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
  EXPECT_EQ(LaunchPlanErrorOf("a role=stand-in\n"), "no host in the hosts file has role=worker");
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
  EXPECT_EQ(LaunchPlanErrorOf("a role=coordinator\nb role=coordinator\nc"),
            "hosts a and b both have role=coordinator");
  EXPECT_EQ(LaunchPlanErrorOf("a role=coordinator\nb role=server"),
            "no host in the hosts file has role=worker");
  EXPECT_EQ(LaunchPlanErrorOf("a", {.coordinator_host = "b"}),
            "--coordinator-host b: is not in the hosts file");
  EXPECT_EQ(LaunchPlanErrorOf("a", {.servers = 2, .shards = 2, .server_port = 65534}),
            "--server-port 65534: the servers on host a need ports past 65535");
}

TEST(HostMessage, ComesBackAsItWas) {
  HostMessage message;
  message.kind = HostMessage::Kind::kStart;
  message.title = "worker \"n1\"";
  message.args = {"worker", "", "two words\n"};
  message.text = "a\tb";
  message.signal = SIGTERM;
  const std::string line = EncodeHostMessage(message);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  auto decoded = DecodeHostMessage(line);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->kind, message.kind);
  EXPECT_EQ(decoded->title, message.title);
  EXPECT_EQ(decoded->args, message.args);
  EXPECT_EQ(decoded->text, message.text);
  EXPECT_EQ(decoded->signal, SIGTERM);
}

TEST(HostMessage, TextThatIsNotUtf8IsSentWithReplacements) {
  HostMessage message;
  message.kind = HostMessage::Kind::kEnded;
  message.text = "bad \xff byte";
  auto decoded = DecodeHostMessage(EncodeHostMessage(message));
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->text, "bad \xEF\xBF\xBD byte");
}

TEST(HostMessage, WhatIsNoMessageIsNone) {
  for (const char* line :
       {"", "Welcome to n1", "{}", "[1]", "{\"kind\":1}", "{\"kind\":\"reboot\"}",
        "{\"kind\":\"start\",\"args\":[1]}", "{\"kind\":\"up\""}) {
    EXPECT_EQ(DecodeHostMessage(line), std::nullopt) << line;
  }
}

TEST(LentKeys, FilesThatNoLivingCommandHoldsAreRemovedWhoeverWroteThem) {
  namespace fs = std::filesystem;
  ASSERT_TRUE(MakeCoordinatorFolder().ok());
  const fs::path folder = fs::path(*UnixPath(OwnCoordinator())).parent_path();
  // Numbers of processes that nobody here has, as of another container.
  const std::string left = folder / "99999999-left.pem", held = folder / "99999998-held.pem",
                    young = folder / "99999997-young.pem";
  for (const std::string& path : {left, held, young}) std::ofstream(path) << "keys";
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const std::string& path : {left, held}) fs::last_write_time(path, old);
  const UniqueFd lock(open(held.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX), 0);
  const auto authority = RunAuthority();
  ASSERT_TRUE(authority.ok());
  std::string own;
  {
    LentKeys keys;
    ASSERT_TRUE(keys.Write(*KeysForRun(*authority, keys::Role::kUser, "me")).ok());
    own = keys.path();
    EXPECT_TRUE(fs::exists(own));
    EXPECT_FALSE(fs::exists(left));
    EXPECT_TRUE(fs::exists(held));
    EXPECT_TRUE(fs::exists(young)) << "its command may be about to lock it";
    const UniqueFd other(open(own.c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_NE(flock(other.get(), LOCK_EX | LOCK_NB), 0) << "others leave it there";
  }
  EXPECT_FALSE(fs::exists(own));
  for (const std::string& path : {held, young}) fs::remove(path);
}

}  // namespace

}  // namespace strata::cli
