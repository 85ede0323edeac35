#ifndef STRATA_COMMON_TRANSPORT_SIM_SIM_ENDPOINT_H_
#define STRATA_COMMON_TRANSPORT_SIM_SIM_ENDPOINT_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "common/transport/endpoint.h"
#include "common/transport/sim/sim_network.h"

namespace strata::transport {

// One process's endpoint on a SimNetwork, which outlives it.
class SimEndpoint final : public Endpoint {
 public:
  struct Options {
    std::string name = "endpoint";  // in the event log
    uint32_t host = 0;              // below 64; of SimNetwork::Partition
    uint64_t payload_bytes_max = 16 << 20;
    size_t queue_bytes_max = 64 << 20;
    size_t queue_frames_max = 4096;
    // Frames pass as bytes, through encoding and decoding with all checks, instead of as objects.
    bool encode = false;
    // Addresses are arbitrary names, compared as strings, instead of tcp://HOST:PORT. Listen
    // returns 0.
    bool addresses_are_names = false;
    // See SimNetwork. Must not destroy the endpoint.
    std::function<void()> on_ready;
  };

  SimEndpoint(SimNetwork* network, Options options);
  ~SimEndpoint() override;

  absl::StatusOr<int> Listen(const std::string& address) override;
  absl::StatusOr<ConnectionId> Connect(const std::string& address) override;
  absl::Status Send(ConnectionId connection, const wire::Frame& frame) override;
  void Poll(absl::Duration timeout, std::vector<Event>* events) override;
  void WatchFd(int fd) override { fd_ = fd; }
  void Close(ConnectionId connection) override;
  void Wake() override { woken_ = true; }

  const Options& options() const { return options_; }

 private:
  friend class SimNetwork;

  struct Incoming {
    Event event;
    size_t frame_bytes = 0;  // in the sender's queue, to be released
  };

  void Take(Incoming incoming);
  void TakeInbox(std::vector<Event>* events);
  bool Ready();
  void Ring(absl::Duration delay);

  SimNetwork* const network_;
  const Options options_;
  std::string listening_;
  std::vector<Incoming> inbox_;
  std::vector<ConnectionId> open_;
  std::atomic<bool> woken_ = false;
  int fd_ = -1;
  absl::Time ring_at_ = absl::InfiniteFuture();
  // Timers outlive the endpoint.
  std::shared_ptr<SimEndpoint*> self_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_SIM_SIM_ENDPOINT_H_
