#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "common/transport/sealed/sealed_endpoint.h"
#include "common/transport/sealed/testing/sealed_pair.h"
#include "common/transport/sim/sim_endpoint.h"

namespace strata::transport {
namespace {

using Kind = Event::Kind;
using Clocks = std::vector<uint64_t>;
using Frames = std::vector<wire::Frame>;

constexpr char kText[] = "sixteen bytes...";

// Somebody who is on the way, and does what he likes with the frames of a sealed connection.
class SealedAttack : public SealedPair {
 protected:
  void Send(uint64_t clock) {
    (void)client_.endpoint->Send(line_, FrameOf(kJob, clock, kText));
    Settle();
  }
  // The server has taken these, and then the connection was over for both.
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

// All that a node has said, HELLO included, once more from elsewhere: its keys were others.
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

// Led to another member of the same job: it does not answer in the other's place.
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

// A handshake whose bytes are changed ends that connection alone.
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

}  // namespace
}  // namespace strata::transport
