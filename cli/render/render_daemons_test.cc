#include "cli/render/render_daemons.h"

#include <nlohmann/json.hpp>

#include "cli/render/render.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

void Add(proto::DaemonStatus* daemon, const char* name, uint64_t used, uint64_t limit) {
  proto::Resource* resource = daemon->add_resources();
  resource->set_name(name);
  resource->set_used(used);
  resource->set_limit(limit);
}

proto::ListNodesReply ResourcesNodes() {
  proto::ListNodesReply nodes;
  nodes.mutable_coordinator()->set_name("coordinator");
  nodes.mutable_coordinator()->set_alive(true);
  Add(nodes.mutable_coordinator(), "file descriptors", 30, 1000);
  for (const char* name : {"s1", "s2", "w1"}) {
    proto::DaemonStatus* daemon = nodes.add_daemons();
    daemon->set_name(name);
    daemon->set_role(name[0] == 's' ? proto::SERVER : proto::WORKER);
    daemon->set_alive(true);
  }
  Add(nodes.mutable_daemons(0), "file descriptors", 40, 1000);
  Add(nodes.mutable_daemons(0), "memory bytes", 1 << 20, 4 << 20);
  Add(nodes.mutable_daemons(1), "file descriptors", 50, 2000);
  Add(nodes.mutable_daemons(1), "memory bytes", 3 << 20, 4 << 20);
  Add(nodes.mutable_daemons(2), "resident bytes", 5 << 20, 0);
  return nodes;
}

TEST(Resources, TotalsNameTheDaemonThatIsNearestToItsLimit) {
  EXPECT_EQ(ResourceTotals(ResourcesNodes()),
            "  resource          used     limit    nearest to its limit\n"
            "  file descriptors  120      4000     s1: 40 of 1000\n"
            "  memory            4.0 MiB  8.0 MiB  s2: 3.0 MiB of 4.0 MiB\n"
            "  resident          5.0 MiB  -        -\n");
}

TEST(Resources, ByDaemonHasEachFigureBesideItsLimitAndTheSums) {
  EXPECT_EQ(ResourcesByDaemon(ResourcesNodes()),
            "USED         FILE DESCRIPTORS  MEMORY              RESIDENT\n"
            "coordinator  30 of 1000        -                   -\n"
            "s1           40 of 1000        1.0 MiB of 4.0 MiB  -\n"
            "s2           50 of 2000        3.0 MiB of 4.0 MiB  -\n"
            "w1           -                 -                   5.0 MiB\n"
            "all          120 of 4000       4.0 MiB of 8.0 MiB  5.0 MiB\n");
}

TEST(Resources, OfSizesTheLargestCountsAndNotTheSum) {
  proto::ListNodesReply nodes = ResourcesNodes();
  Add(nodes.mutable_daemons(0), "largest frame bytes", 100, 1000);
  Add(nodes.mutable_daemons(1), "largest frame bytes", 200, 1000);
  const ResourceTotal frame = AddUpResources(nodes)[2];
  EXPECT_EQ(frame.name, "largest frame bytes");
  EXPECT_EQ(frame.used, 200u);
  EXPECT_EQ(frame.limit, 1000u);
  EXPECT_EQ(frame.fullest, "s2");
}

TEST(Resources, OfADaemonThatIsGoneDoNotCount) {
  proto::ListNodesReply nodes = ResourcesNodes();
  nodes.mutable_daemons(1)->set_alive(false);
  EXPECT_EQ(AddUpResources(nodes)[0].used, 70u);
  EXPECT_EQ(AddUpResources(nodes)[1].limit, 4u << 20);
}

TEST(Resources, StandInJsonWithTheirSums) {
  const auto json = nlohmann::json::parse(NodesJson(ResourcesNodes()));
  EXPECT_EQ(json["daemons"][1]["resources"][1]["used"], 3 << 20);
  EXPECT_EQ(json["coordinator"]["resources"][0]["limit"], 1000);
  EXPECT_EQ(json["resources"][1]["used"], 4 << 20);
  EXPECT_EQ(json["resources"][1]["fullest"], "s2");
}

