#include "common/transport/zmq/zmq_endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <zmq.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/transport/endpoint_conformance.h"
#include "common/unique_fd.h"

namespace strata::transport {
namespace {

// A DEALER that sends whatever the test says.
class RawDealer {
 public:
  explicit RawDealer(const std::string& address) {
    socket_ = zmq_socket(context_, ZMQ_DEALER);
    const int linger = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &linger, sizeof linger);
    EXPECT_EQ(zmq_connect(socket_, address.c_str()), 0);
  }
  ~RawDealer() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }

  void Send(const std::vector<std::string>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      const int flags = i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
      ASSERT_EQ(zmq_send(socket_, parts[i].data(), parts[i].size(), flags),
                static_cast<int>(parts[i].size()));
    }
  }

 private:
  void* context_ = zmq_ctx_new();
  void* socket_;
};

// A TCP socket without ZeroMQ.
class RawTcp {
 public:
  RawTcp() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}

  static sockaddr_in Loopback(int port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void Connect(int port) {
    const sockaddr_in address = Loopback(port);
    ASSERT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  // Listens without accepting; the kernel does. Returns the port.
  int Listen() {
    sockaddr_in address = Loopback(0);
    socklen_t size = sizeof address;
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_.get(), 4), 0);
    EXPECT_EQ(getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  void Send(const std::string& bytes) {
    EXPECT_GE(send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), 0);
  }

  void AwaitBytes(size_t count) {
    std::string bytes(count, '\0');
    EXPECT_EQ(recv(fd_.get(), bytes.data(), count, MSG_WAITALL), static_cast<ssize_t>(count));
  }
  // Sends what the kernel takes at once, continuing after the previous call. Returns false if the
  // peer has closed the connection.
  bool SendSome(const std::string& bytes) {
    const ssize_t sent =
        send(fd_.get(), bytes.data() + sent_, bytes.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) sent_ = (sent_ + sent) % bytes.size();
    return sent >= 0 || errno == EAGAIN;
  }

 private:
  UniqueFd fd_;
  size_t sent_ = 0;
};

// ZMTP 3.0 by hand (rfc.zeromq.org/spec/23): greeting and READY of a DEALER.
std::string ZmtpOpening() {
  return std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0') +
         std::string("\4\x1c\5READY\x0bSocket-Type\0\0\0\6DEALER", 30);
}

// A part of 200 bytes that announces another one.
std::string ZmtpPart() { return "\x01\xc8" + std::string(200, 'x'); }

using Kind = Event::Kind;

std::unique_ptr<Endpoint> Create(const ZmqOptions& options) {
  absl::StatusOr<std::unique_ptr<Endpoint>> endpoint = CreateZmqEndpoint(options);
  EXPECT_TRUE(endpoint.ok()) << endpoint.status();
  return *std::move(endpoint);
}

ZmqOptions OptionsOf(const Implementation::Limits& limits) {
  ZmqOptions options;
  options.payload_bytes_max = limits.payload_bytes_max;
  options.queue_bytes_max = limits.queue_bytes_max;
  options.queue_frames_max = limits.queue_frames_max;
  return options;
}

std::unique_ptr<Endpoint> OverTcp(const Implementation::Limits& limits) {
  return Create(OptionsOf(limits));
}

std::unique_ptr<Endpoint> WithRegions(const Implementation::Limits& limits) {
  ZmqOptions options = OptionsOf(limits);
  options.memory = *RegionMemory::Create(64 << 20);
  return Create(options);
}

INSTANTIATE_TEST_SUITE_P(Zmq, EndpointConformance,
                         testing::Values(Implementation{&OverTcp}, Implementation{&WithRegions}));

