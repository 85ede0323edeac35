#include "compare/virtual_time/link_medium.h"

#include <algorithm>
#include <limits>

namespace strata::compare {
namespace {

// A packet on Ethernet, as traffic shaping counts it: 14 + 20 + 32 (TCP with timestamps) + 1448.
constexpr double kPacketBytes = 1514, kPacketDataBytes = 1448;
// Between processes of one host: a system call and a wake-up.
constexpr absl::Duration kSameHostLatency = absl::Microseconds(15);

double SecondsPerByte(double bytes_per_s) { return bytes_per_s > 0 ? 1 / bytes_per_s : 0; }

}  // namespace

double WireBytes(const wire::Frame& frame) {
  const double bytes = static_cast<double>(wire::kHeaderBytes + frame.payload.size());
  return bytes * (kPacketBytes / kPacketDataBytes);
}

LinkMedium::LinkMedium(transport::SimClock* clock, double memory_bytes_per_s, uint64_t seed)
    : clock_(clock), memory_seconds_per_byte_(SecondsPerByte(memory_bytes_per_s)), random_(seed) {}

uint32_t LinkMedium::AddHost(const VirtualLink& link, const std::string& site) {
  Host host{.link = link, .site = site, .out = {}, .in = {}, .memory = {}};
  host.out.seconds_per_byte = host.in.seconds_per_byte = SecondsPerByte(link.bytes_per_s);
  host.memory.seconds_per_byte = memory_seconds_per_byte_;
  hosts_.push_back(std::move(host));
  return static_cast<uint32_t>(hosts_.size() - 1);
}

void LinkMedium::JoinSites(const std::string& a, const std::string& b, const VirtualLink& link) {
  const Pipe pipe{.seconds_per_byte = SecondsPerByte(link.bytes_per_s), .free = {}};
  site_links_[{a, b}] = site_links_[{b, a}] = {.link = link, .pipe = pipe};
}

absl::Duration LinkMedium::Jitter(const VirtualLink& link) {
  if (link.jitter <= absl::ZeroDuration()) return absl::ZeroDuration();
  return random_.Fraction() * link.jitter;
}

absl::Time LinkMedium::Pass(Pipe* pipe, Transit* transit) {
  const absl::Time begin = std::max(clock_->Now(), pipe->free);
  pipe->free = begin + absl::Seconds(transit->bytes * pipe->seconds_per_byte);
  transit->tail = std::max(transit->tail, pipe->free);
  return begin;
}

void LinkMedium::Carry(uint32_t from, uint32_t to, const wire::Frame& frame, Arrive arrive) {
  const auto transit = std::make_shared<Transit>();
  transit->to = to;
  transit->bytes = WireBytes(frame);
  transit->arrive = std::move(arrive);
  Host& sender = hosts_[from];
  if (from == to) {
    Pass(&sender.memory, transit.get());
    transit->tail += kSameHostLatency;
    return transit->arrive(transit->tail);
  }
  const Host& receiver = hosts_[to];
  bytes_between_hosts_ += transit->bytes;
  transit->jitter = Jitter(sender.link) + Jitter(receiver.link);
  const absl::Time out = Pass(&sender.out, transit.get()) + sender.link.latency;
  transit->tail += sender.link.latency;
  if (sender.site == receiver.site) {
    clock_->At(out, [this, transit] { EnterHost(transit); });
  } else {
    SiteLink* link = &site_links_[{sender.site, receiver.site}];
    clock_->At(out, [this, transit, link] { EnterSiteLink(transit, link); });
  }
}

void LinkMedium::EnterSiteLink(const InTransit& transit, SiteLink* link) {
  transit->jitter += Jitter(link->link);
  const absl::Time out = Pass(&link->pipe, transit.get()) + link->link.latency;
  transit->tail += link->link.latency;
  clock_->At(out, [this, transit] { EnterHost(transit); });
}

void LinkMedium::EnterHost(const InTransit& transit) {
  Host& host = hosts_[transit->to];
  Pass(&host.in, transit.get());
  transit->arrive(transit->tail + host.link.latency + transit->jitter);
}

transport::SimEndpoint::Options VirtualEndpoint(uint32_t host, std::function<void()> on_ready) {
  transport::SimEndpoint::Options options;
  options.host = host;
  options.queue_bytes_max = options.queue_frames_max = std::numeric_limits<size_t>::max();
  options.addresses_are_names = true;
  options.on_ready = std::move(on_ready);
  return options;
}

}  // namespace strata::compare
