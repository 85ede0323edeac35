#include "cli/cluster/hosts_file.h"

#include "absl/status/status.h"
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

}  // namespace
}  // namespace strata::cli
