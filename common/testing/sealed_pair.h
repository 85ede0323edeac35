#ifndef STRATA_COMMON_TESTING_SEALED_PAIR_H_
#define STRATA_COMMON_TESTING_SEALED_PAIR_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/seal/seal.h"
#include "common/transport/endpoint.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/sim/sim_network.h"

namespace strata::transport {

// An attacker between this endpoint and its peers: sees what it sends, and decides what leaves.
class TappedEndpoint final : public Endpoint {
 public:
  using Tap = std::function<std::vector<wire::Frame>(const wire::Frame& frame)>;

  explicit TappedEndpoint(std::unique_ptr<Endpoint> inner) : inner_(std::move(inner)) {}

  // Frames sent so far.
  const std::vector<wire::Frame>& sent() const { return sent_; }
  // Replaces each frame sent from now on.
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

// Keys whose secret consists of this one byte.
seal::JobKeys KeysWith(char secret, seal::Protection protection = seal::Protection::kEncrypt,
                       uint32_t attempt = 0);
// A PUSHPULL of the job with `text` as its payload, whose size is a multiple of 4; or without one.
wire::Frame FrameOf(uint32_t job, uint64_t clock, const std::string& text);
std::string TextOf(const wire::Frame& frame);

// A sealed endpoint on a simulated network, its received frames, and an attacker on its outgoing
// side.
struct SealedParty {
  SealedParty(SimNetwork* network, SealedEndpoint::Unsealed takes);

  // Accepts the job's frames under these keys, as the listener at `address`.
  void Protect(uint32_t job, seal::JobKeys keys);
  // Connects to the address of `server`.
  ConnectionId ConnectTo(SealedParty* server);
  // The clocks of received frames, in order.
  std::vector<uint64_t> Clocks() const;
  size_t Count(Event::Kind kind) const;

  TappedEndpoint* tapped = nullptr;
  std::unique_ptr<SealedEndpoint> endpoint;
  std::string address;
  std::vector<Event> events;
};

// A server and a client of job 7 on a network without faults.
class SealedPair : public testing::Test {
 protected:
  static constexpr uint32_t kJob = 7;

  SealedPair();
  // Delivers everything in flight.
  void Settle();
  // Both have the keys, and the client has connected.
  void Join(const seal::JobKeys& keys = KeysWith('s'));

  SimNetwork network_{1};
  SealedParty server_{&network_, SealedEndpoint::Unsealed::kOfOtherJobs};
  SealedParty client_{&network_, SealedEndpoint::Unsealed::kNone};
  ConnectionId line_;  // the client's
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TESTING_SEALED_PAIR_H_
