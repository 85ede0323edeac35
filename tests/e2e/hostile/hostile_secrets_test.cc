// Peers with a different secret at the ports of sealed jobs: at those of all-reducing nodes, and
// with the secret of another job on the same server.
#include <array>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "common/job/job_keys.h"
#include "common/seal/secret.h"
#include "common/testing/sealed_pair.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "tests/e2e/testing/hostile_job.h"
#include "tests/e2e/testing/job_secrets.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"
#include "tests/e2e/testing/raw_peer.h"

namespace strata::tests {
namespace {

using transport::Event;
using transport::SealedEndpoint;
using transport::TappedEndpoint;
using wire::Op;

seal::JobKeys KeysIn(const proto::JobRecord& record) {
  const auto keys = KeysOf(record, "");
  const bool is_sealed = keys.ok() && keys->has_value();
  EXPECT_TRUE(is_sealed) << "job " << record.job_id() << " is not sealed: " << keys.status();
  return is_sealed ? **keys : seal::JobKeys();
}

// Returns the HELLO of the node with this launch message.
wire::Frame HelloOf(const proto::Launch& launch) {
  wire::Hello hello;
  hello.protocol = kProtocolVersion;
  hello.cluster = launch.record().cluster();
  hello.token = launch.record().token();
  const auto bytes =
      std::make_shared<std::array<std::byte, wire::kHelloBytes>>(wire::EncodeHello(hello));
  wire::Frame frame;
  frame.header.op = Op::kHello;
  frame.header.job = launch.record().job_id();
  frame.header.view = launch.record().view().number();
  frame.header.generation = 1;  // of a job's first placement
  frame.header.node = launch.node();
  frame.header.incarnation = launch.incarnation();
  frame.payload = Bytes(bytes, bytes->data(), bytes->size());
  return frame;
}

// A peer that completes the handshake as a node of a job, with the job's keys or with others.
class SealedPeer {
 public:
  SealedPeer(const std::string& address, JobId job, const seal::JobKeys& keys) {
    auto way = std::make_unique<TappedEndpoint>(
        transport::CreateZmqEndpoint(transport::ZmqOptions()).value());
    way_ = way.get();
    endpoint_ = std::make_unique<SealedEndpoint>(std::move(way), SealedEndpoint::Unsealed::kNone);
    EXPECT_EQ(endpoint_->Protect(job, keys), absl::OkStatus());
    const auto connection = endpoint_->Connect(address);
    EXPECT_TRUE(connection.ok()) << connection.status();
    if (connection.ok()) connection_ = *connection;
  }

  // One bit of each seal is flipped in transit.
  void BreakSeals() {
    way_->set_tap([](const wire::Frame& frame) {
      wire::Frame changed = frame;
      if (changed.seal) (*changed.seal)[wire::kSealBytes - 1] ^= std::byte{1};
      return std::vector<wire::Frame>{changed};
    });
  }
  // Leaves once the handshake is complete.
  void Say(const wire::Frame& frame) {
    EXPECT_EQ(endpoint_->Send(connection_, frame), absl::OkStatus());
  }
  // Returns false if the connection stays open, or something was answered.
  bool Ends() {
    std::vector<Event> events;
    WaitUntil(
        [&] {
          if (events.empty()) endpoint_->Poll(absl::Milliseconds(20), &events);
          return !events.empty();
        },
        absl::Seconds(30));
    return !events.empty() && events[0].kind == Event::Kind::kDisconnected;
  }

