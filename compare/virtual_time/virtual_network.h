#ifndef STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_NETWORK_H_
#define STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_NETWORK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/transport/endpoint.h"
#include "common/transport/sim/random.h"
#include "compare/virtual_time/virtual_clock.h"

namespace strata::compare {

class VirtualEndpoint;

// Bytes that a frame is on a link: its header and payload, and what TCP, IP and Ethernet add to
// them in packets of 1514 bytes, 1448 of them data.
double WireBytes(const wire::Frame& frame);

// A link between hosts, or between sites.
struct VirtualLink {
  double bytes_per_s = 0;  // each way
  absl::Duration latency;  // one way
  absl::Duration jitter;   // at most so much more
};

// Hosts behind links of their own, joined by a switch that is never full, and sites that are joined
// by one link each. A frame leaves its host after those that were sent before it, at the rate of
// the host's link; it crosses the link between sites in the order of arrival, and enters the
// receiver's host likewise. It passes each link as it comes, without being stored; it is there with
// its last byte. Nothing is lost, and queues are as long as they have to be.
//
// Threads: one.
class VirtualNetwork {
 public:
  // `clock` outlives it. `seed`: of jitter.
  VirtualNetwork(VirtualClock* clock, double memory_bytes_per_s, uint64_t seed);

  // Returns its number, from 0. Hosts without a link (rate 0) reach only themselves.
  uint32_t AddHost(const VirtualLink& link, const std::string& site);
  void JoinSites(const std::string& a, const std::string& b, const VirtualLink& link);

  // That hosts have sent to other hosts, as WireBytes.
  double bytes_between_hosts() const { return bytes_between_hosts_; }

 private:
  friend class VirtualEndpoint;

  // What lets one thing pass after the other.
  struct Pipe {
    double seconds_per_byte = 0;
    absl::Time free;
  };
  struct Host {
    VirtualLink link;
    std::string site;
    Pipe out, in, memory;
  };
  struct SiteLink {
    VirtualLink link;
    Pipe pipe;
  };
  struct End {
    VirtualEndpoint* endpoint = nullptr;
    uint32_t host = 0;
    absl::Time last_arrival;  // of what was sent to it
  };
  struct Connection {
    End ends[2];
  };
  // A frame on its way.
  struct Transit {
    uint32_t connection = 0, to = 0;  // the end
    wire::Frame frame;
    double bytes = 0;
    absl::Time tail;        // when its last byte comes to where its first one is
    absl::Duration jitter;  // of its whole way
  };
  using InTransit = std::shared_ptr<Transit>;

  static size_t ConnectionAt(transport::ConnectionId id) { return id.value() / 2 - 1; }
  static uint32_t EndAt(transport::ConnectionId id) { return id.value() % 2; }
  static transport::ConnectionId IdOf(size_t connection, uint32_t end) {
    return transport::ConnectionId(2 * (connection + 1) + end);
  }
  End* Find(const VirtualEndpoint* endpoint, transport::ConnectionId id);

  transport::ConnectionId Connect(VirtualEndpoint* from, const std::string& address);
  absl::Status Send(const VirtualEndpoint* from, transport::ConnectionId id,
                    const wire::Frame& frame);
  void Close(const VirtualEndpoint* from, transport::ConnectionId id);
  void Disconnect(size_t connection, uint32_t end, absl::Duration delay, const std::string& why);

  // The frame's first byte is at the pipe now. Returns when that is past it.
  absl::Time Pass(Pipe* pipe, Transit* transit);
  absl::Duration Jitter(const VirtualLink& link);
  void EnterSiteLink(const InTransit& transit, SiteLink* link);
  void EnterHost(const InTransit& transit);
  void Arrive(const InTransit& transit);

  VirtualClock* const clock_;
  const double memory_seconds_per_byte_;
  transport::SimRandom random_;
  std::deque<Host> hosts_;
  std::map<std::pair<std::string, std::string>, SiteLink> site_links_;  // by from and to
  std::map<std::string, VirtualEndpoint*> listeners_;                   // by address
  std::deque<Connection> connections_;
  double bytes_between_hosts_ = 0;
};

// One process's endpoint on a VirtualNetwork, which outlives it. Addresses are names, compared as
// they are. `on_ready` is called when there are events for Poll, or its timeout is over; it must
// not destroy the endpoint. Poll returns at once.
class VirtualEndpoint final : public transport::Endpoint {
 public:
  VirtualEndpoint(VirtualNetwork* network, uint32_t host, std::function<void()> on_ready);
  ~VirtualEndpoint() override;

  // Returns 0: there are no ports.
  absl::StatusOr<int> Listen(const std::string& address) override;
  absl::StatusOr<transport::ConnectionId> Connect(const std::string& address) override;
  absl::Status Send(transport::ConnectionId connection, const wire::Frame& frame) override;
  void Poll(absl::Duration timeout, std::vector<transport::Event>* events) override;
  void WatchFd(int /*fd*/) override {}
  void Close(transport::ConnectionId connection) override;
  void Wake() override {}

 private:
  friend class VirtualNetwork;

  void Take(transport::Event event);

  VirtualNetwork* const network_;
  const uint32_t host_;
  const std::function<void()> on_ready_;
  std::vector<transport::Event> inbox_;
  std::vector<transport::ConnectionId> open_;
  absl::Time ring_at_ = absl::InfiniteFuture();
  // What is scheduled outlives the endpoint.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_VIRTUAL_NETWORK_H_
