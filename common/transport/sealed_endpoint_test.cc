#include "common/transport/sealed_endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/testing/sealed_pair.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/zmq/region_fixture.h"

namespace strata::transport {
namespace {

using Kind = Event::Kind;
using Unsealed = SealedEndpoint::Unsealed;
using Clocks = std::vector<uint64_t>;

constexpr char kEndpointText[] = "weights that nobody reads but who has the secret";

// All bytes seen by the attacker.
std::string Overheard(const TappedEndpoint& tapped) {
  std::string all;
  for (const wire::Frame& frame : tapped.sent()) {
    all += TextOf(frame);
    if (frame.seal) all.append(reinterpret_cast<const char*>(frame.seal->data()), 40);
  }
  return all;
}

class SealedEndpointTest : public SealedPair {
 protected:
  void Send(uint64_t clock, const std::string& text = kEndpointText) {
    EXPECT_TRUE(client_.endpoint->Send(line_, FrameOf(kJob, clock, text)).ok());
  }
};

TEST_F(SealedEndpointTest, FramesPassBothWaysAndNobodyOnTheWayReadsThem) {
  Join();
  Send(1);
  Settle();
  ASSERT_EQ(server_.Clocks(), Clocks({1}));
  EXPECT_EQ(TextOf(server_.events[0].frame), kEndpointText);
  EXPECT_FALSE(server_.events[0].frame.seal.has_value());
  const std::string answer = "an answer of two times eight";
  ASSERT_TRUE(server_.endpoint->Send(server_.events[0].connection, FrameOf(kJob, 2, answer)).ok());
  Settle();
  ASSERT_EQ(client_.Clocks(), Clocks({2}));
  EXPECT_EQ(TextOf(client_.events[0].frame), answer);
  for (const SealedParty* party : {&client_, &server_}) {
    const std::string overheard = Overheard(*party->tapped);
    EXPECT_GT(overheard.size(), 300u);
    for (const char* word : {"weights", "answer", "ssssssss"}) {
      EXPECT_FALSE(absl::StrContains(overheard, word)) << word;
    }
  }
}

TEST_F(SealedEndpointTest, WhatWaitsForTheHandshakeComesInOrder) {
  server_.Protect(kJob, KeysWith('s'));
  client_.Protect(kJob, KeysWith('s'));
  line_ = client_.ConnectTo(&server_);
  for (uint64_t clock = 0; clock < 10; ++clock) Send(clock);
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks({0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_F(SealedEndpointTest, SignedPayloadsAreNotCopied) {
  Join(KeysWith('s', seal::Protection::kSign));
  const wire::Frame frame = FrameOf(kJob, 1, kEndpointText);
  ASSERT_TRUE(client_.endpoint->Send(line_, frame).ok());
  EXPECT_EQ(client_.tapped->sent().back().payload.data(), frame.payload.data());
  Settle();
  ASSERT_EQ(server_.Clocks(), Clocks({1}));
  EXPECT_EQ(TextOf(server_.events[0].frame), kEndpointText);
}

TEST_F(SealedEndpointTest, APayloadForManyPeersIsSealedOnce) {
  Join();
  const ConnectionId other = client_.ConnectTo(&server_);
  Settle();
  const wire::Frame frame = FrameOf(kJob, 1, kEndpointText);
  ASSERT_TRUE(client_.endpoint->Send(line_, frame).ok());
  ASSERT_TRUE(client_.endpoint->Send(other, frame).ok());
  const auto& sent = client_.tapped->sent();
  const wire::Frame& first = sent[sent.size() - 2];
  const wire::Frame& second = sent.back();
  EXPECT_EQ(first.payload.data(), second.payload.data());
  EXPECT_NE(*first.seal, *second.seal) << "headers are of their connections";
  Send(2, kEndpointText);
  EXPECT_NE(TextOf(client_.tapped->sent().back()), TextOf(first)) << "a nonce was used twice";
  Settle();
  Clocks clocks = server_.Clocks();
  std::sort(clocks.begin(), clocks.end());
  EXPECT_EQ(clocks, Clocks({1, 1, 2}));
}

TEST_F(SealedEndpointTest, WhatAFullQueueRefusesIsNotLost) {
  network_.set_faults({.refuse = 0.5});
  Join();
  for (uint64_t clock = 0; clock < 100; ++clock) {
    while (!client_.endpoint->Send(line_, FrameOf(kJob, clock, kEndpointText)).ok()) Settle();
  }
  Settle();
  Clocks all(100);
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  EXPECT_EQ(server_.Clocks(), all);
  EXPECT_GT(network_.count(SimNote::kRefused), 50u);
}

TEST_F(SealedEndpointTest, WhoDoesNotKnowTheSecretSaysNothing) {
  server_.Protect(kJob, KeysWith('s'));
  const seal::JobKeys wrong[] = {KeysWith('t'), KeysWith('s', seal::Protection::kEncrypt, 1)};
  uint64_t times = 0;
  for (const seal::JobKeys& keys : wrong) {
    SealedParty stranger(&network_, Unsealed::kNone);
    stranger.Protect(kJob, keys);
    const ConnectionId line = stranger.ConnectTo(&server_);
    ASSERT_TRUE(stranger.endpoint->Send(line, FrameOf(kJob, 1, kEndpointText)).ok());
    for (int i = 0; i < 20; ++i) {
      Settle();
      stranger.endpoint->Poll(absl::ZeroDuration(), &stranger.events);
    }
    EXPECT_EQ(server_.Clocks(), Clocks());
    ASSERT_EQ(stranger.Count(Kind::kDisconnected), 1u);
    EXPECT_TRUE(absl::IsUnavailable(stranger.events[0].error));
    EXPECT_EQ(server_.endpoint->use().wrong_secrets, ++times);
  }
  EXPECT_EQ(server_.Count(Kind::kMalformed), 2u);
}

TEST_F(SealedEndpointTest, AServerThatDoesNotKnowTheSecretHearsNothing) {
  server_.Protect(kJob, KeysWith('t'));
  client_.Protect(kJob, KeysWith('s'));
  line_ = client_.ConnectTo(&server_);
  Send(1);
  Settle();
  for (const wire::Frame& frame : client_.tapped->sent()) {
    EXPECT_EQ(frame.header.op, wire::Op::kHandshake);
  }
  EXPECT_EQ(client_.Count(Kind::kDisconnected), 1u);
}

TEST_F(SealedEndpointTest, AServerThatSealsNothingHearsNothing) {
  client_.Protect(kJob, KeysWith('s'));
  line_ = client_.ConnectTo(&server_);
  Send(1);
  Settle();
  ASSERT_EQ(server_.Count(Kind::kMalformed), 1u);
  ASSERT_TRUE(server_.endpoint->Send(server_.events[0].connection, FrameOf(kJob, 9, "abcd")).ok());
  Settle();
  EXPECT_EQ(client_.Clocks(), Clocks()) << "an answer without a seal";
  EXPECT_EQ(client_.Count(Kind::kDisconnected), 1u);
  EXPECT_EQ(client_.tapped->sent().size(), 1u);
}

TEST_F(SealedEndpointTest, FramesWithoutASealAreOnlyTakenOfOtherJobs) {
  SealedParty plain(&network_, Unsealed::kOfOtherJobs);
  const ConnectionId line = plain.ConnectTo(&server_);
  server_.Protect(kJob, KeysWith('s'));
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob + 1, 1, kEndpointText)).ok());
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob, 2, kEndpointText)).ok());
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob + 1, 3, kEndpointText)).ok());
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks({1, 3}));
  ASSERT_EQ(server_.Count(Kind::kMalformed), 1u);
  EXPECT_EQ(server_.events[1].error,
            absl::PermissionDeniedError("PUSHPULL of job 7 came without a seal"));
  EXPECT_EQ(server_.endpoint->use().unsealed, 1u);
  const ConnectionId back = server_.events[0].connection;
  EXPECT_TRUE(server_.endpoint->Send(back, FrameOf(kJob + 1, 1, kEndpointText)).ok());
  EXPECT_TRUE(absl::IsNotFound(server_.endpoint->Send(back, FrameOf(kJob, 1, kEndpointText))))
      << "weights of the sealed job";
}

