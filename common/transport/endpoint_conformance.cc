#include "common/transport/endpoint_conformance.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace strata::transport {

using Kind = Event::Kind;

constexpr absl::Duration kDeadline = absl::Seconds(60);

std::vector<Event> Party::Of(Kind kind) const {
  std::vector<Event> chosen;
  for (const Event& event : events) {
    if (event.kind == kind) chosen.push_back(event);
  }
  return chosen;
}

Party EndpointConformance::Create(const Implementation::Limits& limits) const {
  return Party{GetParam().create(limits), {}};
}

std::string EndpointConformance::Listen(Party* party) const {
  const absl::StatusOr<int> port = party->endpoint->Listen("tcp://127.0.0.1:0");
  EXPECT_TRUE(port.ok()) << port.status();
  return absl::StrFormat("tcp://127.0.0.1:%d", port.ok() ? *port : 0);
}

bool EndpointConformance::PollUntil(const std::vector<Party*>& parties,
                                    const std::function<bool()>& done) {
  const absl::Time deadline = absl::Now() + kDeadline;
  while (!done()) {
    if (absl::Now() > deadline) return false;
    for (Party* party : parties) party->Poll(absl::Milliseconds(2));
  }
  return true;
}

EndpointConformance::Link EndpointConformance::Join(Party* client, Party* server,
                                                    const std::string& address) const {
  Link link;
  const absl::StatusOr<ConnectionId> connected = client->endpoint->Connect(address);
  EXPECT_TRUE(connected.ok()) << connected.status();
  link.client = *connected;
  const size_t server_before = server->events.size(), client_before = client->events.size();
  EXPECT_TRUE(client->endpoint->Send(link.client, MakeFrame(0, 1)).ok());
  EXPECT_TRUE(PollUntil({client, server}, [&] { return server->events.size() > server_before; }));
  EXPECT_EQ(server->events.back().kind, Kind::kFrame);
  link.server = server->events.back().connection;
  EXPECT_TRUE(server->endpoint->Send(link.server, MakeFrame(0, 1)).ok());
  EXPECT_TRUE(PollUntil({client, server}, [&] { return client->events.size() > client_before; }));
  EXPECT_EQ(client->events.back().kind, Kind::kFrame);
  EXPECT_EQ(client->events.back().connection, link.client);
  client->events.clear();
  server->events.clear();
  return link;
}

wire::Frame EndpointConformance::MakeFrame(uint64_t clock, size_t floats) {
  auto values = std::make_shared<std::vector<float>>(floats, static_cast<float>(clock));
  const auto* bytes = reinterpret_cast<const std::byte*>(values->data());
  wire::Frame frame;
  frame.payload = Bytes(values, bytes, floats * sizeof(float));
  frame.header.op = wire::Op::kPushPull;
  frame.header.job = 7;
  frame.header.clock = clock;
  frame.header.element_count = static_cast<uint32_t>(floats);
  frame.header.payload_checksum =
      wire::Checksum(absl::MakeConstSpan(frame.payload.data(), frame.payload.size()));
  return frame;
}

wire::Header EndpointConformance::ReceivedHeader(uint64_t clock, size_t floats) const {
  wire::Header header = MakeFrame(clock, floats).header;
  if (!GetParam().tells_checksums) header.payload_checksum = 0;
  return header;
}

std::string EndpointConformance::ClosedAddress() const {
  Party party = Create();
  return Listen(&party);
}

TEST_P(EndpointConformance, FramesArriveWholeAndInOrderBothWays) {
  Party server = Create(), client = Create();
  const Link link = Join(&client, &server, Listen(&server));
  constexpr uint64_t kFrames = 300;
  for (uint64_t clock = 0; clock < kFrames; ++clock) {
    ASSERT_TRUE(client.endpoint->Send(link.client, MakeFrame(clock, clock % 50)).ok());
    ASSERT_TRUE(server.endpoint->Send(link.server, MakeFrame(clock, clock % 3)).ok());
  }
  ASSERT_TRUE(PollUntil({&client, &server}, [&] {
    return server.events.size() >= kFrames && client.events.size() >= kFrames;
  }));
  for (uint64_t clock = 0; clock < kFrames; ++clock) {
    const Event& up = server.events[clock];
    ASSERT_EQ(up.kind, Kind::kFrame) << up.error;
    EXPECT_EQ(up.connection, link.server);
    EXPECT_EQ(up.frame.header, ReceivedHeader(clock, clock % 50));
    ASSERT_EQ(up.frame.payload.float_count(), clock % 50);
    for (size_t i = 0; i < up.frame.payload.float_count(); ++i) {
      ASSERT_EQ(up.frame.payload.floats()[i], static_cast<float>(clock));
    }
    ASSERT_EQ(client.events[clock].kind, Kind::kFrame);
    EXPECT_EQ(client.events[clock].frame.header, ReceivedHeader(clock, clock % 3));
  }
}

