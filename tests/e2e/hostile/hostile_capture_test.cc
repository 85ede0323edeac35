// Everything that nodes sent to the shards is recorded and replayed by somebody else, whole and in
// part: while the job trains, and after another job has ended.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/hostile_job.h"
#include "tests/e2e/testing/raw_peer.h"

namespace strata::tests {
namespace {

// The workers reach the server at an address on which the relays listen.
class HostileCapture : public HostileJob {
 protected:
  explicit HostileCapture(bool insecure = false)
      : HostileJob({.servers = 1,
                    .shards = 2,
                    .nodes = 2,
                    .slots = 2,
                    .server_args = {"--advertise", "127.0.0.2"},
                    .insecure = insecure}) {}

  void SetUp() override {
    ASSERT_EQ(cluster_.StartCoordinator(), absl::OkStatus());
    ASSERT_EQ(cluster_.StartServer(0), absl::OkStatus());
    for (const int port : ShardPorts()) {
      relays_.push_back(std::make_unique<RecordingRelay>(
          port,
          RecordingRelay::Options{.host = "127.0.0.2", .port = port, .recorded_max = 8 << 20}));
    }
  }

  // Returns the bytes sent to the shard after ZeroMQ's handshake, for each connection with any.
  std::vector<std::string> Captures(size_t shard) {
    std::vector<std::string> captures;
    for (const std::string& said : relays_[shard]->said()) {
      if (said.size() < 66) continue;
      // A greeting of 64 bytes, READY's flags, its size, and itself.
      const size_t opening = 66 + static_cast<unsigned char>(said[65]);
      if (said.size() > opening + wire::kHeaderBytes) captures.push_back(said.substr(opening));
    }
    return captures;
  }

  uint64_t Duplicates() {
    uint64_t duplicates = 0;
    const proto::JobStatus status = cluster_.Status(job_);
    for (const proto::JobShardStatus& shard : status.shards()) {
      duplicates += shard.counters().duplicates();
    }
    return duplicates;
  }

  // Replays every capture, whole and then its first half. Returns the number of bytes.
  uint64_t SayAgain(std::vector<RawPeer>* peers) {
    uint64_t bytes = 0;
    for (const bool whole : {true, false}) {
      for (size_t shard = 0; shard < relays_.size(); ++shard) {
        const std::vector<std::string> captures = Captures(shard);
        // From two nodes, in the job that has ended and in this one.
        EXPECT_GE(captures.size(), 4u);
        for (const std::string& capture : captures) {
          peers->push_back(RawPeer::Joined(ShardPorts()[shard]));
          EXPECT_TRUE(peers->back().connected());
          const size_t part = whole ? capture.size() : capture.size() / 2;
          // The shard may close the connection first, if too many answers are unread.
          peers->back().SendAll(capture.substr(0, part));
          bytes += part;
        }
      }
    }
    return bytes;
  }

  std::vector<std::unique_ptr<RecordingRelay>> relays_;  // by shard
};

// On a cluster without keys.
class PlainHostileCapture : public HostileCapture {
 protected:
  PlainHostileCapture() : HostileCapture(/*insecure=*/true) {}
};

TEST_F(PlainHostileCapture, WhatNodesSaidIsKnownWhenItIsSaidAgain) {
  Begin(150, 200);
  cluster_.WaitForStep(job_, 20);
  EXPECT_EQ(Duplicates(), 0u);
  std::vector<RawPeer> peers;
  EXPECT_GT(SayAgain(&peers), uint64_t{8} << 20);
  EXPECT_TRUE(WaitUntil([&] { return Duplicates() > 1000; })) << Duplicates();
  // Late frames from nodes of a job that has just ended are counted but raise no alarm.
  EXPECT_TRUE(WaitUntil([&] {
    const std::string status = RunStrata(cluster_.Asking({"status"})).out;
    return absl::StrContains(status, "turned away as planned by s0: ") &&
           absl::StrContains(status, "frames of a shard that has left");
  }));
  ExpectUndisturbed();
}

// In a sealed job the replay is not even understood: it belongs to another handshake.
TEST_F(HostileCapture, WhatNodesSaidUnderASealReachesNoJobWhenItIsSaidAgain) {
  Begin(150, 200);
  cluster_.WaitForStep(job_, 20);
  std::vector<RawPeer> peers;
  EXPECT_GT(SayAgain(&peers), uint64_t{8} << 20);
  ExpectRefused("s0", "wrong secret of a job", 8);
  EXPECT_EQ(Duplicates(), 0u);
  EXPECT_EQ(Refused("s0", "unknown job"), 0u);
  ExpectUndisturbed();
}

}  // namespace
}  // namespace strata::tests
