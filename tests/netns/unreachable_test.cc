// The choice of the interface, and reports of unreachable peers: on hosts as network namespaces.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/netns/netns_cluster.h"

namespace strata::tests {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kFar = 3;  // a host for servers alone

class Unreachable : public NetnsTest {
 protected:
  void SetUp() override {
    NetnsTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(cluster_.StartHead(), absl::OkStatus());
    ASSERT_EQ(cluster_.network().AddHost("far", kFar), absl::OkStatus());
  }

  // Returns a worker's peers in `strata nodes --json`.
  nlohmann::json PeersOf(const std::string& worker) {
    const CommandResult result =
        RunStrata({"nodes", "--json", "--coordinator", cluster_.address()});
    EXPECT_EQ(result.status.code, 0) << result.err;
    const auto nodes = nlohmann::json::parse(result.out, nullptr, false);
    for (const auto& daemon : nodes.value("daemons", nlohmann::json::array())) {
      if (daemon.value("name", "") == worker) return daemon.value("peers", nlohmann::json());
    }
    return {};
  }

  std::string WaitForReason(JobId job, const std::string& part) {
    return cluster_
        .WaitFor(job,
                 [&](const proto::JobStatus& status) {
                   return absl::StrContains(status.reason(), part) ||
                          control::HasEnded(status.state());
                 })
        .reason();
  }

  // How a server that starts on the host says that it cannot; empty: it could.
  std::string WhyNot(const std::string& host, const std::vector<std::string>& args) {
    return std::string(cluster_.StartServer(host, "sx", args).message());
  }