TEST_P(EndpointConformance, APayloadOfExactlyTheLimitArrives) {
  const Implementation::Limits limits = {.payload_bytes_max = 4 << 20};
  Party server = Create(limits), client = Create(limits);
  const Link link = Join(&client, &server, Listen(&server));
  const wire::Frame frame = MakeFrame(3, limits.payload_bytes_max / sizeof(float));
  ASSERT_TRUE(client.endpoint->Send(link.client, frame).ok());
  ASSERT_TRUE(server.endpoint->Send(link.server, frame).ok());
  ASSERT_TRUE(PollUntil({&client, &server},
                        [&] { return !server.events.empty() && !client.events.empty(); }));
  EXPECT_EQ(server.events[0].frame.payload.size(), limits.payload_bytes_max);
  EXPECT_EQ(client.events[0].frame.payload.size(), limits.payload_bytes_max);
}

TEST_P(EndpointConformance, APayloadOverTheLimitIsRefusedBySend) {
  const Implementation::Limits limits = {.payload_bytes_max = 4096};
  Party server = Create(limits), client = Create(limits);
  const Link link = Join(&client, &server, Listen(&server));
  const wire::Frame frame = MakeFrame(3, 1025);
  EXPECT_EQ(client.endpoint->Send(link.client, frame).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(server.endpoint->Send(link.server, frame).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(client.endpoint->Send(link.client, MakeFrame(4, 1024)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  EXPECT_EQ(server.events[0].frame.header.clock, 4);
}

TEST_P(EndpointConformance, APeerWithALowerLimitNeverSeesALargerPayload) {
  Party server = Create({.payload_bytes_max = 4096}), client = Create();
  const Link link = Join(&client, &server, Listen(&server));
  ASSERT_TRUE(client.endpoint->Send(link.client, MakeFrame(1, 2048)).ok());
  ASSERT_TRUE(PollUntil({&client, &server},
                        [&] { return !client.events.empty() && !server.events.empty(); }));
  EXPECT_EQ(client.events[0].kind, Kind::kDisconnected);
  EXPECT_NE(server.events[0].kind, Kind::kFrame);
}

TEST_P(EndpointConformance, AClosedPortIsReportedAsADisconnection) {
  Party client = Create();
  const absl::StatusOr<ConnectionId> id = client.endpoint->Connect(ClosedAddress());
  ASSERT_TRUE(id.ok());
  ASSERT_TRUE(client.endpoint->Send(*id, MakeFrame(1, 1)).ok());
  ASSERT_TRUE(PollUntil({&client}, [&] { return !client.events.empty(); }));
  EXPECT_EQ(client.events[0].kind, Kind::kDisconnected);
  EXPECT_EQ(client.events[0].connection, *id);
  EXPECT_EQ(client.endpoint->Send(*id, MakeFrame(1, 1)).code(), absl::StatusCode::kNotFound);
}

TEST_P(EndpointConformance, AServerThatGoesIsReportedOnce) {
  Party server = Create(), client = Create();
  const Link link = Join(&client, &server, Listen(&server));
  server.endpoint.reset();
  ASSERT_TRUE(PollUntil({&client}, [&] { return !client.events.empty(); }));
  EXPECT_EQ(client.events[0].kind, Kind::kDisconnected);
  EXPECT_EQ(client.events[0].connection, link.client);
  client.Poll(absl::Milliseconds(50));
  EXPECT_EQ(client.events.size(), 1);
  EXPECT_EQ(client.endpoint->Send(link.client, MakeFrame(1, 1)).code(),
            absl::StatusCode::kNotFound);
}

TEST_P(EndpointConformance, AClientThatGoesIsReportedOnceAfterItsLastFrames) {
  Party server = Create(), client = Create();
  const Link link = Join(&client, &server, Listen(&server));
  ASSERT_TRUE(client.endpoint->Send(link.client, MakeFrame(1, 1)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  client.endpoint.reset();
  ASSERT_TRUE(PollUntil({&server}, [&] { return server.events.size() >= 2; }));
  EXPECT_EQ(server.events[0].kind, Kind::kFrame);
  EXPECT_EQ(server.events[1].kind, Kind::kDisconnected);
  EXPECT_EQ(server.events[1].connection, link.server);
  server.Poll(absl::Milliseconds(50));
  EXPECT_EQ(server.events.size(), 2);
  EXPECT_EQ(server.endpoint->Send(link.server, MakeFrame(1, 1)).code(),
            absl::StatusCode::kNotFound);
}

TEST_P(EndpointConformance, ConnectingAgainGivesNewIdsOnBothSides) {
  Party server = Create(), client = Create();
  const std::string address = Listen(&server);
  const Link first = Join(&client, &server, address);
  client.endpoint->Close(first.client);
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  EXPECT_EQ(server.events[0].kind, Kind::kDisconnected);
  const Link second = Join(&client, &server, address);
  EXPECT_NE(second.client, first.client);
  EXPECT_NE(second.server, first.server);
}

TEST_P(EndpointConformance, ClosingSaysNothingToTheCallerAndDropsWhatComesLater) {
  Party server = Create(), client = Create();
  const Link link = Join(&client, &server, Listen(&server));
  server.endpoint->Close(link.server);
  EXPECT_EQ(server.endpoint->Send(link.server, MakeFrame(1, 1)).code(),
            absl::StatusCode::kNotFound);
  (void)client.endpoint->Send(link.client, MakeFrame(1, 1));
  for (int i = 0; i < 50; ++i) {
    client.Poll(absl::Milliseconds(2));
    server.Poll(absl::Milliseconds(2));
  }
  EXPECT_TRUE(server.events.empty());
}

TEST_P(EndpointConformance, BothSidesCanCutAndTheOtherOneLearnsOfIt) {
  Party server = Create(), client = Create();
  const std::string address = Listen(&server);
  const Link first = Join(&client, &server, address);
  server.endpoint->Cut(first.server);
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !client.events.empty(); }));
  EXPECT_EQ(client.events[0].kind, Kind::kDisconnected);
  EXPECT_TRUE(server.events.empty());
  client.events.clear();
  const Link second = Join(&client, &server, address);
  client.endpoint->Cut(second.client);
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  EXPECT_EQ(server.events[0].kind, Kind::kDisconnected);
  EXPECT_EQ(server.events[0].connection, second.server);
  EXPECT_TRUE(client.events.empty());
}

TEST_P(EndpointConformance, APeerThatDoesNotReceiveFillsABoundedQueueAndLosesNothing) {
  const Implementation::Limits limits = {.queue_bytes_max = 8 << 20};
  Party server = Create(limits), client = Create(limits);
  const Link link = Join(&client, &server, Listen(&server));
  constexpr size_t kFloats = 1 << 18;  // 1 MiB
  uint64_t taken = 0;
  absl::Status refused;
  // The server does not poll. Its kernel's buffers and receive queue are limited as well.
  for (int idle = 0; idle < 200 && taken < 2000;) {
    const absl::Status sent = client.endpoint->Send(link.client, MakeFrame(taken, kFloats));
    if (sent.ok()) {
      ++taken;
      idle = 0;
    } else {
      refused = sent;
      ++idle;
      client.Poll(absl::Milliseconds(2));
    }
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_LT(taken, 500);
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return server.events.size() >= taken; }));
  for (uint64_t i = 0; i < taken; ++i) EXPECT_EQ(server.events[i].frame.header.clock, i);
  EXPECT_TRUE(client.endpoint->Send(link.client, MakeFrame(taken, kFloats)).ok());
}

TEST_P(EndpointConformance, AClientThatDoesNotReceiveHoldsUpNoOther) {
  const Implementation::Limits limits = {.queue_bytes_max = 8 << 20, .queue_frames_max = 100};
  Party server = Create(limits), slow = Create(limits), quick = Create(limits);
  const std::string address = Listen(&server);
  const Link to_slow = Join(&slow, &server, address);
  const Link to_quick = Join(&quick, &server, address);
  absl::Status refused;
  for (int idle = 0; idle < 50;) {
    const absl::Status sent = server.endpoint->Send(to_slow.server, MakeFrame(1, 1 << 18));
    if (!sent.ok()) refused = sent;
    idle = sent.ok() ? 0 : idle + 1;
    if (!sent.ok()) server.Poll(absl::Milliseconds(2));
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  for (uint64_t clock = 0; clock < 20; ++clock) {
    ASSERT_TRUE(server.endpoint->Send(to_quick.server, MakeFrame(clock, 1000)).ok());
  }
  EXPECT_TRUE(PollUntil({&server, &quick}, [&] { return quick.events.size() >= 20; }));
}

TEST_P(EndpointConformance, TheQueueIsBoundedInFramesToo) {
  Party client = Create({.queue_frames_max = 10});
  // Nothing can leave: the connection is not up.
  const absl::StatusOr<ConnectionId> id = client.endpoint->Connect(ClosedAddress());
  ASSERT_TRUE(id.ok());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client.endpoint->Send(*id, MakeFrame(i, 0)).ok());
  EXPECT_EQ(client.endpoint->Send(*id, MakeFrame(10, 0)).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST_P(EndpointConformance, APayloadIsReleasedOnceItHasLeft) {
  Party server = Create(), client = Create();
  const Link link = Join(&client, &server, Listen(&server));
  auto owner = std::make_shared<std::vector<float>>(1 << 20, 1.0f);
  const std::weak_ptr<std::vector<float>> watch = owner;
  wire::Frame frame = MakeFrame(1, 1 << 20);
  frame.payload = Bytes(owner, reinterpret_cast<const std::byte*>(owner->data()), 4 << 20);
  ASSERT_TRUE(client.endpoint->Send(link.client, frame).ok());
  frame = {};
  owner.reset();
  EXPECT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  server.events.clear();  // the receiver may share it
  EXPECT_TRUE(PollUntil({&client, &server}, [&] { return watch.expired(); }));
}

TEST_P(EndpointConformance, WakeEndsAWaitingPollAndTheNextOne) {
  Party party = Create();
  party.endpoint->Wake();
  party.Poll(kDeadline);  // the next one
  std::thread waker([&] {
    absl::SleepFor(absl::Milliseconds(20));
    party.endpoint->Wake();
  });
  const absl::Time begin = absl::Now();
  party.Poll(kDeadline);
  EXPECT_LT(absl::Now() - begin, kDeadline);
  waker.join();
  // The rings are used up.
  party.Poll(absl::ZeroDuration());  // also the second one, where Poll did not wait for it
  const absl::Time quiet = GetParam().now();
  party.Poll(absl::Milliseconds(30));
  EXPECT_GE(GetParam().now() - quiet, absl::Milliseconds(29));
  EXPECT_TRUE(party.events.empty());
}

TEST_P(EndpointConformance, AWatchedDescriptorEndsAWaitingPoll) {
  Party party = Create();
  const int fd = eventfd(0, EFD_NONBLOCK);
  party.endpoint->WatchFd(fd);
  const uint64_t one = 1;
  ASSERT_EQ(write(fd, &one, sizeof one), static_cast<ssize_t>(sizeof one));
  const absl::Time begin = absl::Now();
  party.Poll(kDeadline);
  EXPECT_LT(absl::Now() - begin, kDeadline);
  close(fd);
}

TEST_P(EndpointConformance, ManyConnectionsAreToldApart) {
  constexpr int kClients = 40;
  Party server = Create();
  const std::string address = Listen(&server);
  Party client = Create();
  std::vector<Link> links;
  std::set<ConnectionId> ids;
  for (int i = 0; i < kClients; ++i) {
    links.push_back(Join(&client, &server, address));
    ids.insert(links.back().server);
  }
  EXPECT_EQ(ids.size(), kClients);
  for (int i = 0; i < kClients; ++i) {
    ASSERT_TRUE(server.endpoint->Send(links[i].server, MakeFrame(i, 10)).ok());
  }
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return client.events.size() >= kClients; }));
  for (const Event& event : client.events) {
    EXPECT_EQ(event.connection, links[event.frame.header.clock].client);
  }
}

