#include "worker/exchange/core/peerless_core.h"

#include <poll.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "common/transport/endpoint.h"

namespace strata::worker {
namespace {

// Reaches nobody; only waits for its descriptor.
class EndpointWithoutPeers final : public transport::Endpoint {
 public:
  absl::StatusOr<int> Listen(const std::string& address) override { return None(address); }
  absl::StatusOr<transport::ConnectionId> Connect(const std::string& address) override {
    return None(address);
  }
  absl::Status Send(transport::ConnectionId, const wire::Frame&) override {
    return absl::NotFoundError("no such connection");
  }
  void Poll(absl::Duration timeout, std::vector<transport::Event>*) override {
    pollfd wake{fd_, POLLIN, 0};
    const int64_t ms = std::max<int64_t>(0, absl::ToInt64Milliseconds(timeout));
    poll(&wake, 1, static_cast<int>(std::min<int64_t>(ms, 1000)));
  }
  void WatchFd(int fd) override { fd_ = fd; }
  void Close(transport::ConnectionId) override {}
  void Wake() override {}

 private:
  static absl::Status None(const std::string& address) {
    return absl::InvalidArgumentError("a node without peers has no use for " + address);
  }

  int fd_ = -1;
};

}  // namespace

absl::Status PeerlessCore::OnLinkEvent(const LinkEvent& event, absl::Time, CoreActions*) {
  if (event.kind == LinkEvent::Kind::kStart) phase_ = Phase::kTraining;
  begins_ = event.kind == LinkEvent::Kind::kStart;
  return absl::OkStatus();
}

std::unique_ptr<Exchange> WithoutPeers(std::unique_ptr<PeerlessCore> core, int wake_fd,
                                       const ClockInterface* clock) {
  return std::make_unique<Exchange>(std::move(core), std::make_unique<EndpointWithoutPeers>(),
                                    wake_fd, /*node=*/nullptr, clock);
}

}  // namespace strata::worker
