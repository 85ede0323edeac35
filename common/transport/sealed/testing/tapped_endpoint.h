#ifndef STRATA_COMMON_TRANSPORT_SEALED_TESTING_TAPPED_ENDPOINT_H_
#define STRATA_COMMON_TRANSPORT_SEALED_TESTING_TAPPED_ENDPOINT_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/transport/endpoint.h"

namespace strata::transport {

// Somebody on the way from this endpoint to its peers: sees what it sends, and decides what leaves.
class TappedEndpoint final : public Endpoint {
 public:
  using Tap = std::function<std::vector<wire::Frame>(const wire::Frame& frame)>;

  explicit TappedEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  // What was sent so far.
  const std::vector<wire::Frame>& sent() const { return sent_; }
  // What leaves in the place of each frame that is sent from now on.
  void set_tap(Tap tap) { tap_ = std::move(tap); }

  absl::StatusOr<int> Listen(const std::string& address) override {
    return inner_->Listen(address);
  }
  absl::StatusOr<ConnectionId> Connect(const std::string& address) override {
    return inner_->Connect(address);
  }
  absl::Status Send(ConnectionId connection, const wire::Frame& frame) override {
    sent_.push_back(frame);
    if (tap_ == nullptr) return inner_->Send(connection, frame);
    absl::Status status;
    for (const wire::Frame& out : tap_(frame)) status.Update(inner_->Send(connection, out));
    return status;
  }
  void Poll(absl::Duration timeout, std::vector<Event>* events) override {
    inner_->Poll(timeout, events);
  }
  void WatchFd(int fd) override { inner_->WatchFd(fd); }
  void Admit(ConnectionId connection, const std::shared_ptr<BlockSource>& memory) override {
    inner_->Admit(connection, memory);
  }
  bool Refers(ConnectionId connection) const override { return inner_->Refers(connection); }
  void Close(ConnectionId connection) override { inner_->Close(connection); }
  void Cut(ConnectionId connection) override { inner_->Cut(connection); }
  void Wake() override { inner_->Wake(); }

 private:
  const std::unique_ptr<Endpoint> inner_;
  std::vector<wire::Frame> sent_;
  Tap tap_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SEALED_TESTING_TAPPED_ENDPOINT_H_
