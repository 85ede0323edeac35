// Strangers at the ports of all-reducing nodes, while they train.
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

// On a cluster without keys, where strangers' messages are understood.
class PlainHostileRing : public HostileRing {
 protected:
  PlainHostileRing()
      : HostileRing({.servers = 1, .shards = 2, .nodes = 2, .slots = 2, .insecure = true}) {}
};

// Returns how many have been told that their HELLO is accepted.
int Greeted(std::vector<RawPeer>* peers) {
  int greeted = 0;
  for (RawPeer& peer : *peers) {
    peer.IsClosed();
    greeted += peer.HasHeard(Op::kHelloOk) ? 1 : 0;
  }
  return greeted;
}

// Waits until all of them are disconnected, as peers without a timely HELLO are.
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
      // A frame above the maximum length, and half a message, from a peer that then leaves.
      RawPeer::Joined(port).Send(ZmtpPartHead(uint64_t{1} << 40, false));
      RawPeer::Joined(port).Send(ZmtpPart(Noise(i, wire::kHeaderBytes), true));
      // Half a message and half a frame, from a peer that then stays silent.
      silent.push_back(RawPeer::Joined(port));
      silent.back().Send(ZmtpPart(Noise(i, wire::kHeaderBytes), true));
      silent.push_back(RawPeer::Joined(port));
      silent.back().Send(ZmtpPartHead(16 << 20, false) + Noise(i, 10));
      // Whole messages of noise, the last with too many parts.
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
    // Without a HELLO: frames that only nodes may send, and frames that no node sends.
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
    // A copy of a node's frames takes the node's place until the node returns.
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

// In a sealed job none of it is parsed.
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
  // They are not nodes: none is accepted, and all are disconnected while the job continues.
  EXPECT_TRUE(ArePutOut(&peers));
  EXPECT_EQ(Greeted(&peers), 0);
  ExpectUndisturbed();
}

}  // namespace
}  // namespace strata::tests
