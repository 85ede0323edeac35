// Limits on real daemons: too few descriptors end the start, excess requests are refused by name
// and counted, and running work continues unharmed.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/os/descriptors.h"
#include "common/os/process.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/cluster.h"
#include "tests/e2e/testing/jobs.h"

namespace strata::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Ended {
  int code = -1;
  std::string text;
};

// Runs `strata ARGS` to its end, from a shell that has first run a command.
Ended RunAfter(const std::string& shell, std::vector<std::string> args) {
  const std::string log = absl::StrCat(TestDir(), "/", args[0], ".log");
  args.insert(args.begin(), {"sh", "-c", shell + "; exec \"$0\" \"$@\"", StrataBinary()});
  auto process = Process::Start({.args = args, .executable = "/bin/sh", .log_path = log});
  EXPECT_TRUE(process.ok()) << process.status();
  if (!process.ok()) return {};
  EXPECT_TRUE(WaitUntil([&] { return (*process)->TryReap().has_value(); }));
  Ended ended;
  ended.code = (*process)->TryReap().value_or(ExitStatus{-1, 0}).code;
  std::stringstream text;
  text << std::ifstream(log).rdbuf();
  ended.text = text.str();
  return ended;
}

Ended RunWithDescriptors(int limit, std::vector<std::string> args) {
  return RunAfter(absl::StrCat("ulimit -n ", limit), std::move(args));
}

// Returns the named resource of a daemon (or of all) in `strata status --json`.
json ResourceIn(const json& resources, const std::string& name) {
  for (const json& resource : resources) {
    if (resource["name"] == name) return resource;
  }
  return json();
}

json StatusOf(const Cluster& cluster) {
  const CommandResult result = RunStrata({"status", "--json", "--coordinator", cluster.address()});
  EXPECT_TRUE(result.status.ok()) << result.err;
  return json::parse(result.out, nullptr, false);
}

// Returns how often a daemon has refused something for a cause.
uint64_t Refusals(Cluster& cluster, const std::string& daemon, const std::string& cause) {
  auto nodes = cluster.client().ListNodes();
  if (!nodes.ok()) return 0;
  std::vector<proto::DaemonStatus> daemons(nodes->daemons().begin(), nodes->daemons().end());
  daemons.push_back(nodes->coordinator());
  for (const proto::DaemonStatus& one : daemons) {
    for (const proto::Refusal& refusal : one.refusals()) {
      if (one.name() == daemon && refusal.cause() == cause) return refusal.count();
    }
  }
  return 0;
}

UniqueFd TcpTo(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const timeval patience = {20, 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  return fd;
}

// Returns true if the other side closes the connection, at most after 20 s without a byte.
bool IsEnded(const UniqueFd& fd) {
  char bytes[256];
  ssize_t got = 1;
  while (got > 0) got = recv(fd.get(), bytes, sizeof bytes, 0);
  return got == 0 || errno == ECONNRESET;
}

TEST(Limits, ADaemonWithTooFewDescriptorsSaysHowManyItNeedsAndDoesNotStart) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> daemons = {
      {{"coordinator", "--listen", "127.0.0.1:0", "--state", TestDir() + "/state"},
       "strata: error: strata coordinator needs up to 1344 file descriptors (64 + 1024 sessions + "
       "256 calls), and may open 64: raise the limit with `ulimit -n 1344`, or lower what it has "
       "to serve\n"},
      {{"server", "--listen", "127.0.0.1", "--shards", "2"},
       "strata: error: strata server needs up to 2388 file descriptors (68 + 2 shards x (136 + "
       "1024 connections)), and may open 64: raise the limit with `ulimit -n 2388`, or lower what "
       "it "
       "has to serve\n"},
      {{"worker", "--slots", "2", "--runs", TestDir() + "/runs"},
       "strata: error: strata worker needs up to 1350 file descriptors (an aggregator's 68 + 2 "
       "ranks + 256 shards x 5), and may open 64: raise the limit with `ulimit -n 1350`, or lower "
       "what it has to serve\n"}};
  for (const auto& [args, line] : daemons) {
    const Ended ended = RunWithDescriptors(64, args);
    EXPECT_EQ(ended.code, 1) << args[0];
    EXPECT_EQ(ended.text, line);
  }
}

TEST(Limits, ACommandInAFolderThatIsGoneSaysSo) {
  const Ended ended = RunAfter("folder=$(mktemp -d); cd \"$folder\"; rmdir \"$folder\"",
                               {"run", "-n", "1", "/bin/true"});
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.text,
            "strata: error: the working folder is not there any more: No such file or directory\n");
}

