#include "compare/virtual_time/link_medium.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace strata::compare {
namespace {

using transport::ConnectionId;
using transport::Event;

// A host that keeps what comes, and when.
struct Peer {
  Peer(transport::SimNetwork* network, uint32_t host)
      : endpoint(network, VirtualEndpoint(host, [this, network] {
                   endpoint.Poll(absl::InfiniteDuration(), &events);
                   while (at_s.size() < events.size()) at_s.push_back(network->clock().Seconds());
                 })) {}

  std::vector<Event> events;
  std::vector<double> at_s;
  transport::SimEndpoint endpoint;
};

class LinkMediumTest : public testing::Test {
 protected:
  static constexpr double kRate = 1e6;  // bytes per second

  std::unique_ptr<Peer> MakePeer(double rate = kRate, absl::Duration latency = {},
                                 const std::string& site = "", absl::Duration jitter = {}) {
    return std::make_unique<Peer>(&network_, medium_.AddHost({rate, latency, jitter}, site));
  }
  std::unique_ptr<Peer> Listener(const std::string& address, double rate = kRate,
                                 absl::Duration latency = {}, const std::string& site = "") {
    auto peer = MakePeer(rate, latency, site);
    EXPECT_EQ(peer->endpoint.Listen(address).status(), absl::OkStatus());
    return peer;
  }
  static wire::Frame FrameOf(size_t bytes, uint64_t clock = 0) {
    const auto payload = std::make_shared<std::vector<std::byte>>(bytes);
    wire::Frame frame;
    frame.header.clock = clock;
    frame.payload = Bytes(payload, payload->data(), bytes);
    return frame;
  }
  // Time that a frame occupies a link of kRate.
  static double SecondsOf(size_t bytes) { return (128.0 + bytes) * 1514 / 1448 / kRate; }
  void RunAll() {
    while (clock_.RunOne()) {
    }
  }