 private:
  std::unique_ptr<SealedEndpoint> endpoint_;
  TappedEndpoint* way_ = nullptr;
  transport::ConnectionId connection_;
};

class HostileSealedRing : public HostileJob {
 protected:
  HostileSealedRing() { exchange_ = proto::Job::RING; }
};

TEST_F(HostileSealedRing, WhatTheNodesPortsRefuseIsCountedAndShown) {
  Begin(150, 200);
  const proto::Launch& node = launches()[0];
  const seal::JobKeys keys = KeysIn(node.record());
  seal::JobKeys wrong = keys;
  wrong.secret = seal::NewSecret();
  for (const char* worker : {"w0", "w1"}) EXPECT_EQ(Refused(worker, ""), 0u) << "by nobody's fault";
  std::vector<RawPeer> strangers;
  int ports = 0;
  for (const int pid : ListProcesses("aggregator")) {
    for (const int port : ListeningPorts(pid)) {
      ++ports;
      for (int i = 0; i < 5; ++i) {
        // The HELLO is entirely correct.
        strangers.push_back(RawPeer::Joined(port));
        ASSERT_TRUE(strangers.back().connected());
        strangers.back().Send(Hello(MakeHeader(Op::kHello), node.record().token()));
        strangers.back().Send(ZmtpFrame(MakeHeader(Op::kRetire), ""));
      }
      const std::string address = absl::StrCat("tcp://127.0.0.1:", port);
      EXPECT_TRUE(SealedPeer(address, job_, wrong).Ends());
      EXPECT_TRUE(SealedPeer(address, JobId(finished_job_), keys).Ends());
      SealedPeer changed(address, job_, keys);
      changed.BreakSeals();
      changed.Say(HelloOf(node));
      EXPECT_TRUE(changed.Ends());
    }
  }
  EXPECT_EQ(ports, 2);
  for (const char* worker : {"w0", "w1"}) {
    ExpectRefused(worker, "frame without a seal", 5 * 2);
    ExpectRefused(worker, "wrong secret of a job", 2);
    ExpectRefused(worker, "broken seal", 1);
  }
  ExpectUndisturbed();
}

// Two jobs that run on the same shards.
class HostileNeighbour : public HostileJob {
 protected:
  JobId Submit(const std::string& name) {
    proto::Job job = LenetJob(name, 2, 1, 200);
    proto::Delay* delay = job.mutable_debug()->add_delays();
    delay->set_node(1);
    delay->set_delay_ms(50);
    const auto id = cluster_.Submit(job);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : JobId();
  }
};

TEST_F(HostileNeighbour, TheSecretOfOneRunningJobOpensNoConnectionOfAnother) {
  ASSERT_EQ(cluster_.Start(), absl::OkStatus());
  const std::vector<JobId> jobs = {Submit("one"), Submit("other")};
  for (const JobId job : jobs) ASSERT_EQ(cluster_.WaitForStep(job, 2).state(), proto::RUNNING);
  std::vector<std::unique_ptr<Brake>> brakes;
  for (const int pid : ListProcesses("rank")) {
    brakes.push_back(std::make_unique<Brake>(pid, absl::Milliseconds(300)));
  }
  std::map<uint32_t, proto::Launch> nodes;  // the first of each job
  for (const int pid : ListProcesses("aggregator")) {
    const proto::Launch launch = LaunchOf(pid);
    if (launch.node() == 0) nodes[launch.record().job_id()] = launch;
  }
  ASSERT_EQ(nodes.size(), 2u);
  for (const int port : ShardPorts()) {
    const std::string address = absl::StrCat("tcp://127.0.0.1:", port);
    for (const auto& [thief, victim] : {std::pair(jobs[0], jobs[1]), {jobs[1], jobs[0]}}) {
      const seal::JobKeys stolen = KeysIn(nodes[thief.value()].record());
      EXPECT_TRUE(SealedPeer(address, victim, stolen).Ends());
      // They open a connection of their own job, which accepts nothing of the other one.
      SealedPeer own(address, thief, stolen);
      own.Say(HelloOf(nodes[victim.value()]));
      EXPECT_TRUE(own.Ends());
    }
  }
  ExpectRefused("s0", "wrong secret of a job", 2 * 2);
  ExpectRefused("s0", "broken seal", 2 * 2);
  for (const JobId job : jobs) {
    EXPECT_EQ(cluster_.Status(job).state(), proto::RUNNING) << "over before the attack was";
  }
  brakes.clear();
  std::vector<std::string> hashes;
  for (const JobId job : jobs) {
    const proto::JobStatus status = cluster_.WaitForEnd(job);
    EXPECT_EQ(status.state(), proto::FINISHED) << status.reason();
    if (hashes.empty()) hashes = Hashes(status.run_dir(), 0);
    for (const int node : {0, 1}) EXPECT_EQ(Hashes(status.run_dir(), node), hashes) << node;
  }
  EXPECT_GT(hashes.size(), 10u);
  cluster_.StopAll();
}

}  // namespace
}  // namespace strata::tests