TEST(Limits, AClusterOnOneMachineDoesWithTheDescriptorsThatItsOwnSizeTakes) {
  const std::string job = WriteJob(TestDir(), LenetJob("job", 4, 2, 10));
  const auto local = [&job](int limit) {
    return RunWithDescriptors(
        limit, {"local", "--servers", "1", "--shards", "1", "--nodes", "2", "--slots", "2",
                "--runs", TestDir() + "/runs-" + std::to_string(limit), "--job", job});
  };
  const Ended ended = local(300);
  EXPECT_EQ(ended.code, 0) << ended.text;
  EXPECT_THAT(ended.text, HasSubstr("finished"));
  const Ended few = local(200);
  EXPECT_EQ(few.code, 1);
  EXPECT_THAT(
      few.text,
      testing::EndsWith(
          "strata: error: the cluster's servers need up to 236 file descriptors (68 + 1 shard x "
          "(136 + 32 connections)), and may open 200: raise the limit with `ulimit -n 236`, or "
          "take fewer --nodes, --slots or --shards\n"));
}

TEST(Limits, AClusterOnOneMachineWithoutLoopbackSaysSoUnlessItIsOneNode) {
  // In a changed root folder nobody may have a user namespace, and elsewhere others than root need
  // one.
  std::vector<std::string> alone = {"unshare", "--net"};
  if (system("unshare --net true 2> /dev/null") != 0) alone.push_back("--map-root-user");
  const std::string runs = TestDir() + "/runs";
  const std::string job = WriteJob(TestDir(), LenetJob("job", 2, 2, 10));
  const CommandResult two = RunStrata(
      {"local", "--nodes", "2", "--servers", "1", "--runs", runs, "--job", job}, kDeadline, alone);
  EXPECT_EQ(two.status.code, 1);
  EXPECT_EQ(
      two.err,
      "strata: error: 127.0.0.1 cannot be reached here (Network is unreachable), by which the "
      "nodes and servers of a cluster on one machine speak with each other: `ip link set lo "
      "up`, or take --nodes 1 --servers 0\n");
  // It reaches the start of its ranks.
  const CommandResult one =
      RunStrata({"run", "-n", "2", "--runs", runs, "/bin/true"}, kDeadline, alone);
  EXPECT_THAT(one.err, HasSubstr("ended without having joined the job")) << one.out;
}

