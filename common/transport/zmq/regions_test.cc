#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "common/os/descriptors.h"
#include "common/transport/region_line.h"
#include "common/transport/region_session.h"
#include "common/transport/zmq/region_fixture.h"
#include "common/wire/region_reference.h"

// Payloads by reference between endpoints on one host.

namespace strata::transport {
namespace {

// First in this file: a process that has used ZeroMQ cannot fork one that does.
TEST(RegionsCrash, AProcessThatDiesWithBytesInItsHandsReleasesThem) {
  int ports[2];
  ASSERT_EQ(pipe(ports), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Host server;
    const auto port = server.endpoint->Listen("tcp://127.0.0.1:0");
    const int number = port.ok() ? *port : 0;
    if (write(ports[1], &number, sizeof number) != sizeof number) _exit(2);
    const auto is_shared = [](const Event& event) { return IsShared(event.frame.payload); };
    const bool came = PollUntil({&server}, [&] {
      if (!server.events.empty()) server.Admit(server.events[0].connection);
      // Others are released at once: searching all earlier ones would fall behind the sender.
      while (server.events.size() > 1) server.events.erase(server.events.begin());
      return std::any_of(server.events.begin(), server.events.end(), is_shared);
    });
    _exit(came ? 0 : 3);  // as if it were killed: nothing is released
  }
  Host client;
  int port = 0;
  ASSERT_EQ(read(ports[0], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  const ConnectionId up = *client.endpoint->Connect(absl::StrFormat("tcp://127.0.0.1:%d", port));
  ASSERT_TRUE(PollUntil({&client}, [&] {
    client.Admit(up);
    client.endpoint->Send(up, client.MakeFrame(1)).IgnoreError();
    return !client.events.empty() && client.events.back().kind == Event::Kind::kDisconnected;
  }));
  EXPECT_TRUE(PollUntil(
      {&client}, [&] { return client.pool->allocated_bytes() == client.pool->retained_bytes(); }));
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ports[0]);
  close(ports[1]);
}

class Regions : public testing::Test {
 protected:
  // Connects, and each admits the other.
  void Join(Host* client, Host* server) {
    const auto port = server->endpoint->Listen("tcp://127.0.0.1:0");
    ASSERT_TRUE(port.ok()) << port.status();
    Join(client, server, *port);
  }
  void Join(Host* client, Host* server, int port) {
    Meet(client, server, port);
    server->Admit(down_);
    client->Admit(up_);
  }
  // Connects, and neither admits the other.
  void Meet(Host* client, Host* server, int port) {
    up_ = *client->endpoint->Connect(absl::StrFormat("tcp://127.0.0.1:%d", port));
    ASSERT_TRUE(client->endpoint->Send(up_, client->MakeFrame(0)).ok());
    ASSERT_TRUE(PollUntil({client, server}, [&] { return !server->events.empty(); }));
    down_ = server->events[0].connection;
    server->events.clear();
  }
  // Sends until a payload comes by reference; returns false if none does.
  bool Attached(Host* client, Host* server) {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(client->endpoint->Send(up_, client->MakeFrame(1)).ok());
      server->events.clear();
      if (!PollUntil({client, server}, [&] { return !server->events.empty(); })) return false;
      if (IsShared(server->events.back().frame.payload)) return true;
    }
    return false;
  }

  ConnectionId up_, down_;
};

TEST_F(Regions, PayloadsComeByReferenceBothWays) {
  Host server, client;
  Join(&client, &server);
  ASSERT_TRUE(Attached(&client, &server));
  const wire::Frame sent = server.MakeFrame(7);
  ASSERT_TRUE(server.endpoint->Send(down_, sent).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !client.events.empty(); }));
  const wire::Frame& got = client.events[0].frame;
  EXPECT_TRUE(IsShared(got.payload));
  EXPECT_EQ(got.header.payload_kind, wire::PayloadKind::kInline);
  ASSERT_EQ(got.payload.size(), kPayloadBytes);
  for (size_t i = 0; i < kFloats; ++i) ASSERT_EQ(got.payload.floats()[i], 7.0f);
}

