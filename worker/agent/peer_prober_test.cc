#include "worker/agent/peer_prober.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

class Results {
 public:
  void Add(const proto::PeersTried& tried) {
    absl::MutexLock lock(&mutex_);
    for (const auto& peer : tried.peers()) peers_[peer.address()] = peer;
  }
  proto::PeerReach WaitFor(const std::string& address) {
    absl::MutexLock lock(&mutex_);
    const auto came = [&] {
      mutex_.AssertHeld();
      return peers_.count(address) > 0;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&came), absl::Seconds(30));
    return peers_[address];
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, proto::PeerReach> peers_ ABSL_GUARDED_BY(mutex_);
};

proto::TryPeers Ask(const std::string& address, const std::string& name) {
  proto::TryPeers ask;
  ask.add_peers()->set_address(address);
  ask.mutable_peers(0)->set_name(name);
  return ask;
}

TEST(PeerProber, AnswersEachAskWithTheNameOfTheDaemonThere) {
  auto endpoint = *transport::CreateZmqEndpoint(transport::ZmqOptions());
  const std::string good = absl::StrCat("tcp://127.0.0.1:", *endpoint->Listen("tcp://127.0.0.1:0"));
  Results results;
  auto prober = *PeerProber::Create({.timeout = absl::Seconds(20)},
                                    [&](const proto::PeersTried& tried) { results.Add(tried); });
  prober->Try(Ask(good, "s1"));
  EXPECT_EQ(results.WaitFor(good).name(), "s1");
  EXPECT_EQ(results.WaitFor(good).error(), "");
  prober->Try(Ask("nonsense", "s2"));
  EXPECT_EQ(results.WaitFor("nonsense").name(), "s2");
  EXPECT_EQ(results.WaitFor("nonsense").error(), "the address is not tcp://HOST:PORT");
}

TEST(PeerProber, StopsInTheMiddleOfATry) {
  // An address of the documentation network: nobody answers there.
  auto prober = *PeerProber::Create({.timeout = absl::Hours(1)}, [](const proto::PeersTried&) {});
  prober->Try(Ask("tcp://198.51.100.1:9", "s1"));
  prober->Stop();
  prober->Stop();
}

}  // namespace
}  // namespace strata::worker
