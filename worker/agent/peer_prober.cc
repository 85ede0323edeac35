#include "worker/agent/peer_prober.h"

#include <utility>
#include <vector>

#include "common/wire/shard_probe.h"

namespace strata::worker {

absl::StatusOr<std::unique_ptr<PeerProber>> PeerProber::Create(
    Options options, std::function<void(proto::PeersTried)> on_tried) {
  absl::StatusOr<EventFd> cancel = EventFd::Create();
  if (!cancel.ok()) return cancel.status();
  return std::unique_ptr<PeerProber>(
      new PeerProber(options, std::move(on_tried), *std::move(cancel)));
}

PeerProber::PeerProber(Options options, std::function<void(proto::PeersTried)> on_tried,
                       EventFd cancel)
    : options_(options),
      on_tried_(std::move(on_tried)),
      cancel_(std::move(cancel)),
      thread_([this] { Run(); }) {}

PeerProber::~PeerProber() { Stop(); }

void PeerProber::Try(const proto::TryPeers& ask) {
  absl::MutexLock lock(&mutex_);
  for (const proto::PeerReach& peer : ask.peers()) asked_[peer.address()] = peer.name();
}

void PeerProber::Stop() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  cancel_.Notify();
  thread_.join();
}

void PeerProber::Run() {
  while (true) {
    std::map<std::string, std::string> names;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &PeerProber::HasWork));
      if (stopping_) return;
      names = std::exchange(asked_, {});
    }
    std::vector<std::string> addresses;
    for (const auto& [address, name] : names) addresses.push_back(address);
    net::ProbeShards(addresses, options_.timeout, cancel_.fd(),
                     [&](const std::vector<net::ProbeResult>& results) {
                       proto::PeersTried tried;
                       for (const net::ProbeResult& result : results) {
                         proto::PeerReach* peer = tried.add_peers();
                         peer->set_address(result.address);
                         peer->set_name(names[result.address]);
                         peer->set_error(result.error);
                       }
                       on_tried_(std::move(tried));
                     });
  }
}

}  // namespace strata::worker
