#include "compare/virtual_time/cluster_file.h"

#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

constexpr char kNode[] = "compute { constant_ms: 10 } link { gbit_per_s: 1 }";

// The error of a cluster of this text; empty: none.
std::string ErrorOf(const std::string& text) {
  absl::StatusOr<proto::Cluster> cluster = ParseCluster(text, "c.textproto");
  if (!cluster.ok()) return std::string(cluster.status().message());
  FillClusterDefaults(&*cluster);
  return std::string(CheckCluster(*cluster).message());
}

std::string Node(const std::string& more) { return "nodes { " + std::string(kNode) + more + " }"; }

TEST(ClusterFile, EveryExampleIsAClusterAndSaysWhatItStandsFor) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("examples/clusters")) {
    if (entry.path().extension() != ".textproto") continue;
    ++count;
    const absl::StatusOr<ClusterFile> file = ReadCluster(entry.path().string());
    ASSERT_EQ(file.status(), absl::OkStatus());
    std::string first;
    std::getline(std::ifstream(entry.path()), first);
    EXPECT_EQ(first.substr(0, 2), "# ") << entry.path();
    EXPECT_NE(DescribeCluster(*file).find(file->cluster.name()), std::string::npos);
  }
  EXPECT_EQ(count, 4);
}

TEST(ClusterFile, TracesAreReadBesideTheFile) {
  const auto file = ReadCluster("examples/clusters/cheap_heterogeneous.textproto");
  ASSERT_EQ(file.status(), absl::OkStatus());
  ASSERT_EQ(file->traces.count("shared_workstation.ms"), 1u);
  EXPECT_EQ(file->traces.at("shared_workstation.ms").size(), 400u);
}

TEST(ClusterFile, WordsTellClustersApart) {
  ClusterFile file{
      .cluster = *ParseCluster(
          "name: \"c\" " + Node(" count: 2 ranks: 4") + "servers { count: 3 shards: 1 }", "c"),
      .traces = {}};
  const std::string words = DescribeCluster(file);
  EXPECT_EQ(words.substr(0, words.find(" (")),
            "virtual time, c: 2 nodes, 8 slots, 3 servers x 1 shard");
  EXPECT_EQ(DescribeCluster(file), words);
  ClusterFile traced = file;
  traced.traces["t"] = {1, 2};
  EXPECT_NE(DescribeCluster(traced), words);
  file.cluster.mutable_nodes(0)->mutable_link()->set_gbit_per_s(2);
  EXPECT_NE(DescribeCluster(file), words);
}

TEST(ClusterFile, FillsInDefaults) {
  proto::Cluster cluster = *ParseCluster(Node("") + "servers { }", "c");
  FillClusterDefaults(&cluster);
  EXPECT_EQ(cluster.nodes(0).count(), 1u);
  EXPECT_EQ(cluster.nodes(0).ranks(), 1u);
  EXPECT_EQ(cluster.nodes(0).compute().forward_share(), 1.0 / 3);
  EXPECT_EQ(cluster.nodes(0).compute().slow(), 1);
  EXPECT_EQ(cluster.nodes(0).aggregation_gb_per_s(), 8);
  EXPECT_EQ(cluster.servers().count(), 1u);
  EXPECT_EQ(cluster.servers().shards(), 1u);
  EXPECT_EQ(cluster.memory_gb_per_s(), 5);
}

TEST(ClusterFile, WhatIsBeyondItsBoundIsNamed) {
  const std::string text = "name: '" + std::string(300, 'n') + "'";
  EXPECT_EQ(ParseCluster(text, "c").status().message(),
            "c: name has 300 bytes, at most 256 are possible");
}

TEST(ClusterFile, WrongTextIsRefusedWithItsPlaceAndField) {
  EXPECT_EQ(ErrorOf("nodes {\n  cuont: 3\n}"),
            "c.textproto:2:8: Message type \"strata.proto.NodeGroup\" has no field named "
            "\"cuont\".");
  EXPECT_EQ(ErrorOf("nodes { count: many }"),
            "c.textproto:1:16: count: Expected integer, got: many");
}