TEST_F(Regions, ABufferIsUsedAgainOnceThePeerHasReleasedItAndNotBefore) {
  Host server, client;
  Join(&client, &server);
  ASSERT_TRUE(Attached(&client, &server));
  server.events.clear();
  ASSERT_TRUE(PollUntil({&client, &server}, [&] {
    return client.pool->retained_bytes() == client.pool->allocated_bytes();
  }));
  const size_t before = client.pool->allocated_bytes();

  ASSERT_TRUE(client.endpoint->Send(up_, client.MakeFrame(3)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  const size_t kept = client.pool->retained_bytes();
  EXPECT_EQ(client.pool->allocated_bytes() - kept, kPayloadBytes);
  for (int i = 0; i < 3; ++i) client.endpoint->Poll(absl::ZeroDuration(), &client.events);
  EXPECT_EQ(client.pool->retained_bytes(), kept);
  EXPECT_EQ(server.events[0].frame.payload.floats()[kFloats - 1], 3.0f);
  server.events.clear();
  client.endpoint->Poll(absl::ZeroDuration(), &client.events);
  EXPECT_EQ(client.pool->retained_bytes(), client.pool->allocated_bytes());
  EXPECT_EQ(client.pool->allocated_bytes(), before);
}

TEST_F(Regions, WhatIsReadWhenTheConnectionEndsIsKeptUntilItIsReleased) {
  Host server, client;
  Join(&client, &server);
  ASSERT_TRUE(Attached(&client, &server));
  server.events.clear();
  ASSERT_TRUE(client.endpoint->Send(up_, client.MakeFrame(3)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  Bytes held = server.events[0].frame.payload;
  server.events.clear();
  client.endpoint->Close(up_);
  ASSERT_TRUE(PollUntil({&client, &server}, [&] {
    return !server.events.empty() && server.events.back().kind == Event::Kind::kDisconnected;
  }));
  for (int i = 0; i < 3; ++i) client.endpoint->Poll(absl::ZeroDuration(), &client.events);
  EXPECT_EQ(client.pool->allocated_bytes() - client.pool->retained_bytes(), kPayloadBytes);
  EXPECT_EQ(held.floats()[0], 3.0f);
  held = Bytes();
  client.endpoint->Poll(absl::ZeroDuration(), &client.events);
  EXPECT_EQ(client.pool->allocated_bytes(), client.pool->retained_bytes());
}

TEST_F(Regions, WhereTheMemoryIsFullPayloadsGoWithTheirFrames) {
  Host server, client(2 * kPayloadBytes);
  Join(&client, &server);
  ASSERT_TRUE(Attached(&client, &server));
  server.events.clear();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(client.endpoint->Send(up_, client.MakeFrame(static_cast<float>(i))).ok());
  }
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return server.events.size() == 5; }));
  int shared = 0;
  for (int i = 0; i < 5; ++i) {
    shared += IsShared(server.events[i].frame.payload) ? 1 : 0;
    EXPECT_EQ(server.events[i].frame.payload.floats()[0], static_cast<float>(i));
  }
  EXPECT_EQ(shared, 2);
}

TEST_F(Regions, AnEndpointWithoutMemorySendsAndTakesEverythingOverTcp) {
  for (const auto& [server_bytes, client_bytes] :
       {std::pair<size_t, size_t>{0, 1 << 20}, {1 << 20, 0}}) {
    Host server(server_bytes), client(client_bytes);
    Join(&client, &server);
    EXPECT_FALSE(Attached(&client, &server));
  }
}

TEST_F(Regions, AReferenceWithoutASessionOrOutsideOfTheMemoryIsRefused) {
  Host server, client;
  Join(&client, &server);
  ASSERT_TRUE(Attached(&client, &server));
  const wire::RegionReference good = {.ticket = 1, .bytes = kPayloadBytes};
  std::vector<wire::RegionReference> bad(5, good);
  bad[0].segment = 1;
  bad[1].slot = 4096;
  bad[2].offset = (1 << 20) - kPayloadBytes + 4;
  bad[3].offset = UINT64_MAX - 3;
  bad[4].offset = 2;
  for (const wire::RegionReference& reference : bad) {
    wire::Frame frame;
    frame.header.op = wire::Op::kPushPull;
    frame.header.element_count = kFloats;
    frame.header.payload_kind = wire::PayloadKind::kRegion;
    const auto encoded = wire::EncodeReference(reference);
    frame.payload = Bytes(nullptr, encoded.data(), encoded.size());
    server.events.clear();
    ASSERT_TRUE(client.endpoint->Send(up_, frame).ok());
    ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
    EXPECT_EQ(server.events[0].kind, Event::Kind::kMalformed);
    EXPECT_NE(server.events[0].error.message().find("reference to"), absl::string_view::npos)
        << server.events[0].error;
  }
}

