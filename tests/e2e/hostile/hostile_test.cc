// Peers that do not belong to the cluster, at every open port, while a job trains. What they send
// is refused, counted where a user sees it, and changes no bit of the job's weights.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "tests/e2e/testing/hostile_job.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/raw_peer.h"
#include "worker/contract/rank_protocol.pb.h"

namespace strata::tests {
namespace {

using wire::Op;

// Limit of the server's growth while strangers send it this many bytes and more.
constexpr uint64_t kGrowthBytesMax = uint64_t{256} << 20;

void Pause(absl::Duration duration) {
  const absl::Time until = absl::Now() + duration;
  WaitUntil([&] { return absl::Now() >= until; });
}

// Opens a connection, sends `bytes` and closes it.
void Say(int port, const std::string& bytes) {
  RawPeer peer = RawPeer::ToPort(port);
  EXPECT_TRUE(peer.connected()) << port;
  peer.Send(bytes);
}

// On a cluster without keys, where strangers' messages are understood.
class PlainHostileJob : public HostileJob {
 protected:
  PlainHostileJob()
      : HostileJob({.servers = 1, .shards = 2, .nodes = 2, .slots = 2, .insecure = true}) {}
};

TEST_F(HostileJob, NoiseAndHalfMessagesAtTheShards) {
  Begin(400, 40);
  const uint64_t before = ResidentBytes();
  std::vector<RawPeer> silent;
  for (const int port : ShardPorts()) {
    for (uint32_t i = 0; i < 20; ++i) {
      Say(port, Noise(i, 1000 * i));
      Say(port, ZmtpOpening() + Noise(i, 1000));
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
  }
  // A message that never ends: each byte is both a length of 1 and "more follows".
  RawPeer endless = RawPeer::Joined(ShardPorts()[0]);
  const std::string block(1 << 16, '\1');
  EXPECT_TRUE(WaitUntil([&] { return !endless.Send(block); }));
  ExpectRefused("s0", "message without end", 1);
  ExpectRefused("s0", "malformed", 2 * 20 * 3);
  ExpectRefused("s0", "connection without a message", 2 * 20 * 4);
  EXPECT_LT(ResidentBytes(), before + kGrowthBytesMax);
  ExpectUndisturbed();
}

TEST_F(PlainHostileJob, MessagesWithoutEndAtTheShards) {
  Begin(400, 40);
  const uint64_t before = ResidentBytes();
  uint64_t most = before;
  RawPeer known = RawPeer::Joined(ShardPorts()[0]);
  known.Send(Hello(MakeHeader(Op::kHello), launches()[0].record().token()));
  std::vector<RawPeer> peers;
  for (const int port : ShardPorts()) {
    for (int i = 0; i < 40; ++i) {
      peers.push_back(RawPeer::Joined(port));
      ASSERT_TRUE(peers.back().connected());
      // A frame of an unknown peer gives no right to more.
      peers.back().Send(ZmtpFrame(MakeHeader(Op::kCut), ""));
      // Half of them announce a part of the maximum size.
      if (i % 2 == 0) peers.back().Send(ZmtpPartHead(16 << 20, false));
    }
  }
  // The others send parts of one byte, which is 1, wherever the kernel has split them.
  const std::string endless(60'000, '\1');
  EXPECT_TRUE(WaitUntil(
      [&] {
        size_t open = 0;
        for (RawPeer& peer : peers) {
          if (peer.IsClosed()) continue;
          ++open;
          peer.Send(endless);
        }
        most = std::max(most, ResidentBytes());
        return open == 0;
      },
      absl::Minutes(1)));
  ExpectRefused("s0", "message without end", peers.size());
  // A peer whose HELLO was accepted may take its time for a frame.
  known.Send(ZmtpPartHead(1 << 20, false) + Noise(1, 200'000));
  Pause(absl::Seconds(1));
  EXPECT_FALSE(known.IsClosed());
  // All of them together, in the time until they are noticed.
  EXPECT_LT(most, before + 4 * kGrowthBytesMax);
  ExpectUndisturbed();
}

// Causes for which a shard refuses well-formed frames that no process of the job would send.
constexpr const char* kFrameRefusals[] = {"before HELLO",
                                          "unknown job",
                                          "wrong token or cluster",
                                          "wrong view",
                                          "chunk outside the job",
                                          "another job than HELLO's",
                                          "another node than HELLO's",
                                          "wrong role",
                                          "beyond the window",
                                          "codec of another job"};

TEST_F(PlainHostileJob, FramesOfOthersAndCopiesOfTheNodesOwnAtTheShards) {
  Begin(400, 40);
  const uint64_t token = launches()[0].record().token();
  wire::Header hello = MakeHeader(Op::kHello);
  const auto with = [](wire::Header header, auto field, uint64_t value) {
    header.*field = static_cast<uint32_t>(value);
    return header;
  };
  const uint32_t none = 0;
  std::vector<RawPeer> peers;
  const auto say = [&](int port, const std::string& bytes) {
    peers.push_back(RawPeer::Joined(port));
    ASSERT_TRUE(peers.back().connected());
    peers.back().Send(bytes);
  };
  uint32_t shard = 0;
  for (const int port : ShardPorts()) {
    say(port, ZmtpFrame(MakeHeader(Op::kCut), ""));
    const std::vector<std::pair<wire::Header, uint64_t>> refused = {
        {with(hello, &wire::Header::job, 4'000'000), token},
        {with(hello, &wire::Header::job, finished_job_), token},
        {hello, token + 1},
        {with(hello, &wire::Header::view, none), token},
        {with(hello, &wire::Header::incarnation, none), token},
        {with(hello, &wire::Header::node, 77), token}};
    for (const auto& [header, its_token] : refused) {
      say(port, Hello(header, its_token, shard));
    }
    // Replays what the node sent: first its HELLO, then pushes applied long ago.
    say(port, Hello(hello, token, shard++));
    RawPeer& copy = peers.back();
    for (uint32_t chunk = 0; chunk < 60; ++chunk) {
      wire::Header push = with(MakeHeader(Op::kPushPull), &wire::Header::chunk, chunk);
      push.element_count = 1024;
      push.sample_count = 32;
      copy.Send(ZmtpFrame(push, std::string(4096, '\0')));
      for (const wire::Codec codec : {wire::Codec::kInt8, wire::Codec::kSparse}) {
        wire::Header encoded = push;
        encoded.codec = codec;
        copy.Send(ZmtpFrame(encoded, std::string(wire::EncodedBytesMax(codec, 1024), '\xff')));
      }
      push.clock = 1'000'000;
      copy.Send(ZmtpFrame(push, std::string(4096, '\0')));
    }
    copy.Send(ZmtpFrame(with(MakeHeader(Op::kCut), &wire::Header::chunk, 1'000'000), ""));
    copy.Send(ZmtpFrame(with(MakeHeader(Op::kCut), &wire::Header::job, finished_job_), ""));
    copy.Send(ZmtpFrame(with(MakeHeader(Op::kCut), &wire::Header::node, 1), ""));
    copy.Send(ZmtpFrame(with(MakeHeader(Op::kCut), &wire::Header::view, none), ""));
    copy.Send(ZmtpFrame(MakeHeader(Op::kHelloOk), ""));
  }
  for (const char* cause : kFrameRefusals) ExpectRefused("s0", cause, 2);
  // A replaced process of a node may have left such frames.
  ExpectRefused("s0", "old incarnation", 2, "turned away as planned by");
  const proto::JobStatus status = cluster_.Status(job_);
  for (const auto& shard : status.shards()) EXPECT_GE(shard.counters().refused(), 10u);
  ExpectUndisturbed();
}

TEST_F(HostileJob, ByteByByteAndStormsOfConnectionsAtTheShards) {
  Begin(400, 80);
  const uint64_t before = ResidentBytes();
  const std::string opening = ZmtpOpening();
  struct Slow {
    RawPeer peer;
    bool joined;  // begins with a message rather than ZeroMQ's handshake
  };
  std::vector<Slow> slow;
  for (const int port : ShardPorts()) {
    for (int i = 0; i < 50; ++i) {
      slow.push_back({RawPeer::ToPort(port), false});
      slow.push_back({RawPeer::Joined(port), true});
      slow.back().peer.Send(ZmtpPartHead(1000, false));
    }
  }
  // They send a byte a second each. Those that do not complete ZeroMQ's handshake or a HELLO in
  // time are disconnected.
  size_t open = slow.size(), storms = 0;
  for (int second = 0; second < 100 && open > 0; ++second) {
    open = 0;
    for (Slow& one : slow) {
      if (one.peer.IsClosed()) continue;
      ++open;
      one.peer.Send(one.joined ? "x" : opening.substr(second % opening.size(), 1));
    }
    for (const int port : ShardPorts()) {
      for (int i = 0; i < 30; ++i, ++storms) Say(port, "");
    }
    Pause(absl::Seconds(1));
  }
  EXPECT_EQ(open, 0u) << "slow ones are still connected";
  ExpectRefused("s0", "connection without a message", storms);
  ExpectRefused("s0", "no HELLO in time", slow.size() / 2);  // at least those that had joined
  EXPECT_LT(ResidentBytes(), before + kGrowthBytesMax);
  ExpectUndisturbed();
}

// With keys, strangers are not heard, and recorded bytes are useless.
TEST_F(HostileJob, AtTheCoordinatorWithKeys) {
  Eavesdrop();
  Begin(400, 40);
  const int port = CoordinatorPort();
  std::vector<RawPeer> silent;
  for (uint32_t i = 0; i < 50; ++i) {
    Say(port, "");
    Say(port, Noise(i, 1000 * i));
    Say(port, HttpPreface() + GrpcCall("Session") + GrpcMessage(Noise(i, 50)));
    silent.push_back(RawPeer::ToPort(port));
    silent.back().Send(Noise(i, i));
    silent.push_back(RawPeer::ToPort(port));
    silent.back().Send(HttpPreface() + GrpcCall("Session"));
  }
  std::vector<std::string> said = relay_->said();
  std::erase(said, "");  // a daemon checks whether anybody listens before it sends
  EXPECT_GE(said.size(), 3u);
  for (const std::string& copy : said) {
    EXPECT_GT(copy.size(), 500u);
    for (const char* word : {"alone", "victim", "spiffe", "worker/w0", "Session"}) {
      EXPECT_EQ(copy.find(word), std::string::npos) << word;
    }
    silent.push_back(RawPeer::ToPort(port));
    silent.back().Send(copy);
  }
  EXPECT_EQ(Refused("coordinator", "registration seen before"), 0u);
  ExpectUndisturbed();
}

TEST_F(PlainHostileJob, AtTheCoordinator) {
  Eavesdrop();
  Begin(400, 60);
  const int port = CoordinatorPort();
  std::vector<RawPeer> silent;
  proto::DaemonMessage message;
  message.mutable_node_failed()->set_job_id(job_.value());
  message.mutable_node_failed()->set_reason("so says a stranger");
  for (uint32_t i = 0; i < 50; ++i) {
    Say(port, "");
    Say(port, Noise(i, 1000 * i));
    Say(port, HttpPreface() + Noise(i, 1000));
    Say(port, HttpPreface() + GrpcCall("Session") + GrpcMessage(Noise(i, 50)));
    Say(port, HttpPreface() + GrpcCall("NoSuchMethod"));
    silent.push_back(RawPeer::ToPort(port));
    silent.back().Send(HttpPreface().substr(0, i));
    silent.push_back(RawPeer::ToPort(port));
    silent.back().Send(HttpPreface() + GrpcCall("Session"));
    silent.push_back(RawPeer::ToPort(port));
    silent.back().Send(HttpPreface() + GrpcCall("Session") +
                       GrpcMessage(message.SerializeAsString()));
  }
  // Replays what the server and the workers sent since they connected: Register comes first.
  const std::vector<std::string> said = relay_->said();
  EXPECT_GE(said.size(), 3u);
  for (const std::string& copy : said) {
    silent.push_back(RawPeer::ToPort(port));
    silent.back().Send(copy);
  }
  ExpectRefused("coordinator", "registration seen before", 3);
  EXPECT_FALSE(cluster_.Submit(proto::Job()).ok());
  ExpectRefused("coordinator", "rejected job", 1);
  ExpectRefused("coordinator", "before Register", 50);
  ExpectRefused("coordinator", "session without Register", 50);
  ExpectUndisturbed();
}

// A registered peer is a daemon, but cannot act for another daemon or for a job in which it has no
// part.
TEST_F(PlainHostileJob, DaemonsOfTheirOwnMakingAtTheCoordinator) {
  Begin(400, 40);
  std::vector<RawPeer> peers;
  const auto say = [&](const std::string& name, const std::vector<proto::DaemonMessage>& words) {
    proto::DaemonMessage registration;
    proto::Register* fields = registration.mutable_register_();
    fields->set_protocol_version(kProtocolVersion);
    fields->set_role(proto::WORKER);
    fields->set_name(name);
    fields->set_daemon_id(peers.size());
    fields->set_attempt(1);
    fields->set_address("127.0.0.1");
    fields->set_slots(1);
    std::string bytes = HttpPreface() + GrpcCall("Session");
    bytes += GrpcMessage(registration.SerializeAsString());
    for (const auto& message : words) bytes += GrpcMessage(message.SerializeAsString());
    peers.push_back(RawPeer::ToPort(CoordinatorPort()));
    EXPECT_TRUE(peers.back().connected());
    peers.back().Send(bytes);
  };
  std::vector<proto::DaemonMessage> words(6);
  words[0].mutable_node_failed()->set_job_id(job_.value());
  words[1].mutable_node_finished()->set_job_id(job_.value());
  words[2].mutable_job_installed()->set_job_id(job_.value());
  words[2].mutable_job_installed()->set_error("so says a stranger");
  words[3].mutable_rank_report()->set_job_id(job_.value());
  words[4].mutable_node_ready()->set_job_id(job_.value());
  words[5].mutable_heartbeat()->add_jobs()->set_job_id(job_.value());
  words[5].mutable_heartbeat()->add_nodes()->set_job_id(job_.value());
  for (int i = 0; i < 20; ++i) {
    say("w0", words);
    say(absl::StrCat("stranger", i), words);
  }
  ExpectRefused("coordinator", "rejected registration", 20);
  ExpectRefused("coordinator", "about a job of other daemons", 20 * 7);
  ExpectUndisturbed();
}

TEST_F(HostileJob, AtTheAggregatorsSocket) {
  Begin(400, 40);
  std::vector<RawPeer> silent;
  for (const proto::Launch& launch : launches()) {
    for (uint32_t i = 0; i < 100; ++i) {
      RawPeer noise = RawPeer::ToSocket(launch.aggregator_socket());
      ASSERT_TRUE(noise.connected());
      noise.Send(Noise(i, 10 * i));
      silent.push_back(RawPeer::ToSocket(launch.aggregator_socket()));
      silent.back().Send("\x7f");  // announces 127 bytes
    }
    // A rank of another job, and a second one of this job.
    for (const uint64_t token : {launch.record().token() + 1, launch.record().token()}) {
      proto::RankMessage message;
      message.mutable_attach()->set_protocol_version(kProtocolVersion);
      message.mutable_attach()->set_token(token);
      const std::string bytes = message.SerializeAsString();
      silent.push_back(RawPeer::ToSocket(launch.aggregator_socket()));
      ASSERT_TRUE(silent.back().connected());
      silent.back().Send(static_cast<char>(bytes.size()) + bytes);
    }
  }
  // All noise, both ranks, and all silent peers except the newest 64 and one for each rank.
  for (const char* worker : {"w0", "w1"}) {
    ExpectRefused(worker, "no rank, on a node's socket", 100 + 2 + 100 - 66);
  }
  ExpectUndisturbed();
}

}  // namespace
}  // namespace strata::tests
