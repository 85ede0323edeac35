// Strangers at the ports of nodes that all-reduce, while they train.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/testing/hostile_job.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/e2e/testing/raw_peer.h"

namespace strata::tests {
namespace {

using wire::Op;

class HostileRing : public HostileJob {
 protected:
  HostileRing() { exchange_ = proto::Job::RING; }
  explicit HostileRing(const Cluster::Options& options) : HostileJob(options) {
    exchange_ = proto::Job::RING;
  }

  std::vector<int> RingPorts() {
    std::vector<int> ports;
    for (const int pid : ListProcesses("aggregator")) {
      for (const int port : ListeningPorts(pid)) ports.push_back(port);
    }
    EXPECT_EQ(ports.size(), 2u);
    return ports;
  }
};

// On a cluster without keys: what strangers say is understood there.
class PlainHostileRing : public HostileRing {
 protected:
  PlainHostileRing()
      : HostileRing({.servers = 1, .shards = 2, .nodes = 2, .slots = 2, .insecure = true}) {}
};

// How many have heard that their HELLO is accepted.
int Greeted(std::vector<RawPeer>* peers) {
  int greeted = 0;
  for (RawPeer& peer : *peers) {
    peer.IsClosed();
    greeted += peer.HasHeard(Op::kHelloOk) ? 1 : 0;
  }
  return greeted;
}

// Waits until all of them were put out, as those are who say no HELLO in time.
bool ArePutOut(std::vector<RawPeer>* peers) {
  return WaitUntil(
      [&] {
        return std::all_of(peers->begin(), peers->end(),
                           [](RawPeer& peer) { return peer.IsClosed(); });
      },
      absl::Minutes(1));
}

wire::Header With(wire::Header header, uint32_t wire::Header::*field, uint32_t value) {
  header.*field = value;
  return header;
}

TEST_F(HostileRing, NoiseAndHalfMessagesAtTheNodesPorts) {
  Begin(400, 80);
  std::vector<RawPeer> silent;
  const std::vector<int> ports = RingPorts();
  for (const int port : ports) {
    for (uint32_t i = 0; i < 20; ++i) {
      RawPeer::ToPort(port).Send(Noise(i, 1000 * i));
      RawPeer::ToPort(port).Send(ZmtpOpening() + Noise(i, 1000));
      // A frame longer than any may be, and half a message, from one that then leaves.
      RawPeer::Joined(port).Send(ZmtpPartHead(uint64_t{1} << 40, false));
      RawPeer::Joined(port).Send(ZmtpPart(Noise(i, wire::kHeaderBytes), true));
      // Half a message and half a frame, from one that then says no more.
      silent.push_back(RawPeer::Joined(port));
      silent.back().Send(ZmtpPart(Noise(i, wire::kHeaderBytes), true));
      silent.push_back(RawPeer::Joined(port));
      silent.back().Send(ZmtpPartHead(16 << 20, false) + Noise(i, 10));
      // Whole messages of noise, the last of too many parts.
      silent.push_back(RawPeer::Joined(port));
      ASSERT_TRUE(silent.back().connected());
      silent.back().Send(ZmtpPart(Noise(i, wire::kHeaderBytes), false) + ZmtpPart("", false) +
                         ZmtpPart("a", true) + ZmtpPart("b", true) + ZmtpPart("c", false));
    }
    // A message that never ends: each byte is both a length of 1 and "more follows".
    RawPeer endless = RawPeer::Joined(port);
    const std::string block(1 << 16, '\1');
    EXPECT_TRUE(WaitUntil([&] { return !endless.Send(block); }));
  }
  EXPECT_TRUE(ArePutOut(&silent));
  ExpectUndisturbed();
}

TEST_F(PlainHostileRing, FramesOfOthersAndCopiesOfANodesHelloAtTheNodesPorts) {
  Begin(400, 40);
  const uint64_t token = launches()[0].record().token();
  const wire::Header hello = MakeHeader(Op::kHello);
  std::vector<RawPeer> peers;
  for (const int port : RingPorts()) {
    const auto say = [&](const std::string& bytes) {
      peers.push_back(RawPeer::Joined(port));
      ASSERT_TRUE(peers.back().connected());
      peers.back().Send(bytes);
    };
    // Without a HELLO: what only nodes may say, and what no node says.
    for (const Op op : {Op::kAck, Op::kRetire, Op::kRetry, Op::kCut, Op::kHelloOk}) {
      say(ZmtpFrame(MakeHeader(op), ""));
    }
    const std::vector<std::pair<wire::Header, uint64_t>> refused = {
        {With(hello, &wire::Header::job, 4'000'000), token},
        {With(hello, &wire::Header::job, finished_job_), token},
        {hello, token + 1},
        {With(hello, &wire::Header::view, 0), token},
        {With(hello, &wire::Header::generation, 0), token},
        {With(hello, &wire::Header::node, 77), token}};
    for (const auto& [header, its_token] : refused) say(Hello(header, its_token));
    // A copy of what a node said takes its place until the node is back.
    for (const uint32_t node : {0, 1}) {
      say(Hello(With(hello, &wire::Header::node, node), token));
    }
  }
  for (const char* worker : {"w0", "w1"}) {
    ExpectRefused(worker, "no rank, on a node's socket", 5 + 6 + 1);
  }
  EXPECT_EQ(Greeted(&peers), 1) << "the copy of what the node said that connects to the other";
  ExpectUndisturbed();
}

// Where the job is sealed, none of it is looked at.
TEST_F(HostileRing, FramesWithoutASealAtTheNodesPorts) {
  Begin(400, 40);
  const uint64_t token = launches()[0].record().token();
  std::vector<RawPeer> peers;
  for (const int port : RingPorts()) {
    for (const uint32_t node : {0, 1}) {
      peers.push_back(RawPeer::Joined(port));
      ASSERT_TRUE(peers.back().connected());
      const wire::Header hello = With(MakeHeader(Op::kHello), &wire::Header::node, node);
      peers.back().Send(Hello(hello, token));
      peers.back().Send(ZmtpFrame(With(MakeHeader(Op::kRetire), &wire::Header::node, node), ""));
      peers.back().Send(ZmtpFrame(MakeHeader(Op::kError), ""));
    }
  }
  // They are no nodes: none of them is greeted, and all are put out while the job continues.
  EXPECT_TRUE(ArePutOut(&peers));
  EXPECT_EQ(Greeted(&peers), 0);
  ExpectUndisturbed();
}

}  // namespace
}  // namespace strata::tests