TEST_P(EndpointConformance, AnUnknownConnectionIsRefused) {
  Party server = Create();
  Listen(&server);
  EXPECT_EQ(server.endpoint->Send(ConnectionId(12345), MakeFrame(1, 1)).code(),
            absl::StatusCode::kNotFound);
  server.endpoint->Close(ConnectionId(12345));
}

TEST_P(EndpointConformance, BadAddressesAreRefusedByName) {
  Party party = Create();
  for (const std::string address :
       {"", "127.0.0.1:80", "tcp://", "tcp://host", "tcp://:80", "tcp://host:", "tcp://host:70000",
        "tcp://host:-1", "tcp://a b:80", "udp://127.0.0.1:80", "tcp://host:80x"}) {
    const absl::Status listened = party.endpoint->Listen(address).status();
    const absl::Status connected = party.endpoint->Connect(address).status();
    EXPECT_EQ(listened.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_EQ(connected.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_NE(connected.message().find("\"" + address + "\""), absl::string_view::npos);
  }
}

TEST_P(EndpointConformance, APortInUseIsRefusedByName) {
  Party first = Create(), second = Create();
  const std::string address = Listen(&first);
  const absl::Status refused = second.endpoint->Listen(address).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_NE(refused.message().find(address), absl::string_view::npos) << refused;
}

}  // namespace strata::transport