TEST_F(Regions, StrangersAtTheDoorAreSentAwayAndHoldNobodyUp) {
  Host server;
  const auto port = server.endpoint->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(port.ok());
  const UniqueFd silent = ConnectForRegions(*port), rude = ConnectForRegions(*port);
  ASSERT_TRUE(silent.valid() && rude.valid());
  ASSERT_EQ(write(rude.get(), "hello", 5), 5);
  ASSERT_TRUE(PollUntil({&server}, [&] { return HasEnded(rude); }));
  EXPECT_FALSE(HasEnded(silent));
  Host client;
  Join(&client, &server, *port);
  EXPECT_TRUE(Attached(&client, &server));
}

// A peer that talks to the door by itself, and to the endpoint over a connection of `host`.
class Knocker {
 public:
  explicit Knocker(int port) : line_(ConnectForRegions(port)) {}

  bool Greet(uint64_t number) {
    RegionGreeting greeting = {.session = number, .descriptors = {}};
    for (const size_t bytes : {size_t{1} << 16, RegionExports::kBoardBytes}) {
      segments_.push_back(*SharedSegment::Create(bytes));
      greeting.descriptors.push_back(*segments_.back()->Share(SharedSegment::Access::kReadWrite));
    }
    return SendGreeting(line_, greeting).ok();
  }
  static wire::Frame Attach(uint64_t number) {
    const auto said = std::make_shared<std::vector<std::byte>>(wire::EncodeChecksums({number}));
    wire::Frame attach;
    attach.header.op = wire::Op::kAttach;
    attach.payload = Bytes(said, said->data(), said->size());
    return attach;
  }
  // Returns the other side's greeting.
  std::optional<RegionGreeting> Take() {
    auto greeting = TakeGreeting(line_);
    return greeting.ok() ? *std::move(greeting) : std::nullopt;
  }
  bool is_sent_away() const { return HasEnded(line_); }

 private:
  const UniqueFd line_;
  std::vector<std::shared_ptr<SharedSegment>> segments_;
};

ino_t FileOf(const UniqueFd& fd) {
  struct stat facts = {};
  EXPECT_EQ(fstat(fd.get(), &facts), 0);
  return facts.st_ino;
}

TEST_F(Regions, WhoWasNotAdmittedIsHandedNothing) {
  Host server, client(0);
  const int port = *server.endpoint->Listen("tcp://127.0.0.1:0");
  Meet(&client, &server, port);
  Knocker stranger(port);
  ASSERT_TRUE(stranger.Greet(5));
  ASSERT_TRUE(client.endpoint->Send(up_, Knocker::Attach(5)).ok());
  // A later frame of it has arrived, so its ATTACH has, too.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.endpoint->Send(up_, client.MakeFrame(1)).ok());
    server.events.clear();
    ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  }
  EXPECT_FALSE(stranger.Take().has_value());
  // Nor through another connection, with a number that nobody has greeted with.
  server.Admit(down_);
  ASSERT_TRUE(client.endpoint->Send(up_, Knocker::Attach(6)).ok());
  server.events.clear();
  ASSERT_TRUE(client.endpoint->Send(up_, client.MakeFrame(1)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  server.endpoint->Poll(absl::Milliseconds(2), &server.events);
  EXPECT_FALSE(stranger.Take().has_value());
}

TEST_F(Regions, WhoIsAdmittedIsHandedTheMemoryOfItsJobAlone) {
  Host server, client(0);
  const std::shared_ptr<RegionMemory> own = *RegionMemory::Create(1 << 20);
  const int port = *server.endpoint->Listen("tcp://127.0.0.1:0");
  Meet(&client, &server, port);
  server.endpoint->Admit(down_, own);
  Knocker knocker(port);
  ASSERT_TRUE(knocker.Greet(5));
  ASSERT_TRUE(client.endpoint->Send(up_, Knocker::Attach(5)).ok());
  std::optional<RegionGreeting> got;
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return (got = knocker.Take()).has_value(); }));
  EXPECT_EQ(got->session, 5u);
  ASSERT_EQ(got->descriptors.size(), 2u) << "a segment and the board";
  const auto file_of = [](const RegionMemory& memory) {
    return FileOf(*memory.segments()[0]->Share(SharedSegment::Access::kRead));
  };
  EXPECT_EQ(FileOf(got->descriptors[0]), file_of(*own));
  EXPECT_NE(FileOf(got->descriptors[0]), file_of(*server.memory));

  // Until it reports that it has mapped the memory, which may fail, payloads come with their
  // frames.
  server.pool = std::make_unique<BufferPool>(BufferPool::kRetainedBytesMax, own);
  const auto is_inline = [&] {
    EXPECT_TRUE(server.endpoint->Send(down_, server.MakeFrame(7)).ok());
    client.events.clear();
    EXPECT_TRUE(PollUntil({&client, &server}, [&] { return !client.events.empty(); }));
    return client.events[0].kind == Event::Kind::kFrame;
  };
  EXPECT_TRUE(is_inline());
  wire::Frame mapped;
  mapped.header.op = wire::Op::kAttachOk;
  ASSERT_TRUE(client.endpoint->Send(up_, mapped).ok());
  ASSERT_TRUE(client.endpoint->Send(up_, client.MakeFrame(1)).ok());
  server.events.clear();
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  EXPECT_FALSE(is_inline()) << "a reference, which this one has no memory for";
}