  NetnsCluster cluster_{{.servers = 0, .nodes = 2, .slots = 1}};
};

TEST_F(Unreachable, AShardThatOneWorkerCannotReachIsNamedAndTheJobRunsOnceItCan) {
  Network& network = cluster_.network();
  // w1's packets to the server's host go to a card that nobody has.
  const std::string far = Network::AddressOf(kFar);
  ASSERT_EQ(network.Ip("w1", {"neighbour", "add", far, "lladdr", "02:00:00:00:00:99", "dev", "eth0",
                              "nud", "permanent"}),
            absl::OkStatus());
  ASSERT_EQ(cluster_.StartServer("far", "s0"), absl::OkStatus());
  ASSERT_EQ(cluster_.StartWorker(0), absl::OkStatus());
  ASSERT_EQ(cluster_.StartWorker(1), absl::OkStatus());
  const std::string shard =
      absl::StrCat("tcp://", far, ":", ValueIn(cluster_.ready_line("server s0"), "ports"));

  const auto job = cluster_.client().Submit(LenetJob("needs-both", 2, 1, 20));
  ASSERT_TRUE(job.ok()) << job.status();
  const std::string expected = absl::StrCat("worker w1 (10.77.0.12) cannot reach server s0 at ",
                                            shard, ": connection timed out; check route and ");
  EXPECT_THAT(WaitForReason(*job, "cannot reach"), StartsWith(expected));
  EXPECT_EQ(cluster_.Status(*job).state(), proto::QUEUED);
  EXPECT_THAT(cluster_.CoordinatorLog(), HasSubstr(expected));
  const CommandResult nodes = RunStrata({"nodes", "--coordinator", cluster_.address()});
  EXPECT_THAT(nodes.out, HasSubstr(absl::StrCat("worker w1 (10.77.0.12) cannot reach server s0 at ",
                                                shard, ": connection timed out\n")));
  EXPECT_EQ(PeersOf("w0"), (nlohmann::json{{{"address", shard}, {"name", "s0"}, {"error", ""}}}));
  EXPECT_EQ(
      PeersOf("w1"),
      (nlohmann::json{{{"address", shard}, {"name", "s0"}, {"error", "connection timed out"}}}));

  ASSERT_EQ(network.Ip("w1", {"neighbour", "delete", far, "dev", "eth0"}), absl::OkStatus());
  EXPECT_EQ(cluster_.WaitForEnd(*job).state(), proto::FINISHED);
  EXPECT_THAT(cluster_.CoordinatorLog(),
              HasSubstr(absl::StrCat("worker w1 now reaches server s0 at ", shard)));
}

TEST_F(Unreachable, AServerOnTheWrongInterfaceIsNamedWithWhatTheKernelSays) {
  ASSERT_EQ(cluster_.StartServer("far", "s0", {"--interface", "mgmt0", "--port", "7100"}),
            absl::OkStatus());
  EXPECT_EQ(ValueIn(cluster_.ready_line("server s0"), "address"), "172.30.3.1");
  ASSERT_EQ(cluster_.StartWorker(0), absl::OkStatus());
  const auto job = cluster_.client().Submit(LenetJob("waits", 1, 1, 20));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(WaitForReason(*job, "cannot reach"),
            "worker w0 (10.77.0.11) cannot reach server s0 at tcp://172.30.3.1:7100: network is "
            "unreachable; check route and firewall, or start the server with --interface or "
            "--advertise");
  EXPECT_EQ(cluster_.client().Cancel(*job), absl::OkStatus());
}

TEST_F(Unreachable, AddressesAreChosenByInterfaceNetworkWildcardAndAdvertisedName) {
  const auto address_of = [&](const std::string& name, const std::vector<std::string>& args) {
    EXPECT_EQ(cluster_.StartServer("far", name, args), absl::OkStatus());
    return ValueIn(cluster_.ready_line("server " + name), "address");
  };
  EXPECT_EQ(address_of("s1", {}), "10.77.0.3");
  EXPECT_EQ(address_of("s2", {"--interface", "mgmt0"}), "172.30.3.1");
  EXPECT_EQ(address_of("s3", {"--interface", "172.30.0.0/16"}), "172.30.3.1");
  EXPECT_EQ(address_of("s4", {"--listen", "0.0.0.0"}), "10.77.0.3");
  EXPECT_EQ(address_of("s5", {"--listen", "0.0.0.0", "--advertise", "172.30.3.1"}), "172.30.3.1");
  // Two servers share a range of ports.
  address_of("s6", {"--shards", "2", "--port", "7200-7203"});
  address_of("s7", {"--shards", "2", "--port", "7200-7203"});
  EXPECT_EQ(ValueIn(cluster_.ready_line("server s6"), "ports"), "7200,7201");
  EXPECT_EQ(ValueIn(cluster_.ready_line("server s7"), "ports"), "7202,7203");
  EXPECT_THAT(WhyNot("far", {"--port", "7200-7203"}),
              HasSubstr("no port from 7200 to 7203 is free for shard 0 of 1"));
}

TEST_F(Unreachable, AddressesThatCannotBeRightAreRefusedInOneLine) {
  const std::string has = "this host has 172.30.3.1 (mgmt0), 10.77.0.3 (eth0)";
  EXPECT_THAT(WhyNot("far", {"--interface", "eth7"}),
              HasSubstr("strata: error: --interface eth7: no such interface; " + has));
  EXPECT_THAT(
      WhyNot("far", {"--interface", "nobody"}),
      HasSubstr("--interface nobody: the interface is down or has no IPv4 address; " + has));
  EXPECT_THAT(WhyNot("far", {"--interface", "10.99.0.0/24"}),
              HasSubstr("--interface 10.99.0.0/24: no address of this host is in that network"));
  EXPECT_THAT(WhyNot("far", {"--interface", "0.0.0.0/0"}), HasSubstr("means several addresses: "));
  EXPECT_THAT(WhyNot("far", {"--listen", "127.0.0.1"}),
              HasSubstr("--listen 127.0.0.1: 127.0.0.1 is a loopback address, which only this host "
                        "reaches, but the coordinator 10.77.0.1:7070 is reached from 10.77.0.3"));
  EXPECT_THAT(WhyNot("far", {"--advertise", "localhost"}), HasSubstr("is a loopback address"));
  EXPECT_THAT(WhyNot("far", {"--listen", "10.77.0.77"}), HasSubstr("10.77.0.77"));
}

}  // namespace
}  // namespace strata::tests