TEST(Limits, AJobThatTheServerHasNoMemoryForFailsWithTheFigureAndTheNextRuns) {
  Cluster cluster({.nodes = 2, .slots = 1, .server_args = {"--memory-limit", "2MiB"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  proto::Job large = LenetJob("large", 2, 1, 10);
  large.mutable_consistency()->mutable_lazy()->set_staleness(64);
  auto id = cluster.Submit(large);
  ASSERT_TRUE(id.ok());
  const proto::JobStatus failed = cluster.WaitForEnd(*id);
  EXPECT_EQ(failed.state(), proto::FAILED);
  EXPECT_THAT(failed.reason(), HasSubstr("server s0: it needs up to 15."));
  EXPECT_THAT(failed.reason(), HasSubstr("clocks ahead 64 x 1 x 241.0 KiB"));
  EXPECT_THAT(failed.reason(),
              HasSubstr("other jobs are promised 0 B of the limit of 2.0 MiB (--memory-limit)"));
  cluster.RunToEnd(LenetJob("small", 2, 1, 10));
  cluster.StopAll();
}

TEST(Limits, AJobThatANodeHasNoMemoryForFailsWithTheFigureAndTheNextRuns) {
  Cluster cluster({.slots = 4, .worker_args = {"--memory-limit", "2MiB"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(LenetJob("large", 4, 4, 10));
  ASSERT_TRUE(id.ok());
  const proto::JobStatus failed = cluster.WaitForEnd(*id);
  EXPECT_EQ(failed.state(), proto::FAILED);
  EXPECT_THAT(failed.reason(), HasSubstr("node 0 (w0): it needs up to 2.1 MiB: shared memory (1 + "
                                         "4) x 241.0 KiB and its counts"));
  cluster.RunToEnd(LenetJob("small", 1, 1, 10));
  cluster.StopAll();
}

TEST(Limits, ConnectionsBeyondTheLimitAreEndedAndCountedAndTheJobGoesOn) {
  Cluster cluster({.nodes = 2, .slots = 1, .server_args = {"--connections", "2"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(LenetJob("victim", 2, 1, 10'000'000));
  ASSERT_TRUE(id.ok());
  ASSERT_EQ(cluster.WaitForStep(*id, 1).state(), proto::RUNNING);
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(ValueIn(cluster.server(0).ready_line, "ports"), &port));
  std::vector<UniqueFd> strangers;
  for (uint32_t i = 0; i < kConnectionSlack + 3; ++i) strangers.push_back(TcpTo(port));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(IsEnded(strangers[i])) << i;
  EXPECT_TRUE(
      WaitUntil([&] { return Refusals(cluster, "s0", "over the limit of connections") >= 3; }));
  // The others send nothing in time.
  for (const UniqueFd& stranger : strangers) EXPECT_TRUE(IsEnded(stranger));
  const proto::JobStatus before = cluster.Status(*id);
  const proto::JobStatus after = cluster.WaitForStep(*id, before.progress().step() + 100);
  EXPECT_EQ(after.state(), proto::RUNNING) << after.reason();
  EXPECT_EQ(after.shards(0).counters().refused(), 0u);
  EXPECT_EQ(after.shards(0).counters().duplicates(), 0u);
  ASSERT_EQ(cluster.client().Cancel(*id), absl::OkStatus());
  auto many = cluster.Submit(LenetJob("many", 2, 1, 10));
  ASSERT_TRUE(many.ok());
  EXPECT_EQ(cluster.WaitForEnd(*many).state(), proto::FINISHED);
  cluster.StopAll();
}

TEST(Limits, ADaemonBeyondTheSessionsIsRefusedByNameAndTheOthersStay) {
  Cluster cluster({.coordinator_args = {"--sessions", "2"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  std::vector<std::string> args = cluster.KeyArgs(keys::Role::kWorker, "w9");
  args.insert(args.begin(), {"worker", "--coordinator", cluster.address(), "--name", "w9", "--runs",
                             TestDir() + "/runs9"});
  const CommandResult refused = RunStrata(args);
  EXPECT_EQ(refused.status.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("the coordinator has 2 sessions of daemons open, which is its "
                                     "limit (--sessions)"));
  EXPECT_GE(Refusals(cluster, "coordinator", "over the limit of sessions"), 1u);
  cluster.RunToEnd(LenetJob("job", 1, 1, 10));
  cluster.StopAll();
}

TEST(Limits, AFloodOfConnectionsAtTheCoordinatorIsEndedAndCountedAndItGoesOnListening) {
  Cluster cluster({.coordinator_args = {"--sessions", "8", "--calls", "8"}});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(LenetJob("victim", 1, 1, 10'000'000));
  ASSERT_TRUE(id.ok());
  ASSERT_EQ(cluster.WaitForStep(*id, 1).state(), proto::RUNNING);
  int port = 0;
  const std::string& address = cluster.address();
  ASSERT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(TcpTo(port));
  // 48 + 8 sessions + 8 calls may be open.
  EXPECT_TRUE(WaitUntil(
      [&] { return Refusals(cluster, "coordinator", "over the limit of connections") >= 136; }));
  // Accepted connections are closed, too, because they send no request.
  EXPECT_TRUE(WaitUntil([&] {
    return RunStrata({"nodes", "--coordinator", cluster.address()}).status.ok();
  }));
  EXPECT_TRUE(IsEnded(silent[0]));
  EXPECT_EQ(cluster.Status(*id).state(), proto::RUNNING) << cluster.Status(*id).reason();
  ASSERT_EQ(cluster.client().Cancel(*id), absl::OkStatus());
  cluster.StopAll();
}

TEST(Limits, StatusShowsWhatIsUsedBesideTheLimitWithSums) {
  Cluster cluster({.servers = 2, .nodes = 2, .slots = 1});
  ASSERT_EQ(cluster.Start(), absl::OkStatus());
  auto id = cluster.Submit(LenetJob("shown", 2, 1, 10'000'000));
  ASSERT_TRUE(id.ok());
  cluster.WaitForStep(*id, 1);
  const proto::JobStatus job = cluster.WaitFor(*id, [](const proto::JobStatus& status) {
    return status.nodes(0).memory_bytes() > 0 && status.nodes(1).memory_bytes() > 0 &&
           status.shards(0).memory_bytes() > 0 && status.shards(1).memory_bytes() > 0;
  });
  for (const auto& node : job.nodes()) EXPECT_LE(node.memory_bytes(), node.memory_limit_bytes());
  for (const auto& shard : job.shards()) {
    EXPECT_LE(shard.memory_bytes(), shard.memory_limit_bytes());
  }
  // LeNet-5 and its momentum, each in halves.
  EXPECT_GE(job.shards(0).memory_bytes() + job.shards(1).memory_bytes(), 2u * 61706 * 4);
  const json status = StatusOf(cluster);
  const json descriptors = ResourceIn(status["resources"], "file descriptors");
  uint64_t sum = ResourceIn(status["coordinator"]["resources"], "file descriptors")["used"];
  for (const json& daemon : status["daemons"]) {
    const json own = ResourceIn(daemon["resources"], "file descriptors");
    EXPECT_LT(own["used"], own["limit"]) << daemon;
    sum += own["used"].get<uint64_t>();
  }
  EXPECT_EQ(descriptors["used"], sum);
  const json connections = ResourceIn(status["daemons"][0]["resources"], "connections");
  EXPECT_EQ(connections["used"], 2) << "a node each";
  EXPECT_EQ(connections["limit"], 1024);
  EXPECT_GT(ResourceIn(status["resources"], "promised memory bytes")["used"], 0);
  const CommandResult text = RunStrata({"status", "--coordinator", cluster.address()});
  EXPECT_THAT(text.out, HasSubstr("\n  file descriptors "));
  const CommandResult nodes = RunStrata({"nodes", "--coordinator", cluster.address()});
  EXPECT_THAT(nodes.out, HasSubstr("\nall "));
  cluster.StopAll();
}

}  // namespace
}  // namespace strata::tests