TEST_F(Regions, OfTwoThatGreetWithOneNumberTheFirstIsMeant) {
  Host server, client(0);
  const int port = *server.endpoint->Listen("tcp://127.0.0.1:0");
  Meet(&client, &server, port);
  server.Admit(down_);
  Knocker first(port), second(port);
  ASSERT_TRUE(first.Greet(5));
  server.endpoint->Poll(absl::Milliseconds(2), &server.events);
  ASSERT_TRUE(second.Greet(5));
  ASSERT_TRUE(PollUntil({&server}, [&] { return second.is_sent_away(); }));
  ASSERT_TRUE(client.endpoint->Send(up_, Knocker::Attach(5)).ok());
  EXPECT_TRUE(PollUntil({&client, &server}, [&] { return first.Take().has_value(); }));
}

TEST_F(Regions, AnEndpointOfManyJobsMakesMemoryForEach) {
  ZmqOptions options;
  options.new_memory = [] { return *RegionMemory::Create(1 << 20); };
  Host server(0), client;
  server.endpoint = *CreateZmqEndpoint(options);
  EXPECT_EQ(server.endpoint->memory(), nullptr);
  const std::shared_ptr<BlockSource> job = server.endpoint->NewMemory();
  ASSERT_NE(job, nullptr);
  EXPECT_NE(server.endpoint->NewMemory(), job);
  server.pool = std::make_unique<BufferPool>(BufferPool::kRetainedBytesMax, job);
  Meet(&client, &server, *server.endpoint->Listen("tcp://127.0.0.1:0"));
  server.endpoint->Admit(down_, job);
  client.Admit(up_);
  ASSERT_TRUE(Attached(&client, &server));
  ASSERT_TRUE(server.endpoint->Send(down_, server.MakeFrame(7)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !client.events.empty(); }));
  EXPECT_TRUE(IsShared(client.events[0].frame.payload));
}

TEST_F(Regions, WhoComesWhenTheDoorIsFullGoesOnOverTcpWhichIsSaidOnce) {
  Host server, client;
  const auto port = server.endpoint->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(port.ok());
  testing::internal::CaptureStderr();
  std::vector<UniqueFd> lines;
  for (uint32_t i = 0; i < kRegionPeersMax; ++i) {
    lines.push_back(ConnectForRegions(*port));
    ASSERT_TRUE(lines.back().valid());
    server.endpoint->Poll(absl::ZeroDuration(), &server.events);
  }
  for (int i = 0; i < 2; ++i) {
    const UniqueFd late = ConnectForRegions(*port);
    ASSERT_TRUE(PollUntil({&server}, [&] { return HasEnded(late); }));
  }
  Join(&client, &server, *port);
  const bool attached = Attached(&client, &server);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_FALSE(attached);
  EXPECT_TRUE(
      absl::EndsWith(said, absl::StrFormat("port %d: 64 connections of this host share memory, "
                                           "no more can; payloads of others go over TCP\n",
                                           *port)))
      << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  for (const UniqueFd& line : lines) EXPECT_FALSE(HasEnded(line));
}

}  // namespace
}  // namespace strata::transport
