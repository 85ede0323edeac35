#include "cli/render/render_refusals.h"

#include "cli/render/render.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

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