TEST_F(SealedEndpointTest, AnEndpointOfOneJobTakesNoneWithoutASeal) {
  SealedParty node(&network_, Unsealed::kNone), plain(&network_, Unsealed::kOfOtherJobs);
  node.address = "tcp://127.0.0.1:501";
  ASSERT_TRUE(node.endpoint->Listen(node.address).ok());
  node.Protect(kJob, KeysWith('s'));
  const ConnectionId line = plain.ConnectTo(&node);
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob + 1, 1, kEndpointText)).ok());
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob, 2, kEndpointText)).ok());
  Settle();
  node.endpoint->Poll(absl::Milliseconds(5), &node.events);
  EXPECT_EQ(node.Clocks(), Clocks());
  EXPECT_EQ(node.Count(Kind::kMalformed), 2u);
}

TEST_F(SealedEndpointTest, AConnectionIsOfTheJobThatItsPeerHasShown) {
  server_.Protect(kJob + 1, KeysWith('t'));
  Join();
  ASSERT_TRUE(client_.endpoint->Send(line_, FrameOf(kJob + 1, 1, kEndpointText)).ok());
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks());
  EXPECT_EQ(server_.Count(Kind::kDisconnected), 1u);
  EXPECT_EQ(client_.Count(Kind::kDisconnected), 1u);
}

