#include "common/transport/sealed/sealed_endpoint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "common/transport/sealed/testing/sealed_pair.h"

namespace strata::transport {
namespace {

using Kind = Event::Kind;
using Unsealed = SealedEndpoint::Unsealed;
using Clocks = std::vector<uint64_t>;

constexpr char kText[] = "weights that nobody reads but who has the secret";

// All that somebody on the way has seen.
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
  void Send(uint64_t clock, const std::string& text = kText) {
    EXPECT_TRUE(client_.endpoint->Send(line_, FrameOf(kJob, clock, text)).ok());
  }
};

TEST_F(SealedEndpointTest, FramesPassBothWaysAndNobodyOnTheWayReadsThem) {
  Join();
  Send(1);
  Settle();
  ASSERT_EQ(server_.Clocks(), Clocks({1}));
  EXPECT_EQ(TextOf(server_.events[0].frame), kText);
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
  const wire::Frame frame = FrameOf(kJob, 1, kText);
  ASSERT_TRUE(client_.endpoint->Send(line_, frame).ok());
  EXPECT_EQ(client_.tapped->sent().back().payload.data(), frame.payload.data());
  Settle();
  ASSERT_EQ(server_.Clocks(), Clocks({1}));
  EXPECT_EQ(TextOf(server_.events[0].frame), kText);
}

TEST_F(SealedEndpointTest, APayloadForManyPeersIsSealedOnce) {
  Join();
  const ConnectionId other = client_.ConnectTo(&server_);
  Settle();
  const wire::Frame frame = FrameOf(kJob, 1, kText);
  ASSERT_TRUE(client_.endpoint->Send(line_, frame).ok());
  ASSERT_TRUE(client_.endpoint->Send(other, frame).ok());
  const auto& sent = client_.tapped->sent();
  const wire::Frame& first = sent[sent.size() - 2];
  const wire::Frame& second = sent.back();
  EXPECT_EQ(first.payload.data(), second.payload.data());
  EXPECT_NE(*first.seal, *second.seal) << "headers are of their connections";
  Send(2, kText);
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
    while (!client_.endpoint->Send(line_, FrameOf(kJob, clock, kText)).ok()) Settle();
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
    ASSERT_TRUE(stranger.endpoint->Send(line, FrameOf(kJob, 1, kText)).ok());
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
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob + 1, 1, kText)).ok());
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob, 2, kText)).ok());
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob + 1, 3, kText)).ok());
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks({1, 3}));
  ASSERT_EQ(server_.Count(Kind::kMalformed), 1u);
  EXPECT_EQ(server_.events[1].error,
            absl::PermissionDeniedError("PUSHPULL of job 7 came without a seal"));
  EXPECT_EQ(server_.endpoint->use().unsealed, 1u);
  const ConnectionId back = server_.events[0].connection;
  EXPECT_TRUE(server_.endpoint->Send(back, FrameOf(kJob + 1, 1, kText)).ok());
  EXPECT_TRUE(absl::IsNotFound(server_.endpoint->Send(back, FrameOf(kJob, 1, kText))))
      << "weights of the sealed job";
}

TEST_F(SealedEndpointTest, AnEndpointOfOneJobTakesNoneWithoutASeal) {
  SealedParty node(&network_, Unsealed::kNone), plain(&network_, Unsealed::kOfOtherJobs);
  node.address = "tcp://127.0.0.1:501";
  ASSERT_TRUE(node.endpoint->Listen(node.address).ok());
  node.Protect(kJob, KeysWith('s'));
  const ConnectionId line = plain.ConnectTo(&node);
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob + 1, 1, kText)).ok());
  ASSERT_TRUE(plain.endpoint->Send(line, FrameOf(kJob, 2, kText)).ok());
  Settle();
  node.endpoint->Poll(absl::Milliseconds(5), &node.events);
  EXPECT_EQ(node.Clocks(), Clocks());
  EXPECT_EQ(node.Count(Kind::kMalformed), 2u);
}

TEST_F(SealedEndpointTest, AConnectionIsOfTheJobThatItsPeerHasShown) {
  server_.Protect(kJob + 1, KeysWith('t'));
  Join();
  ASSERT_TRUE(client_.endpoint->Send(line_, FrameOf(kJob + 1, 1, kText)).ok());
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
  ASSERT_TRUE(late.endpoint->Send(line, FrameOf(kJob, 2, kText)).ok());
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
  ASSERT_TRUE(client_.endpoint->Send(late, FrameOf(kJob, 2, kText)).ok());
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks({1}));
  client_.Protect(kJob, KeysWith('s', seal::Protection::kEncrypt, 1));
  const ConnectionId next = client_.ConnectTo(&server_);
  ASSERT_TRUE(client_.endpoint->Send(next, FrameOf(kJob, 3, kText)).ok());
  Settle();
  EXPECT_EQ(server_.Clocks(), Clocks({1, 3}));
}

}  // namespace
}  // namespace strata::transport