TEST(JobMemory, StandsWithItsFormulaByNodeAndShardAndInAll) {
  proto::JobStatus job;
  for (int i = 0; i < 2; ++i) {
    proto::JobNodeStatus* node = job.add_nodes();
    node->set_daemon("w");
    node->set_ranks(1);
    node->set_memory_bytes(1 << 20);
    node->set_memory_limit_bytes(2 << 20);
    proto::JobShardStatus* shard = job.add_shards();
    shard->set_daemon("s");
    shard->set_memory_bytes(3 << 20);
    shard->set_memory_limit_bytes(4 << 20);
  }
  const std::string text = JobText(job);
  EXPECT_NE(text.find("1.0 MiB  2.0 MiB\n  all                        2.0 MiB  4.0 MiB\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("3.0 MiB  4.0 MiB\n  all "), std::string::npos) << text;
  EXPECT_NE(text.find("6.0 MiB  8.0 MiB\n"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(JobJson(job));
  EXPECT_EQ(json["nodes"][1]["memory_bytes"], 1 << 20);
  EXPECT_EQ(json["shards"][0]["memory_limit_bytes"], 4 << 20);
  EXPECT_EQ(json["node_memory"]["memory_limit_bytes"], 4 << 20);
  EXPECT_EQ(json["shard_memory"]["memory_bytes"], 6 << 20);
}

void Refuse(const std::string& cause, uint64_t count, proto::DaemonStatus* daemon) {
  proto::Refusal* refusal = daemon->add_refusals();
  refusal->set_cause(cause);
  refusal->set_count(count);
}

proto::ListNodesReply Nodes() {
  proto::ListNodesReply nodes;
  nodes.mutable_coordinator()->set_name("coordinator");
  for (const char* name : {"s0", "s1", "w0"}) nodes.add_daemons()->set_name(name);
  return nodes;
}

TEST(RenderRefusals, SaysNothingWhereNothingWasRefused) { EXPECT_EQ(RefusalsText(Nodes()), ""); }

TEST(RenderRefusals, NamesWhoRefusedWhatTheMostFrequentFirst) {
  proto::ListNodesReply nodes = Nodes();
  Refuse("rejected job", 2, nodes.mutable_coordinator());
  Refuse("before HELLO", 3, nodes.mutable_daemons(1));
  Refuse("malformed", 12, nodes.mutable_daemons(1));
  Refuse("unknown job", 0, nodes.mutable_daemons(1));
  const std::string text =
      "  refused by coordinator: 2 rejected jobs\n"
      "  refused by s1: 12 malformed, 3 before HELLO\n";
  EXPECT_EQ(RefusalsText(nodes), text);
  EXPECT_NE(NodesText(nodes).find(text), std::string::npos);
  EXPECT_NE(ClusterText(nodes, {}).find(text), std::string::npos);
}

TEST(RenderRefusals, WhatFollowsFromSomethingPlannedHasALineOfItsOwn) {
  proto::ListNodesReply nodes = Nodes();
  Refuse("frame of a shard that has left", 2, nodes.mutable_daemons(1));
  nodes.mutable_daemons(1)->mutable_refusals(0)->set_expected(true);
  EXPECT_EQ(RefusalsText(nodes),
            "  turned away as planned by s1: 2 frames of a shard that has left\n");
  Refuse("malformed", 1, nodes.mutable_daemons(1));
  EXPECT_EQ(RefusalsText(nodes),
            "  refused by s1: 1 malformed\n"
            "  turned away as planned by s1: 2 frames of a shard that has left\n");
  const std::string json = NodesJson(nodes);
  EXPECT_NE(json.find("\"refusals\": {\n        \"malformed\": 1\n      }"), std::string::npos)
      << json;
  EXPECT_NE(json.find("\"expected_refusals\": {\n        \"frame of a shard that has left\": 2\n"),
            std::string::npos)
      << json;
}

TEST(RenderRefusals, WhatIsCountedIsInThePluralFromTwoOn) {
  const auto said = [](const std::string& cause, uint64_t count) {
    proto::ListNodesReply nodes = Nodes();
    Refuse(cause, count, nodes.mutable_coordinator());
    return RefusalsText(nodes);
  };
  const std::string by = "  refused by coordinator: ";
  EXPECT_EQ(said("connection without a message", 1), by + "1 connection without a message\n");
  EXPECT_EQ(said("connection without a message", 2), by + "2 connections without a message\n");
  EXPECT_EQ(said("message without end", 3), by + "3 messages without end\n");
  EXPECT_EQ(said("registration seen before", 2), by + "2 registrations seen before\n");
  EXPECT_EQ(said("broken seal", 2), by + "2 broken seals\n");
  EXPECT_EQ(said("about a job of other daemons", 2), by + "2 about a job of other daemons\n");
  EXPECT_EQ(said("no HELLO in time", 2), by + "2 no HELLO in time\n");
}

TEST(RenderRefusals, OfAJobAreThoseOfItsDaemons) {
  proto::ListNodesReply nodes = Nodes();
  for (int i = 0; i < 3; ++i) Refuse("malformed", i + 1, nodes.mutable_daemons(i));
  proto::JobStatus job;
  job.add_shards()->set_daemon("s1");
  job.add_nodes()->set_daemon("w0");
  EXPECT_EQ(RefusalsText(nodes, job),
            "  refused by s1: 2 malformed\n  refused by w0: 3 malformed\n");
}

TEST(RenderRefusals, AreInTheJsonOfEachDaemonByCause) {
  proto::ListNodesReply nodes = Nodes();
  Refuse("before HELLO", 3, nodes.mutable_daemons(1));
  Refuse("rejected job", 2, nodes.mutable_coordinator());
  for (const std::string& json : {NodesJson(nodes), ClusterJson(nodes, {})}) {
    EXPECT_NE(json.find("\"before HELLO\": 3"), std::string::npos) << json;
    EXPECT_NE(json.find("\"rejected job\": 2"), std::string::npos) << json;
  }
}

}  // namespace

}  // namespace strata::cli
