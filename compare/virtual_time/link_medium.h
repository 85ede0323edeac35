#ifndef STRATA_COMPARE_VIRTUAL_TIME_LINK_MEDIUM_H_
#define STRATA_COMPARE_VIRTUAL_TIME_LINK_MEDIUM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "common/transport/sim/random.h"
#include "common/transport/sim/sim_clock.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"

namespace strata::compare {

// Returns a frame's bytes on a link: its header and payload, and the overhead of TCP, IP and
// Ethernet in packets of 1514 bytes, 1448 of them data.
double WireBytes(const wire::Frame& frame);

// A link between hosts, or between sites.
struct VirtualLink {
  double bytes_per_s = 0;  // in each direction
  absl::Duration latency;  // in one direction
  absl::Duration jitter;   // maximum additional delay
};

// Hosts behind links of their own, joined by a switch that is never full, and sites that are joined
// by one link each. A frame leaves its host after those that were sent before it, at the rate of
// the host's link; it crosses the link between sites in the order of arrival, and enters the
// receiver's host likewise. It passes each link as it comes, without being stored; it is there with
// its last byte. Nothing is lost, and queues are as long as they have to be.
//
// Threads: one.
class LinkMedium final : public transport::SimMedium {
 public:
  // `clock` outlives it. Jitter follows from `seed`.
  LinkMedium(transport::SimClock* clock, double memory_bytes_per_s, uint64_t seed);

  // Returns the host's number, from 0. A host without a link (rate 0) reaches only itself.
  uint32_t AddHost(const VirtualLink& link, const std::string& site);
  void JoinSites(const std::string& a, const std::string& b, const VirtualLink& link);

  // Bytes sent between different hosts, as WireBytes counts them.
  double bytes_between_hosts() const { return bytes_between_hosts_; }

  void Carry(uint32_t from, uint32_t to, const wire::Frame& frame, Arrive arrive) override;

 private:
  // Serializes frames.
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
  // A frame in flight.
  struct Transit {
    uint32_t to = 0;  // the destination host
    double bytes = 0;
    absl::Time tail;        // delay of its last byte behind its first
    absl::Duration jitter;  // of the whole path
    Arrive arrive;
  };
  using InTransit = std::shared_ptr<Transit>;

  // The frame's first byte reaches the pipe now. Returns when it has passed.
  absl::Time Pass(Pipe* pipe, Transit* transit);
  absl::Duration Jitter(const VirtualLink& link);
  void EnterSiteLink(const InTransit& transit, SiteLink* link);
  void EnterHost(const InTransit& transit);

  transport::SimClock* const clock_;
  const double memory_seconds_per_byte_;
  transport::SimRandom random_;
  std::deque<Host> hosts_;
  std::map<std::pair<std::string, std::string>, SiteLink> site_links_;  // by source and destination
  double bytes_between_hosts_ = 0;
};

// Returns how a process on `host` joins the network: addresses are names, and queues are unbounded.
// `on_ready`: see SimEndpoint.
transport::SimEndpoint::Options VirtualEndpoint(uint32_t host, std::function<void()> on_ready);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_VIRTUAL_TIME_LINK_MEDIUM_H_