std::string Header(const wire::Frame& frame) {
  const auto bytes = wire::EncodeHeader(frame.header, frame.payload.size());
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string Payload(const wire::Frame& frame) {
  return std::string(reinterpret_cast<const char*>(frame.payload.data()), frame.payload.size());
}

class ZmqEndpointTest : public EndpointConformance {};
INSTANTIATE_TEST_SUITE_P(Zmq, ZmqEndpointTest, testing::Values(Implementation{&OverTcp}));

TEST_P(ZmqEndpointTest, WrongNumbersOfPartsAndBadFramesAreMalformedAndTheNextFrameArrives) {
  Party server = Create();
  RawDealer dealer(Listen(&server));
  const wire::Frame frame = MakeFrame(5, 8);
  std::string corrupt = Header(frame);
  corrupt[30] ^= 1;
  const std::vector<std::vector<std::string>> bad = {
      {""},                                      // one empty part
      {"short"},                                 //
      {Header(frame)},                           // its payload is missing
      {Header(frame), Payload(frame) + "x"},     //
      {corrupt, Payload(frame)},                 //
      {Header(frame), Payload(frame), "third"},  //
      {"", Header(frame), Payload(frame)},       // as a REQ socket would send
      {Header(MakeFrame(1, 0)), ""},             // an empty second part
      {std::string(1 << 20, 'x')},               //
      std::vector<std::string>(100, "part"),     //
  };
  for (const std::vector<std::string>& parts : bad) dealer.Send(parts);
  dealer.Send({Header(frame), Payload(frame)});
  ASSERT_TRUE(PollUntil({&server}, [&] { return server.events.size() > bad.size(); }));
  for (size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(server.events[i].kind, Kind::kMalformed) << i;
    EXPECT_EQ(server.events[i].error.code(), absl::StatusCode::kInvalidArgument) << i;
    EXPECT_EQ(server.events[i].connection, server.events[0].connection);
  }
  EXPECT_EQ(server.events.back().kind, Kind::kFrame);
  EXPECT_EQ(server.events.back().frame.header, frame.header);
}

TEST_P(ZmqEndpointTest, GarbageFromATcpSocketIsIgnoredAndOthersAreServed) {
  Party server = Create(), client = Create();
  const absl::StatusOr<int> port = server.endpoint->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(port.ok());
  RawTcp silent, http, noise, greeting;
  silent.Connect(*port);
  http.Connect(*port);
  http.Send("GET / HTTP/1.1\r\nHost: strata\r\n\r\n");
  noise.Connect(*port);
  noise.Send(std::string(100000, '\xff'));
  greeting.Connect(*port);  // a ZMTP 3 greeting, then garbage
  greeting.Send(std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL", 16) + std::string(48, '\0') +
                std::string(5000, '\x07'));
  Join(&client, &server, "tcp://127.0.0.1:" + std::to_string(*port));
  EXPECT_TRUE(server.events.empty());
}

TEST_P(ZmqEndpointTest, ConnectionsThatEndWithoutAWholeMessageAreCounted) {
  Party server = Create(), client = Create();
  const absl::StatusOr<int> port = server.endpoint->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(port.ok());
  {
    RawTcp silent, http;
    silent.Connect(*port);
    http.Connect(*port);
    http.Send("GET / HTTP/1.1\r\nHost: strata\r\n\r\n");
  }
  ASSERT_TRUE(PollUntil({&server}, [&] { return server.endpoint->use().silent == 2; }));
  // A peer that has sent something is not one of them.
  const Link link = Join(&client, &server, "tcp://127.0.0.1:" + std::to_string(*port));
  client.endpoint->Close(link.client);
  ASSERT_TRUE(PollUntil({&server}, [&] { return server.endpoint->use().connections == 0; }));
  EXPECT_EQ(server.endpoint->use().silent, 2u);
}

TEST_P(ZmqEndpointTest, AMessageWithoutEndEndsItsConnectionAndOthersAreServed) {
  ZmqOptions options;
  options.payload_bytes_max = 1 << 20;
  options.stranger_bytes_max = 1 << 16;
  Party server{transport::Create(options), {}}, client = Create();
  const absl::StatusOr<int> port = server.endpoint->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(port.ok());
  const Link link = Join(&client, &server, "tcp://127.0.0.1:" + std::to_string(*port));
  server.endpoint->Admit(link.server, nullptr);
  RawTcp endless;
  endless.Connect(*port);
  endless.Send(ZmtpOpening());
  endless.AwaitBytes(ZmtpOpening().size());  // the server's; earlier bytes count as such
  std::string parts;
  while (parts.size() < 20'000) parts += ZmtpPart();
  uint64_t clock = 0;
  ASSERT_TRUE(PollUntil({&client, &server}, [&] {
    EXPECT_TRUE(client.endpoint->Send(link.client, MakeFrame(++clock, 1)).ok());
    return !endless.SendSome(parts);
  }));
  EXPECT_EQ(server.endpoint->use().endless, 1u);
  // Large frames that come faster than they are received are not endless.
  constexpr int kFrames = 40;
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return server.events.size() == clock; }));
  for (int i = 0; i < kFrames; ++i) {
    ASSERT_TRUE(client.endpoint->Send(link.client, MakeFrame(++clock, (1 << 20) / 4)).ok());
  }
  for (int i = 0; i < 5; ++i) client.Poll(absl::Milliseconds(100));
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return server.events.size() == clock; }));
  EXPECT_EQ(server.Of(Kind::kFrame).size(), clock);
  EXPECT_EQ(server.endpoint->use().endless, 1u);
}

