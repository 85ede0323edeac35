#include "cli/options/address_options.h"

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

}  // namespace
}  // namespace strata::cli