  transport::SimClock clock_;
  LinkMedium medium_{&clock_, 1e9, 1};
  transport::SimNetwork network_{&clock_, &medium_};
};

TEST_F(LinkMediumTest, AFrameTakesItsBytesOnceAndBothLatencies) {
  auto to = Listener("to", kRate, absl::Milliseconds(3));
  auto from = MakePeer(kRate, absl::Milliseconds(2));
  const ConnectionId connection = *from->endpoint.Connect("to");
  ASSERT_EQ(from->endpoint.Send(connection, FrameOf(10000)), absl::OkStatus());
  RunAll();
  ASSERT_EQ(to->at_s.size(), 1u);
  EXPECT_NEAR(to->at_s[0], SecondsOf(10000) + 0.005, 1e-6);
  EXPECT_EQ(to->events[0].frame.payload.size(), 10000u);
  EXPECT_EQ(to->events[0].frame.header.payload_checksum,
            wire::PayloadChecksum(FrameOf(10000).payload));
  // The way back is as long.
  ASSERT_EQ(to->endpoint.Send(to->events[0].connection, FrameOf(0)), absl::OkStatus());
  RunAll();
  ASSERT_EQ(from->at_s.size(), 1u);
  EXPECT_NEAR(from->at_s[0] - to->at_s[0], SecondsOf(0) + 0.005, 1e-6);
  EXPECT_NEAR(medium_.bytes_between_hosts(), (SecondsOf(10000) + SecondsOf(0)) * kRate, 1e-6);
}

TEST_F(LinkMediumTest, FramesLeaveOneAfterTheOther) {
  auto one = Listener("one"), two = Listener("two");
  auto from = MakePeer();
  const ConnectionId to_one = *from->endpoint.Connect("one");
  const ConnectionId to_two = *from->endpoint.Connect("two");
  ASSERT_EQ(from->endpoint.Send(to_one, FrameOf(10000)), absl::OkStatus());
  ASSERT_EQ(from->endpoint.Send(to_two, FrameOf(10000)), absl::OkStatus());
  RunAll();
  EXPECT_NEAR(one->at_s.at(0), SecondsOf(10000), 1e-6);
  EXPECT_NEAR(two->at_s.at(0), 2 * SecondsOf(10000), 1e-6);
}

TEST_F(LinkMediumTest, FramesEnterOneAfterTheOther) {
  auto to = Listener("to");
  auto one = MakePeer(), two = MakePeer();
  for (Peer* from : {one.get(), two.get()}) {
    ASSERT_EQ(from->endpoint.Send(*from->endpoint.Connect("to"), FrameOf(10000)), absl::OkStatus());
  }
  RunAll();
  ASSERT_EQ(to->at_s.size(), 2u);
  EXPECT_NEAR(to->at_s[0], SecondsOf(10000), 1e-6);
  EXPECT_NEAR(to->at_s[1], 2 * SecondsOf(10000), 1e-6);
}

TEST_F(LinkMediumTest, TheSlowerOfTwoLinksDecides) {
  auto slow = Listener("slow", kRate), quick = Listener("quick", 10 * kRate);
  ASSERT_EQ(quick->endpoint.Send(*quick->endpoint.Connect("slow"), FrameOf(10000)),
            absl::OkStatus());
  ASSERT_EQ(slow->endpoint.Send(*slow->endpoint.Connect("quick"), FrameOf(10000)),
            absl::OkStatus());
  RunAll();
  EXPECT_NEAR(slow->at_s.at(0), SecondsOf(10000), 1e-6);
  EXPECT_NEAR(quick->at_s.at(0), SecondsOf(10000), 1e-6);
}

TEST_F(LinkMediumTest, SitesShareTheLinkBetweenThem) {
  medium_.JoinSites("west", "east",
                    {.bytes_per_s = kRate / 2, .latency = absl::Milliseconds(20), .jitter = {}});
  auto near = Listener("near", kRate, {}, "west");
  auto one = Listener("one", kRate, {}, "east"), two = Listener("two", kRate, {}, "east");
  auto a = MakePeer(kRate, {}, "west"), b = MakePeer(kRate, {}, "west");
  ASSERT_EQ(a->endpoint.Send(*a->endpoint.Connect("one"), FrameOf(10000)), absl::OkStatus());
  ASSERT_EQ(b->endpoint.Send(*b->endpoint.Connect("two"), FrameOf(10000)), absl::OkStatus());
  RunAll();
  EXPECT_NEAR(one->at_s.at(0), 2 * SecondsOf(10000) + 0.020, 1e-6);
  EXPECT_NEAR(two->at_s.at(0), 4 * SecondsOf(10000) + 0.020, 1e-6);
  // The other way is free.
  const double begin = clock_.Seconds();
  ASSERT_EQ(one->endpoint.Send(one->events[0].connection, FrameOf(10000)), absl::OkStatus());
  RunAll();
  EXPECT_NEAR(a->at_s.at(0) - begin, 2 * SecondsOf(10000) + 0.020, 1e-6);
}

TEST_F(LinkMediumTest, JitterKeepsTheOrderOfAConnection) {
  auto to = Listener("to", 1e9);
  auto from = MakePeer(1e9, {}, "", absl::Milliseconds(10));
  const ConnectionId connection = *from->endpoint.Connect("to");
  for (uint64_t i = 0; i < 200; ++i) {
    ASSERT_EQ(from->endpoint.Send(connection, FrameOf(0, i)), absl::OkStatus());
  }
  RunAll();
  ASSERT_EQ(to->events.size(), 200u);
  for (uint64_t i = 0; i < 200; ++i) EXPECT_EQ(to->events[i].frame.header.clock, i);
  EXPECT_GT(to->at_s.back(), 0.009);
  EXPECT_LT(to->at_s.back(), 0.0101);
}

TEST_F(LinkMediumTest, OnOneHostOnlyMemoryTakesTime) {
  auto peer = Listener("here", 1);
  transport::SimEndpoint beside(&network_, VirtualEndpoint(0, [] {}));
  ASSERT_EQ(beside.Send(*beside.Connect("here"), FrameOf(1000000)), absl::OkStatus());
  RunAll();
  EXPECT_NEAR(peer->at_s.at(0), 1000128.0 * 1514 / 1448 / 1e9 + 15e-6, 1e-7);
  EXPECT_EQ(medium_.bytes_between_hosts(), 0);
}

TEST_F(LinkMediumTest, TheEndOfAConnectionIsToldAfterWhatWasSent) {
  auto to = Listener("to");
  auto from = MakePeer();
  const ConnectionId connection = *from->endpoint.Connect("to");
  ASSERT_EQ(from->endpoint.Send(connection, FrameOf(10000)), absl::OkStatus());
  RunAll();
  to->endpoint.Close(to->events.at(0).connection);
  RunAll();
  ASSERT_EQ(from->events.size(), 1u);
  EXPECT_EQ(from->events[0].kind, Event::Kind::kDisconnected);
  EXPECT_EQ(from->events[0].connection, connection);
  EXPECT_EQ(from->endpoint.Send(connection, FrameOf(0)).code(), absl::StatusCode::kNotFound);
}

TEST_F(LinkMediumTest, WhereNobodyListensConnectionsEnd) {
  auto from = MakePeer();
  ASSERT_EQ(from->endpoint.Connect("nowhere").status(), absl::OkStatus());
  RunAll();
  ASSERT_EQ(from->events.size(), 1u);
  EXPECT_EQ(from->events[0].kind, Event::Kind::kDisconnected);
  EXPECT_EQ(from->events[0].error.message(), "nobody listens at nowhere");
  auto one = Listener("taken");
  EXPECT_EQ(from->endpoint.Listen("taken").status().code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(LinkMediumTest, PollsTimeoutCallsAgain) {
  int calls = 0;
  transport::SimEndpoint endpoint(&network_,
                                  VirtualEndpoint(medium_.AddHost({}, ""), [&] { ++calls; }));
  std::vector<Event> events;
  endpoint.Poll(absl::Seconds(2), &events);
  endpoint.Poll(absl::Seconds(1), &events);
  RunAll();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace strata::compare