TEST_P(ZmqEndpointTest, AnAddressThatAcceptsButNeverAnswersIsGivenUpInTime) {
  RawTcp mute;
  const int port = mute.Listen();
  ZmqOptions options;
  options.connect_timeout = absl::Milliseconds(200);
  Party client{transport::Create(options), {}};
  ASSERT_TRUE(client.endpoint->Connect("tcp://127.0.0.1:" + std::to_string(port)).ok());
  ASSERT_TRUE(PollUntil({&client}, [&] { return !client.events.empty(); }));
  EXPECT_EQ(client.events[0].kind, Kind::kDisconnected);
  EXPECT_NE(client.events[0].error.message().find(std::to_string(port)), absl::string_view::npos);
  EXPECT_NE(client.events[0].error.message().find("not connected in time"), absl::string_view::npos)
      << client.events[0].error;
}

TEST_P(ZmqEndpointTest, PayloadsAreAlignedForFloatsWhateverTheirSize) {
  Party server = Create(), client = Create();
  const Link link = Join(&client, &server, Listen(&server));
  for (size_t floats = 1; floats < 200; ++floats) {
    ASSERT_TRUE(client.endpoint->Send(link.client, MakeFrame(floats, floats)).ok());
  }
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return server.events.size() == 199; }));
  for (const Event& event : server.events) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(event.frame.payload.floats()) % alignof(float), 0);
    EXPECT_EQ(event.frame.payload.floats()[0], event.frame.header.clock);
  }
}

TEST_P(ZmqEndpointTest, ConnectionsThatComeAndGoLeaveNothingBehind) {
  Party server = Create();
  const std::string address = Listen(&server);
  for (int i = 0; i < 30; ++i) {
    Party client = Create();
    const Link link = Join(&client, &server, address);
    client.endpoint.reset();
    ASSERT_TRUE(PollUntil({&server}, [&] { return !server.events.empty(); }));
    ASSERT_EQ(server.events.size(), 1);
    EXPECT_EQ(server.events[0].kind, Kind::kDisconnected);
    EXPECT_EQ(server.events[0].connection, link.server);
    server.events.clear();
  }
}

TEST_P(ZmqEndpointTest, APeerThatLeavesRightAfterItsFrameIsReportedToo) {
  Party server = Create();
  const std::string address = Listen(&server);
  {
    RawDealer dealer(address);
    dealer.Send({Header(MakeFrame(1, 0))});
    absl::SleepFor(absl::Milliseconds(100));  // the server's socket takes it in unseen
  }
  ASSERT_TRUE(PollUntil({&server}, [&] { return server.events.size() >= 2; }));
  EXPECT_EQ(server.events[0].kind, Kind::kFrame);
  EXPECT_EQ(server.events[1].kind, Kind::kDisconnected);
  EXPECT_EQ(server.events[1].connection, server.events[0].connection);
}

class ConnectionLimitTest : public testing::Test {
 protected:
  ConnectionLimitTest() {
    server_ = *CreateZmqEndpoint(
        {.connections_max = 2, .strangers_max = 1, .stranger_timeout = absl::Seconds(2)});
    client_ = *CreateZmqEndpoint({});
    address_ = absl::StrFormat("tcp://127.0.0.1:%d", *server_->Listen("tcp://127.0.0.1:0"));
  }