TEST_F(SealedEndpointTest, AJobThatWasForgottenLetsNobodyIn) {
  Join();
  Send(1);
  server_.endpoint->Forget(JobId(kJob));
  SealedParty late(&network_, Unsealed::kNone);
  late.Protect(kJob, KeysWith('s'));
  const ConnectionId line = late.ConnectTo(&server_);
  ASSERT_TRUE(late.endpoint->Send(line, FrameOf(kJob, 2, kEndpointText)).ok());
  for (int i = 0; i < 10; ++i) {
    Settle();
    late.endpoint->Poll(absl::ZeroDuration(), &late.events);
  }
  EXPECT_EQ(server_.Clocks(), Clocks({1}));
}

TEST_F(SealedEndpointTest, AnAttemptThatBeginsTakesNewKeys) {
  Join();
  Send(1);
  Settle();
  server_.Protect(kJob, KeysWith('s', seal::Protection::kEncrypt, 1));
  const ConnectionId late = client_.ConnectTo(&server_);
  ASSERT_TRUE(client_.endpoint->Send(late, FrameOf(kJob, 2, kEndpointText)).ok());
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks({1}));
  client_.Protect(kJob, KeysWith('s', seal::Protection::kEncrypt, 1));
  const ConnectionId next = client_.ConnectTo(&server_);
  ASSERT_TRUE(client_.endpoint->Send(next, FrameOf(kJob, 3, kEndpointText)).ok());
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks({1, 3}));
}

using Frames = std::vector<wire::Frame>;

constexpr char kText[] = "sixteen bytes...";

// An attacker who manipulates the frames of a sealed connection at will.
class SealedAttack : public SealedPair {
 protected:
  void Send(uint64_t clock) {
    (void)client_.endpoint->Send(line_, FrameOf(kJob, clock, kText));
    Settle();
  }
  // Expects that the server accepted these, and that the connection then ended for both.
  void ExpectTaken(const Clocks& clocks) {
    Settle();
    EXPECT_EQ(server_.Clocks(), clocks);
    EXPECT_EQ(server_.Count(Kind::kDisconnected), 1u);
    EXPECT_EQ(server_.Count(Kind::kMalformed), 0u) << "a job would fail by that";
    EXPECT_EQ(client_.Count(Kind::kDisconnected), 1u);
    EXPECT_EQ(server_.endpoint->use().broken_seals, 1u);
  }
};