TEST(ClusterFile, ImpossibleClustersAreRefusedByTheirField) {
  EXPECT_EQ(ErrorOf(""), "nodes: at least one group is required");
  EXPECT_EQ(ErrorOf("nodes { }"),
            "nodes[0].compute: one of constant_ms, normal, log_normal, trace_file is required");
  EXPECT_EQ(ErrorOf("nodes { compute { constant_ms: 0 } }"),
            "nodes[0].compute.constant_ms: 0 is not a finite number > 0");
  EXPECT_EQ(ErrorOf("nodes { compute { normal { mean_ms: 5 deviation_ms: -1 } } }"),
            "nodes[0].compute.normal.deviation_ms: -1 is not a finite number >= 0");
  EXPECT_EQ(ErrorOf("nodes { compute { log_normal { median_ms: nan } } }"),
            "nodes[0].compute.log_normal.median_ms: nan is not a finite number > 0");
  EXPECT_EQ(ErrorOf("nodes { compute { constant_ms: 2e7 } }"),
            "nodes[0].compute.constant_ms: 2e+07 is more than 1e+07");
  EXPECT_EQ(ErrorOf("nodes { compute { log_normal { median_ms: 1 sigma: 11 } } }"),
            "nodes[0].compute.log_normal.sigma: 11 is more than 10");
  EXPECT_EQ(ErrorOf("nodes { compute { constant_ms: 1 slow: 10001 } }"),
            "nodes[0].compute.slow: 10001 is more than 10000");
  EXPECT_EQ(ErrorOf("nodes { compute { constant_ms: 1 forward_share: 1 } }"),
            "nodes[0].compute.forward_share: 1 is not a number > 0 and < 1");
  EXPECT_EQ(ErrorOf("nodes { compute { constant_ms: 1 slow: -2 } }"),
            "nodes[0].compute.slow: -2 is not a finite number > 0");
  EXPECT_EQ(ErrorOf("nodes { count: 2 compute { constant_ms: 1 } }"),
            "nodes[0].link: is missing, as in link { gbit_per_s: 10 latency_us: 20 }");
  EXPECT_EQ(ErrorOf("nodes { compute { constant_ms: 1 } link { } }"),
            "nodes[0].link.gbit_per_s: 0 is not a finite number > 0");
  EXPECT_EQ(ErrorOf(Node("") + Node(" count: 1025")), "nodes[1].count: 1025 is not in 1 to 1024");
  EXPECT_EQ(ErrorOf(Node(" count: 1024") + Node("")),
            "nodes: all counts together: 1025 is not in 1 to 1024");
  EXPECT_EQ(ErrorOf(Node("") + "servers { }"),
            "servers.link: is missing, as in link { gbit_per_s: 10 latency_us: 20 }");
  EXPECT_EQ(ErrorOf(Node("") + "servers { on_nodes: true count: 2 }"),
            "servers.count: 2 on_nodes, but there are 1 nodes");
  EXPECT_EQ(ErrorOf(Node("") + "servers { on_nodes: true link { gbit_per_s: 1 } }"),
            "servers.link: servers on_nodes have the nodes' links");
  EXPECT_EQ(ErrorOf(Node("") + "memory_gb_per_s: -1"),
            "memory_gb_per_s: -1 is not a finite number > 0");
}

TEST(ClusterFile, SitesHaveToBeJoined) {
  const std::string sites = Node(" site: \"a\"") + Node(" site: \"b\"");
  EXPECT_EQ(ErrorOf(sites), "site_links: none joins \"a\" and \"b\"");
  EXPECT_EQ(ErrorOf(sites + "site_links { sites: \"a\" gbit_per_s: 1 }"),
            "site_links[0].sites: two different ones are required");
  EXPECT_EQ(ErrorOf(sites + "site_links { sites: [\"a\", \"c\"] gbit_per_s: 1 }"),
            "site_links[0].sites: no host is at \"c\"");
  EXPECT_EQ(ErrorOf(sites + "site_links { sites: [\"a\", \"b\"] }"),
            "site_links[0].gbit_per_s: 0 is not a finite number > 0");
  const std::string link = "site_links { sites: [\"b\", \"a\"] gbit_per_s: 1 }";
  EXPECT_EQ(ErrorOf(sites + link), "");
  EXPECT_EQ(ErrorOf(sites + link + link),
            "site_links[1].sites: \"b\" and \"a\" are joined already");
}

TEST(ClusterFile, TracesAreNumbersOfMilliseconds) {
  EXPECT_EQ(*ParseTrace("1.5\n\n 2 \n", "t"), (std::vector<double>{1.5, 2}));
  EXPECT_EQ(ParseTrace("1\n-2\n", "t").status().message(),
            "t:2: \"-2\" is not a number of milliseconds > 0");
  EXPECT_EQ(ParseTrace("1\nfast\n", "t").status().message(),
            "t:2: \"fast\" is not a number of milliseconds > 0");
  EXPECT_EQ(ParseTrace("\n", "t").status().message(), "t: has no line");
}

TEST(ClusterFile, FilesThatAreNotThereAreNamed) {
  EXPECT_EQ(ReadCluster("no/such.textproto").status().code(), absl::StatusCode::kNotFound);
  const std::string path = testing::TempDir() + "/c.textproto";
  std::ofstream(path) << "nodes { compute { trace_file: \"gone.ms\" } }";
  const absl::Status status = ReadCluster(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(std::string(status.message()).find(path + ": nodes[0].compute.trace_file: "),
            std::string::npos)
      << status;
  EXPECT_NE(std::string(status.message()).find("gone.ms"), std::string::npos);
}

}  // namespace
}  // namespace strata::compare
