#include "common/os/interfaces.h"
#include "common/os/local_address.h"
#include "gtest/gtest.h"

namespace strata::net {
namespace {

constexpr char kCoordinator[] = "head:7070";

Ipv4 Address(const std::string& text) { return *Ipv4::Parse(text); }

// Two cards, one of them with two addresses, and one that is down.
HostFacts TwoCards() {
  HostFacts facts;
  facts.interfaces = {{"lo", Address("127.0.0.1"), 8},
                      {"eth0", Address("192.168.7.2"), 24},
                      {"eth1", Address("10.0.0.5"), 24},
                      {"ib0", Address("10.8.0.5"), 16},
                      {"ib0", Address("10.8.0.6"), 16}};
  facts.has_interface = [](const std::string& name) { return name == "eth2" || name == "eth1"; };
  facts.resolve = [](const std::string& host) -> absl::StatusOr<Ipv4> {
    if (host == "me") return Address("127.0.1.1");
    if (const auto literal = Ipv4::Parse(host); literal.has_value()) return *literal;
    return absl::NotFoundError("host \"" + host + "\" has no IPv4 address: unknown");
  };
  return facts;
}

AddressChoice Choose(const AddressWish& wish, const std::string& source = "10.0.0.5") {
  const auto choice = ChooseAddress(wish, TwoCards(), kCoordinator, Address(source));
  EXPECT_TRUE(choice.ok()) << choice.status();
  return choice.ok() ? *choice : AddressChoice();
}

std::string WhyNot(const AddressWish& wish, const std::string& source = "10.0.0.5") {
  const auto choice = ChooseAddress(wish, TwoCards(), kCoordinator, Address(source));
  EXPECT_EQ(choice.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(choice.status().message());
}

TEST(Ipv4, IsParsedAndPrinted) {
  EXPECT_EQ(Address("10.0.0.5").bits, 0x0a000005u);
  EXPECT_EQ(Address("10.0.0.5").ToString(), "10.0.0.5");
  for (const char* bad : {"", "10.0.0", "10.0.0.256", "host", "10.0.0.5/24", "::1"}) {
    EXPECT_FALSE(Ipv4::Parse(bad).has_value()) << bad;
  }
}

TEST(Ipv4Network, HoldsTheAddressesOfItsPrefix) {
  const auto network = Ipv4Network::Parse("10.0.0.77/24");
  ASSERT_TRUE(network.has_value());
  EXPECT_TRUE(network->Contains(Address("10.0.0.255")));
  EXPECT_FALSE(network->Contains(Address("10.0.1.0")));
  EXPECT_TRUE(Ipv4Network::Parse("0.0.0.0/0")->Contains(Address("10.0.1.0")));
  EXPECT_FALSE(Ipv4Network::Parse("10.0.0.5/32")->Contains(Address("10.0.0.4")));
  for (const char* bad : {"", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/-1", "net/24"}) {
    EXPECT_FALSE(Ipv4Network::Parse(bad).has_value()) << bad;
  }
}

TEST(LocalAddress, ByDefaultItIsTheOneThatTheRouteToTheCoordinatorLeavesFrom) {
  const AddressChoice choice = Choose({});
  EXPECT_EQ(choice.listen, "10.0.0.5");
  EXPECT_EQ(choice.advertise, "10.0.0.5");
  EXPECT_EQ(choice.text,
            "address 10.0.0.5 (eth1): the route to the coordinator "
            "head:7070 leaves from it; this host also has 192.168.7.2 (eth0), 10.8.0.5 (ib0), "
            "10.8.0.6 (ib0): choose with --interface");
}

TEST(LocalAddress, ItIsLoopbackOnlyWhereTheCoordinatorIs) {
  const AddressChoice choice = Choose({}, "127.0.0.1");
  EXPECT_EQ(choice.listen, "127.0.0.1");
  EXPECT_EQ(choice.advertise, "127.0.0.1");
  EXPECT_EQ(choice.text,
            "address 127.0.0.1 (lo): the route to the coordinator "
            "head:7070 leaves from it; other hosts cannot reach it; this host also has 192.168.7.2 "
            "(eth0), "
            "10.0.0.5 (eth1), 10.8.0.5 (ib0), 10.8.0.6 (ib0): choose with --interface");
}

TEST(LocalAddress, AnInterfaceIsChosenByNameOrNetwork) {
  for (const char* wish : {"eth0", "192.168.7.0/24", "192.168.7.2/32", "192.168.0.0/16"}) {
    const AddressChoice choice = Choose({.interface = wish});
    EXPECT_EQ(choice.listen, "192.168.7.2") << wish;
    EXPECT_EQ(choice.advertise, "192.168.7.2") << wish;
  }
}

TEST(LocalAddress, AListenAddressIsAdvertisedToo) {
  EXPECT_EQ(Choose({.listen = "10.8.0.6"}).listen, "10.8.0.6");
  EXPECT_EQ(Choose({.listen = "10.8.0.6"}).advertise, "10.8.0.6");
  const AddressChoice named = Choose({.listen = "10.8.0.6", .advertise = "host5.example"});
  EXPECT_EQ(named.listen, "10.8.0.6");
  EXPECT_EQ(named.advertise, "host5.example");
}

TEST(LocalAddress, AWildcardListensEverywhereAndAdvertisesTheRoutesAddress) {
  for (const char* wildcard : {"*", "0.0.0.0"}) {
    const AddressChoice choice = Choose({.listen = wildcard});
    EXPECT_EQ(choice.listen, "0.0.0.0");
    EXPECT_EQ(choice.advertise, "10.0.0.5");
    EXPECT_EQ(choice.text.find("listens on all interfaces; address 10.0.0.5 (eth1): the route"),
              0u);
  }
  EXPECT_EQ(Choose({.listen = "*", .advertise = "10.8.0.5"}).advertise, "10.8.0.5");
}

TEST(LocalAddress, ALoopbackAddressIsRefusedWhereTheCoordinatorIsElsewhere) {
  const std::string rest =
      " is a loopback address, which only this host reaches, but the coordinator head:7070 is "
      "reached from 10.0.0.5; this host has 192.168.7.2 (eth0), 10.0.0.5 (eth1), 10.8.0.5 (ib0), "
      "10.8.0.6 (ib0)";
  EXPECT_EQ(WhyNot({.listen = "127.0.0.1"}), "--listen 127.0.0.1: 127.0.0.1" + rest);
  EXPECT_EQ(WhyNot({.listen = "me"}), "--listen me: 127.0.1.1" + rest);
  EXPECT_EQ(WhyNot({.interface = "lo"}), "--interface lo: 127.0.0.1" + rest);
  EXPECT_EQ(WhyNot({.advertise = "localhost"}), "--advertise localhost: 127.0.0.1" + rest);
  EXPECT_EQ(Choose({.listen = "127.0.0.1"}, "127.0.0.1").advertise, "127.0.0.1");
}

TEST(LocalAddress, WishesThatMeanNothingOrTooMuchAreRefused) {
  const std::string has =
      "this host has 192.168.7.2 (eth0), 10.0.0.5 (eth1), 10.8.0.5 (ib0), 10.8.0.6 (ib0)";
  EXPECT_EQ(WhyNot({.interface = "eth9"}), "--interface eth9: no such interface; " + has);
  EXPECT_EQ(WhyNot({.interface = "eth2"}),
            "--interface eth2: the interface is down or has no IPv4 address; " + has);
  EXPECT_EQ(WhyNot({.interface = "172.16.0.0/12"}),
            "--interface 172.16.0.0/12: no address of this host is in that network; " + has);
  EXPECT_EQ(WhyNot({.interface = "10.0.0.0/8"}),
            "--interface 10.0.0.0/8: means several addresses: 10.0.0.5 (eth1), 10.8.0.5 (ib0), "
            "10.8.0.6 (ib0); name one, e.g. --interface 10.0.0.5/32");
  EXPECT_EQ(WhyNot({.interface = "ib0"}),
            "--interface ib0: means several addresses: 10.8.0.5 (ib0), 10.8.0.6 (ib0); name one, "
            "e.g. --interface 10.8.0.5/32");
  for (const char* bad : {"10.0.0.5", "10.0.0.0/33"}) {
    EXPECT_EQ(WhyNot({.interface = bad}),
              std::string("--interface ") + bad +
                  ": expected an interface such as eth1 or a network such as 10.0.0.0/24");
  }
  EXPECT_EQ(WhyNot({.interface = "eth1", .listen = "10.0.0.5"}),
            "--interface and --listen exclude each other: both say where to listen");
  EXPECT_EQ(WhyNot({.listen = "nowhere"}),
            "--listen: host \"nowhere\" has no IPv4 address: unknown");
  EXPECT_EQ(WhyNot({.advertise = "0.0.0.0"}),
            "--advertise 0.0.0.0: is no address that a peer can connect to");
}

TEST(LocalAddress, AHostWithOneAddressHasNothingToChoose) {
  HostFacts facts = TwoCards();
  facts.interfaces.resize(2);
  const auto choice = ChooseAddress({}, facts, kCoordinator, Address("192.168.7.2"));
  EXPECT_EQ(choice->text,
            "address 192.168.7.2 (eth0): the route to the coordinator "
            "head:7070 leaves from it");
}

TEST(Interfaces, ThisHostHasLoopbackAndRoutesToItFromIt) {
  const auto interfaces = ListInterfaces();
  ASSERT_TRUE(interfaces.ok()) << interfaces.status();
  for (const Interface& interface : *interfaces) {
    if (interface.address == Address("127.0.0.1")) {
      EXPECT_EQ(interface.prefix_bits, 8);
      EXPECT_TRUE(HasInterface(interface.name));
    }
  }
  EXPECT_FALSE(HasInterface("no-such-card"));
  EXPECT_EQ(SourceTowards(Address("127.0.0.1"))->ToString(), "127.0.0.1");
  EXPECT_EQ(Resolve("127.0.0.7")->ToString(), "127.0.0.7");
  EXPECT_EQ(Resolve("").status().code(), absl::StatusCode::kNotFound);
}

TEST(LinkOfThisHost, NamesTheSameHostWhateverTheAddress) {
  const HostLink link = LinkOfThisHost("127.0.0.1");
  EXPECT_FALSE(link.host.empty());
  EXPECT_EQ(LinkOfThisHost("no address").host, link.host);
  EXPECT_EQ(LinkOfThisHost("192.0.2.1").host, link.host);
}

TEST(LinkOfThisHost, KnowsNoRateOfLoopbackAndOfAddressesThatThereAreNot) {
  EXPECT_EQ(LinkOfThisHost("127.0.0.1").bytes_per_s, 0);
  EXPECT_EQ(LinkOfThisHost("192.0.2.1").bytes_per_s, 0);
  EXPECT_EQ(LinkOfThisHost("no address").bytes_per_s, 0);
}

}  // namespace
}  // namespace strata::net