// Frame 1 passes, frame 2 is changed by `change`.
class ChangedFrame : public SealedAttack {
 protected:
  template <typename Change>
  void ExpectEnd(Change change) {
    server_.events.clear();
    client_.events.clear();
    client_.tapped->set_tap(nullptr);
    const uint64_t broken = server_.endpoint->use().broken_seals;
    line_ = client_.ConnectTo(&server_);
    Settle();
    Send(1);
    client_.tapped->set_tap([&](const wire::Frame& frame) {
      wire::Frame changed = frame;
      change(&changed);
      return Frames({changed});
    });
    Send(2);
    client_.tapped->set_tap(nullptr);
    Send(3);
    EXPECT_EQ(server_.Clocks(), Clocks({1}));
    EXPECT_EQ(server_.Count(Kind::kDisconnected), 1u);
    EXPECT_EQ(server_.endpoint->use().broken_seals, broken + 1);
  }
};

void FlipBit(size_t bit, Bytes* bytes) {
  auto changed =
      std::make_shared<std::vector<std::byte>>(bytes->data(), bytes->data() + bytes->size());
  (*changed)[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
  *bytes = Bytes(changed, changed->data(), changed->size());
}

TEST_F(ChangedFrame, EachBitOfSealAndPayload) {
  Join();
  for (size_t bit = 0; bit < 8 * wire::kSealBytes; ++bit) {
    ExpectEnd([bit](wire::Frame* frame) {
      (*frame->seal)[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    });
  }
  for (size_t bit = 0; bit < 8 * sizeof kText - 8; ++bit) {
    ExpectEnd([bit](wire::Frame* frame) { FlipBit(bit, &frame->payload); });
  }
}

TEST_F(ChangedFrame, EachFieldOfTheHeader) {
  Join();
  using wire::Header;
  const std::vector<void (*)(Header*)> changes = {
      [](Header* h) { h->op = wire::Op::kCutAnswer; },
      [](Header* h) { h->flags = wire::kFlagReplay; },
      [](Header* h) { h->job ^= 8; },
      [](Header* h) { h->view ^= 1; },
      [](Header* h) { h->generation ^= 1; },
      [](Header* h) { h->chunk ^= 1; },
      [](Header* h) { h->node ^= 1; },
      [](Header* h) { h->incarnation ^= 1; },
      [](Header* h) { h->clock ^= 1; },
      [](Header* h) { h->base_version ^= 1; },
      [](Header* h) { h->version ^= 1; },
      [](Header* h) { h->received ^= 1; },
      [](Header* h) { h->durable_through ^= 1; },
      [](Header* h) { h->sample_count ^= 1; },
      [](Header* h) { h->rate = 1; },
      [](Header* h) { h->min_clock ^= 1; },
  };
  for (auto* change : changes) {
    ExpectEnd([change](wire::Frame* frame) { change(&frame->header); });
  }
}

TEST_F(ChangedFrame, ASealThatIsLeftOutOrOfAnotherFrame) {
  Join();
  ExpectEnd([](wire::Frame* frame) { frame->seal.reset(); });
  ExpectEnd([this](wire::Frame* frame) {
    const Frames& sent = client_.tapped->sent();
    frame->seal = sent[sent.size() - 2].seal;
  });
  ExpectEnd([this](wire::Frame* frame) {  // payload and its part of the seal
    const Frames& sent = client_.tapped->sent();
    const wire::Frame& before = sent[sent.size() - 2];
    frame->payload = before.payload;
    std::copy(before.seal->begin(), before.seal->begin() + 24, frame->seal->begin());
  });
}

TEST_F(ChangedFrame, APayloadThatIsCutOff) {
  Join();
  ExpectEnd([](wire::Frame* frame) {
    frame->payload = frame->payload.Part(0, 8);
    frame->header.element_count = 2;
  });
  ExpectEnd([](wire::Frame* frame) {
    frame->payload = Bytes();
    frame->header.element_count = 0;
  });
}

TEST_F(SealedAttack, AFrameThatComesTwice) {
  Join();
  Send(1);
  client_.tapped->set_tap([](const wire::Frame& frame) { return Frames({frame, frame}); });
  Send(2);
  ExpectTaken({1, 2});
}

TEST_F(SealedAttack, AnOldFrameThatComesAgain) {
  Join();
  Send(1);
  const wire::Frame old = client_.tapped->sent().back();
  Send(2);
  client_.tapped->set_tap([&](const wire::Frame& frame) { return Frames({old, frame}); });
  Send(3);
  ExpectTaken({1, 2});
}

TEST_F(SealedAttack, AFrameThatIsHeldBack) {
  Join();
  Send(1);
  wire::Frame held;
  client_.tapped->set_tap([&](const wire::Frame& frame) {
    held = frame;
    return Frames();
  });
  Send(2);
  client_.tapped->set_tap([&](const wire::Frame& frame) { return Frames({frame, held}); });
  Send(3);
  ExpectTaken({1});
}

TEST_F(SealedAttack, AFrameOfTheOtherDirection) {
  Join();
  Send(1);
  ASSERT_TRUE(server_.endpoint->Send(server_.events[0].connection, FrameOf(kJob, 9, kText)).ok());
  Settle();
  const wire::Frame answer = server_.tapped->sent().back();
  client_.tapped->set_tap([&](const wire::Frame&) { return Frames({answer}); });
  Send(2);
  ExpectTaken({1});
}

TEST_F(SealedAttack, AFrameOfAnotherConnection) {
  Join();
  Send(1);
  const wire::Frame first = client_.tapped->sent().back();
  line_ = client_.ConnectTo(&server_);
  Settle();
  client_.tapped->set_tap([&](const wire::Frame&) { return Frames({first}); });
  Send(1);
  ExpectTaken({1});
}

// A replay of everything that a node has sent, including HELLO, from elsewhere: its keys were
// different.
TEST_F(SealedAttack, AConnectionThatIsRepeatedAsAWholeReachesNobody) {
  Join();
  Send(1);
  Send(2);
  const Frames recorded = client_.tapped->sent();
  SimEndpoint raw(&network_, SimEndpoint::Options());
  const ConnectionId line = *raw.Connect(server_.address);
  std::vector<Event> heard;
  for (const wire::Frame& frame : recorded) {
    ASSERT_TRUE(raw.Send(line, frame).ok());
    Settle();
    raw.Poll(absl::Milliseconds(1), &heard);
  }
  EXPECT_EQ(server_.Clocks(), Clocks({1, 2}));
  EXPECT_EQ(client_.Count(Kind::kDisconnected), 0u) << "the node was evicted";
  Send(3);
  EXPECT_EQ(server_.Clocks(), Clocks({1, 2, 3}));
}

// Redirected to another member of the same job, which cannot impersonate the right one.
TEST_F(SealedAttack, AConnectionThatIsLedElsewhere) {
  seal::JobKeys elsewhere = KeysWith('s');
  elsewhere.own_address = "tcp://127.0.0.1:501";
  ASSERT_TRUE(server_.endpoint->Protect(JobId(kJob), elsewhere).ok());
  client_.Protect(kJob, KeysWith('s'));
  line_ = client_.ConnectTo(&server_);
  Send(1);
  EXPECT_EQ(server_.Clocks(), Clocks());
  EXPECT_EQ(client_.Count(Kind::kDisconnected), 1u);
  EXPECT_EQ(server_.endpoint->use().wrong_secrets, 1u);
}

// A handshake whose bytes are changed ends only that connection.
TEST_F(SealedAttack, AHandshakeThatIsChanged) {
  Join();
  Send(1);
  for (size_t byte = 0; byte < 400; byte += 7) {
    bool is_changed = false;
    client_.tapped->set_tap([&](const wire::Frame& frame) {
      wire::Frame changed = frame;
      if (frame.header.op == wire::Op::kHandshake && 8 * byte < 8 * frame.payload.size()) {
        FlipBit(8 * byte, &changed.payload);
        is_changed = true;
      }
      return Frames({changed});
    });
    const ConnectionId other = client_.ConnectTo(&server_);
    (void)client_.endpoint->Send(other, FrameOf(kJob, 1000, kText));
    Settle();
    EXPECT_EQ(server_.Clocks(), is_changed ? Clocks({1}) : Clocks({1, 1000})) << byte;
    client_.tapped->set_tap(nullptr);
    client_.endpoint->Close(other);
    server_.events.erase(server_.events.begin() + 1, server_.events.end());
  }
  Send(2);
  EXPECT_EQ(server_.Clocks(), Clocks({1, 2}));
}

// Sealed endpoints that share a host: payloads by reference are not sealed, others are.

void Seal(Host* host, TappedEndpoint** tapped = nullptr) {
  auto tap = std::make_unique<TappedEndpoint>(std::move(host->endpoint));
  if (tapped != nullptr) *tapped = tap.get();
  host->endpoint =
      std::make_unique<SealedEndpoint>(std::move(tap), SealedEndpoint::Unsealed::kNone);
  EXPECT_TRUE(host->endpoint->Protect(JobId(0), KeysWith('s')).ok());
}

TEST(SealedRegions, OnlyWhatLiesInSharedMemoryGoesUnsealed) {
  Host server, client;
  TappedEndpoint* tapped = nullptr;
  Seal(&server);
  Seal(&client, &tapped);
  const auto port = server.endpoint->Listen("tcp://127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status();
  seal::JobKeys keys = KeysWith('s');
  keys.own_address = absl::StrFormat("tcp://127.0.0.1:%d", *port);
  ASSERT_TRUE(server.endpoint->Protect(JobId(0), keys).ok());
  const ConnectionId up = *client.endpoint->Connect(absl::StrFormat("tcp://127.0.0.1:%d", *port));
  ASSERT_TRUE(client.endpoint->Send(up, client.MakeFrame(0)).ok());
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  EXPECT_FALSE(server.events[0].frame.by_reference) << "before anybody was admitted";
  server.endpoint->Admit(server.events[0].connection, server.memory);
  client.endpoint->Admit(up, client.memory);
  bool is_shared = false;
  for (int i = 0; i < 200 && !is_shared; ++i) {
    server.events.clear();
    ASSERT_TRUE(client.endpoint->Send(up, client.MakeFrame(3)).ok());
    ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
    is_shared = IsShared(server.events[0].frame.payload);
    EXPECT_EQ(server.events[0].frame.payload.floats()[kFloats - 1], 3.0f);
  }
  ASSERT_TRUE(is_shared);
  EXPECT_TRUE(server.events[0].frame.by_reference);
  // Equally large, but in other memory: it is encrypted.
  server.events.clear();
  const wire::Frame elsewhere = FrameOf(0, 5, std::string(kPayloadBytes, 'x'));
  ASSERT_TRUE(client.endpoint->Send(up, elsewhere).ok());
  EXPECT_NE(TextOf(tapped->sent().back()), TextOf(elsewhere));
  ASSERT_TRUE(PollUntil({&client, &server}, [&] { return !server.events.empty(); }));
  ASSERT_EQ(server.events[0].kind, Event::Kind::kFrame) << server.events[0].error;
  EXPECT_FALSE(server.events[0].frame.by_reference);
  EXPECT_EQ(TextOf(server.events[0].frame), TextOf(elsewhere));
}

}  // namespace
}  // namespace strata::transport
