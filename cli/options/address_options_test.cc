#include "cli/options/address_options.h"

#include "absl/strings/str_cat.h"
#include "cli/options/coordinator_address.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

namespace {

TEST(PortRange, IsOnePortOrTwoWithADash) {
  EXPECT_EQ(ParsePortRange("7100")->first, 7100u);
  EXPECT_EQ(ParsePortRange("7100")->last, 0u);
  EXPECT_EQ(ParsePortRange("7100-7119")->first, 7100u);
  EXPECT_EQ(ParsePortRange("7100-7119")->last, 7119u);
  for (const char* bad : {"", "-", "0", "65536", "7100-", "-7100", "7119-7100", "1-65536", "a"}) {
    const auto range = ParsePortRange(bad);
    EXPECT_EQ(range.status(),
              absl::InvalidArgumentError(std::string("--port ") + bad +
                                         ": expected a port or a range such as 7100-7119"));
  }
}

TEST(DaemonAddress, FollowsTheRouteToTheCoordinator) {
  const auto choice = ChooseDaemonAddress({}, "127.0.0.1:7070", {}, absl::ZeroDuration());
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->listen, "127.0.0.1");
  EXPECT_EQ(choice->advertise, "127.0.0.1");
  EXPECT_EQ(ChooseDaemonAddress({}, "[::1]:7070", {}, absl::ZeroDuration())->listen, "127.0.0.1");
  EXPECT_EQ(ChooseDaemonAddress({}, "0.0.0.0:7070", {}, absl::ZeroDuration())->listen, "127.0.0.1");
}

TEST(DaemonAddress, ACoordinatorThatCannotBeFoundIsNamed) {
  const auto unknown =
      ChooseDaemonAddress({}, "no-such-host.invalid:7070", {}, absl::Milliseconds(300));
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(unknown.status().message()),
              ::testing::StartsWith("coordinator at no-such-host.invalid:7070 cannot be reached "
                                    "(tried for 300ms): host \"no-such-host.invalid\""));
  const auto ipv6 = ChooseDaemonAddress({}, "[fe80::1]:7070", {}, absl::Hours(1));
  EXPECT_EQ(ipv6.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CoordinatorListen, IsGivenByAddressOrByInterfaceAndPort) {
  EXPECT_EQ(*ChooseListenAddress({}), DefaultCoordinator());
  EXPECT_EQ(*ChooseListenAddress({.address = "10.0.0.1:80", .address_given = true}), "10.0.0.1:80");
  EXPECT_EQ(*ChooseListenAddress({.port = 99}), "127.0.0.1:99");
  EXPECT_EQ(*ChooseListenAddress({.interface = "127.0.0.0/8", .port = 99}), "127.0.0.1:99");
  EXPECT_EQ(*ChooseListenAddress({.interface = "127.0.0.0/8"}), "127.0.0.1:7070");
  EXPECT_EQ(ChooseListenAddress({.address_given = true, .interface = "lo"}).status().message(),
            "--listen and --interface exclude each other: --listen names host and port");
  EXPECT_EQ(ChooseListenAddress({.address_given = true, .port = 1}).status().message(),
            "--listen and --port exclude each other: --listen names host and port");
  EXPECT_EQ(ChooseListenAddress({.interface = "no-such-card"}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CoordinatorListen, LoopbackIsReachedByNoOtherHost) {
  EXPECT_EQ(AddressesOfCoordinator("127.0.0.1", "7070"), "");
}

TEST(CoordinatorAddress, APortASocketAndSeveralPortsAreTaken) {
  for (const char* good : {"a:7070", "[::1]:7070", "unix:/run/a,b", "a:7070,b:7070,10.0.0.3:1"}) {
    EXPECT_EQ(CheckCoordinatorAddress(good), "") << good;
  }
}

TEST(CoordinatorAddress, WhatIsWrongIsNamed) {
  EXPECT_EQ(CheckCoordinatorAddress("a"), "expected HOST:PORT or unix:/PATH, not \"a\"");
  EXPECT_EQ(CheckCoordinatorAddress(""), "expected HOST:PORT or unix:/PATH, not \"\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,b"), "expected HOST:PORT, not \"b\"");
  for (const char* bad : {"a:1,", ",a:1", "a:1,,b:1"}) {
    EXPECT_EQ(CheckCoordinatorAddress(bad), absl::StrCat("expected HOST:PORT,HOST:PORT, not \"",
                                                         bad, "\": one of its addresses is empty"));
  }
  EXPECT_EQ(CheckCoordinatorAddress("a:1, b:1"), "expected HOST:PORT, not \" b:1\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,unix:/b"), "expected HOST:PORT, not \"unix:/b\"");
  EXPECT_EQ(CheckCoordinatorAddress("a:1,b:2,a:1"), "a:1 is named twice");
  std::string many = "h:1";
  for (int port = 2; port <= 17; ++port) absl::StrAppend(&many, ",h:", port);
  EXPECT_EQ(CheckCoordinatorAddress(many), "17 addresses are more than 16");
}

TEST(HostsAndPorts, AreOneOrSeveralWithoutASocket) {
  for (const char* good : {"a:2379", "a:2379,b:2379", "[::1]:1,10.0.0.3:1"}) {
    EXPECT_EQ(CheckHostsAndPorts(good), "") << good;
  }
  EXPECT_EQ(CheckHostsAndPorts("unix:/run/a"), "expected HOST:PORT, not \"unix:/run/a\"");
  EXPECT_EQ(CheckHostsAndPorts(""), "expected HOST:PORT, not \"\"");
  EXPECT_EQ(CheckHostsAndPorts("a:1,a:1"), "a:1 is named twice");
  EXPECT_EQ(CheckHostsAndPorts("a:1,b"), "expected HOST:PORT, not \"b\"");
}

}  // namespace

}  // namespace strata::cli