  // Connects, and waits until a frame of this clock has reached the server; returns the client's
  // id.
  ConnectionId Connect(uint64_t clock, bool is_admitted) {
    const ConnectionId id = *client_->Connect(address_);
    EXPECT_TRUE(client_->Send(id, MakeFrame(clock)).ok());
    const Event event = NextAtServer();
    EXPECT_EQ(event.frame.header.clock, clock);
    if (is_admitted) server_->Admit(event.connection, nullptr);
    return id;
  }
  static wire::Frame MakeFrame(uint64_t clock) {
    wire::Frame frame;
    frame.header.op = wire::Op::kCut;
    frame.header.clock = clock;
    return frame;
  }
  Event NextAtServer() { return Next(&at_server_); }
  Event NextAtClient() { return Next(&at_client_); }
  // Polls both until that one has an event, at most 20 s.
  Event Next(std::vector<Event>* events) {
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    while (events->empty() && absl::Now() < deadline) {
      client_->Poll(absl::Milliseconds(5), &at_client_);
      server_->Poll(absl::Milliseconds(5), &at_server_);
    }
    EXPECT_FALSE(events->empty());
    if (events->empty()) return {};
    Event event = std::move(events->front());
    events->erase(events->begin());
    return event;
  }

  std::unique_ptr<Endpoint> server_, client_;
  std::string address_;
  std::vector<Event> at_server_, at_client_;
};

TEST_F(ConnectionLimitTest, OneTooManyEndsTheOldestStrangerAndThoseWhoWereAdmittedStay) {
  const ConnectionId first = Connect(1, /*is_admitted=*/true);
  const ConnectionId second = Connect(2, /*is_admitted=*/true);
  const ConnectionId stranger = Connect(3, /*is_admitted=*/false);
  EXPECT_EQ(server_->use().connections, 3u);
  EXPECT_EQ(server_->use().refused, 0u);
  const ConnectionId fourth = Connect(4, /*is_admitted=*/true);
  const Event ended = NextAtClient();
  EXPECT_EQ(ended.kind, Kind::kDisconnected);
  EXPECT_EQ(ended.connection, stranger);
  EXPECT_EQ(server_->use().refused, 1u);
  // Now that all were admitted, it is the newest.
  const ConnectionId fifth = *client_->Connect(address_);
  ASSERT_TRUE(client_->Send(fifth, MakeFrame(5)).ok());
  EXPECT_EQ(NextAtClient().connection, fifth);
  EXPECT_EQ(server_->use().refused, 2u);
  EXPECT_EQ(NextAtServer().kind, Kind::kDisconnected) << "the stranger's end";
  for (const ConnectionId id : {first, second, fourth}) {
    ASSERT_TRUE(client_->Send(id, MakeFrame(6)).ok());
    EXPECT_EQ(NextAtServer().frame.header.clock, 6u);
  }
  // Once one has left, another may connect.
  client_->Close(second);
  EXPECT_EQ(NextAtServer().kind, Kind::kDisconnected);
  Connect(7, /*is_admitted=*/true);
  EXPECT_EQ(server_->use().refused, 2u);
}

TEST_F(ConnectionLimitTest, AStrangerIsEndedInTime) {
  const ConnectionId known = Connect(1, /*is_admitted=*/true);
  const ConnectionId stranger = Connect(2, /*is_admitted=*/false);
  const Event ended = NextAtClient();
  EXPECT_EQ(ended.connection, stranger);
  EXPECT_EQ(server_->use().late, 1u);
  EXPECT_EQ(NextAtServer().kind, Kind::kDisconnected);
  ASSERT_TRUE(client_->Send(known, MakeFrame(3)).ok());
  EXPECT_EQ(NextAtServer().frame.header.clock, 3u);
  EXPECT_EQ(server_->use().connections, 1u);
  EXPECT_EQ(server_->use().silent, 0u);
}

TEST(ZmqOptions, OutOfRangeValuesAreRefusedByName) {
  const std::vector<std::pair<std::string, void (*)(ZmqOptions*)>> cases = {
      {"payload_bytes_max", [](ZmqOptions* o) { o->payload_bytes_max = 0; }},
      {"payload_bytes_max", [](ZmqOptions* o) { o->payload_bytes_max = uint64_t{1} << 40; }},
      {"queue_bytes_max", [](ZmqOptions* o) { o->queue_bytes_max = 0; }},
      {"queue_frames_max", [](ZmqOptions* o) { o->queue_frames_max = 0; }},
      {"connect_timeout", [](ZmqOptions* o) { o->connect_timeout = absl::ZeroDuration(); }},
      {"silence_timeout", [](ZmqOptions* o) { o->silence_timeout = absl::InfiniteDuration(); }},
  };
  for (const auto& [field, change] : cases) {
    ZmqOptions options;
    change(&options);
    const absl::Status status = CreateZmqEndpoint(options).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_NE(status.message().find(field), absl::string_view::npos) << status;
  }
}

}  // namespace
}  // namespace strata::transport
