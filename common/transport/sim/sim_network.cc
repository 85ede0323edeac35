#include "common/transport/sim/sim_network.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/transport/sim/sim_endpoint.h"

namespace strata::transport {
namespace {

// How long a connection attempt into a partition takes to fail.
constexpr absl::Duration kUnreachableAfter = absl::Milliseconds(500);

}  // namespace

const char* ToString(SimNote note) {
  static constexpr const char* kNames[] = {
      "sent",   "delivered", "dropped", "duplicated", "reordered", "corrupted", "refused",
      "broken", "half-open", "cut off", "stalled",    "lost",      "connected", "disconnected",
  };
  static_assert(sizeof kNames / sizeof kNames[0] == kSimNotes);
  return kNames[static_cast<size_t>(note)];
}

SimNetwork::SimNetwork(uint64_t seed)
    : random_(seed),
      own_clock_(std::make_unique<SimClock>()),
      clock_(own_clock_.get()),
      medium_(nullptr) {}

SimNetwork::SimNetwork(SimClock* clock, SimMedium* medium)
    : random_(0), clock_(clock), medium_(medium) {}

SimNetwork::~SimNetwork() = default;

void SimNetwork::Note(SimNote note, const Wire& wire, size_t to, const wire::Header* header) {
  ++counts_[static_cast<size_t>(note)];
  if (observer_) {
    observer_(note, wire.ends[1 - to].name, wire.ends[to].name, wire.ends[to].id, header);
  }
}

SimNetwork::Wire* SimNetwork::Find(const SimEndpoint* endpoint, ConnectionId id) {
  if (id.value() < 2 || WireOf(id) >= wires_.size()) return nullptr;
  Wire* wire = &wires_[WireOf(id)];
  return wire->ends[EndOf(id)].endpoint == endpoint ? wire : nullptr;
}

bool SimNetwork::IsParted(const Wire& wire) const {
  if (cut_hosts_ == 0) return false;
  return ((cut_hosts_ >> wire.ends[0].host) & 1) != ((cut_hosts_ >> wire.ends[1].host) & 1);
}

bool SimNetwork::IsCut(const Wire& wire) const {
  if (IsParted(wire)) return true;
  if (cut_pairs_.empty()) return false;
  return cut_pairs_.count(std::minmax(wire.ends[0].host, wire.ends[1].host)) > 0;
}

ConnectionId SimNetwork::Connect(SimEndpoint* from, const std::string& address) {
  const auto number = static_cast<uint32_t>(wires_.size());
  Wire& wire = wires_.emplace_back();
  wire.address = address;
  End& own = wire.ends[0];
  own.endpoint = from;
  own.name = from->options().name;
  own.host = from->options().host;
  own.id = ConnectionId(2 * (uint64_t{number} + 1));
  wire.ends[1].id = ConnectionId(own.id.value() + 1);
  if (medium_ != nullptr) {
    Arrive(number);
    return own.id;
  }
  const bool slow = random_.Chance(faults_.slow_connection);
  const absl::Duration delay_max = slow ? faults_.slow_delay_max : faults_.delay_max;
  wire.delay_min = random_.Between(faults_.delay_min, delay_max);
  wire.delay_max = random_.Between(wire.delay_min, delay_max);
  // Frames sent meanwhile arrive later.
  const absl::Duration delay = Delay(wire);
  own.last_arrival = Now() + delay;
  After(delay, [this, number] { Arrive(number); });
  return own.id;
}

// A connection reaches the address for which it was made.
void SimNetwork::Arrive(uint32_t number) {
  Wire& wire = wires_[number];
  if (wire.broken) return;
  const auto listener = listeners_.find(wire.address);
  if (listener == listeners_.end()) {
    return BreakWire(number, 1, false, absl::StrCat("nobody listens at ", wire.address));
  }
  End& theirs = wire.ends[1];
  theirs.name = listener->second->options().name;
  theirs.host = listener->second->options().host;
  if (IsCut(wire)) {
    wire.broken = true;
    return Tell(number, 0, kUnreachableAfter, absl::StrCat(wire.address, " is unreachable"));
  }
  theirs.endpoint = listener->second;
  theirs.endpoint->open_.push_back(theirs.id);
  Note(SimNote::kConnected, wire, 1, nullptr);
}

absl::Status SimNetwork::Send(SimEndpoint* from, ConnectionId id, const wire::Frame& frame) {
  Wire* wire = Find(from, id);
  if (wire == nullptr) {
    return absl::NotFoundError(absl::StrFormat("no connection %d", id.value()));
  }
  const SimEndpoint::Options& options = from->options();
  if (frame.payload.size() > options.payload_bytes_max) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "payload of %d bytes, at most %d", frame.payload.size(), options.payload_bytes_max));
  }
  End& own = wire->ends[EndOf(id)];
  const size_t to = 1 - EndOf(id);
  const size_t bytes = wire::kHeaderBytes + frame.payload.size();
  if (own.queued_frames >= options.queue_frames_max ||
      own.queued_bytes + bytes > options.queue_bytes_max || random_.Chance(faults_.refuse)) {
    Note(SimNote::kRefused, *wire, to, &frame.header);
    return absl::ResourceExhaustedError("the peer's queue is full");
  }
  const auto number = static_cast<uint32_t>(WireOf(id));
  wire::Frame sent = frame;
  sent.header.payload_checksum = wire::ChecksumToSend(frame);
  Note(SimNote::kSent, *wire, to, &sent.header);
  if (tap_) tap_(*from, wire->address, id, sent);
  if (medium_ != nullptr) {
    Carry(number, to, sent);
    return absl::OkStatus();
  }
  Transmit(number, to, sent);
  if (random_.Chance(faults_.duplicate)) {
    Note(SimNote::kDuplicated, *wire, to, &sent.header);
    Transmit(number, to, sent);
  }
  if (random_.Chance(faults_.break_both)) BreakWire(number, to, false, "the connection broke");
  if (random_.Chance(faults_.break_one)) BreakWire(number, random_.Below(2), true, "silence");
  return absl::OkStatus();
}

void SimNetwork::Transmit(uint32_t number, size_t to, const wire::Frame& frame) {
  Wire& wire = wires_[number];
  if (wire.broken) return Note(SimNote::kLost, wire, to, &frame.header);
  if (random_.Chance(faults_.drop)) return Note(SimNote::kDropped, wire, to, &frame.header);
  absl::Duration delay = Delay(wire);
  End& own = wire.ends[1 - to];
  if (random_.Chance(faults_.reorder)) {
    Note(SimNote::kReordered, wire, to, &frame.header);
    // Some arrive so late that the peer has made another connection meanwhile.
    const int64_t late = random_.Chance(0.1) ? 300 : 10;
    delay += random_.Between(absl::ZeroDuration(), late * wire.delay_max);
  } else {
    delay = std::max(delay, own.last_arrival - Now());
    own.last_arrival = Now() + delay;
  }
  ++own.queued_frames;
  own.queued_bytes += wire::kHeaderBytes + frame.payload.size();
  DeliverAfter(delay, {.wire = number, .to = static_cast<uint32_t>(to), .frame = frame});
}

void SimNetwork::Carry(uint32_t number, size_t to, const wire::Frame& frame) {
  Wire& wire = wires_[number];
  End& own = wire.ends[1 - to];
  ++own.queued_frames;
  own.queued_bytes += wire::kHeaderBytes + frame.payload.size();
  Coming coming = {.wire = number, .to = static_cast<uint32_t>(to), .frame = frame};
  medium_->Carry(own.host, wire.ends[to].host, frame,
                 [this, coming = std::move(coming)](absl::Time at) mutable {
                   End& sender = wires_[coming.wire].ends[1 - coming.to];
                   sender.last_arrival = std::max(sender.last_arrival, at);
                   DeliverAfter(sender.last_arrival - Now(), std::move(coming));
                 });
}

void SimNetwork::DeliverAfter(absl::Duration delay, Coming coming) {
  After(delay, [this, coming = std::move(coming)]() mutable { Deliver(std::move(coming)); });
}

// Encodes the frame like its sender, and decodes it again.
static Event ThroughBytes(const wire::Frame& frame, uint64_t payload_bytes_max, SimRandom* flip) {
  auto header = wire::EncodeHeader(frame.header, frame.payload.size());
  auto payload = std::make_shared<std::vector<std::byte>>(
      frame.payload.data(), frame.payload.data() + frame.payload.size());
  Event event;
  event.frame.seal = frame.seal;
  if (flip != nullptr) {
    const size_t seal_bytes = frame.seal ? frame.seal->size() : 0;
    const size_t at = flip->Below(header.size() + seal_bytes + payload->size());
    const size_t after_header = at - header.size();
    std::byte& byte = at < header.size()          ? header[at]
                      : after_header < seal_bytes ? (*event.frame.seal)[after_header]
                                                  : (*payload)[after_header - seal_bytes];
    byte ^= static_cast<std::byte>(1 + flip->Below(255));
  }
  event.error = wire::Decode(header, *payload, {.payload_bytes_max = payload_bytes_max},
                             &event.frame.header, frame.seal.has_value());
  if (event.error.ok() && event.frame.header.payload_kind == wire::PayloadKind::kRegion) {
    event.error = absl::InvalidArgumentError("REGION of a peer without shared memory");
  }
  event.kind = event.error.ok() ? Event::Kind::kFrame : Event::Kind::kMalformed;
  event.frame.payload = Bytes(payload, payload->data(), payload->size());
  event.frame.writable = payload->data();
  return event;
}

void SimNetwork::Deliver(Coming coming) {
  Wire& wire = wires_[coming.wire];
  End& from = wire.ends[1 - coming.to];
  End& to = wire.ends[coming.to];
  const size_t bytes = wire::kHeaderBytes + coming.frame.payload.size();
  if (!wire.broken && stall_ && IsParted(wire)) {
    Note(SimNote::kStalled, wire, coming.to, &coming.frame.header);
    stalled_.push_back(std::move(coming));
    return;
  }
  if (to.endpoint == nullptr || IsCut(wire)) {
    Note(to.endpoint == nullptr ? SimNote::kLost : SimNote::kCutOff, wire, coming.to,
         &coming.frame.header);
    --from.queued_frames;
    from.queued_bytes -= bytes;
    return;
  }
  if (coming.frame.payload.size() > to.endpoint->options().payload_bytes_max) {
    return BreakWire(coming.wire, coming.to, false, "a payload over the receiver's limit");
  }
  Event event;
  if (to.endpoint->options().encode) {
    const bool corrupt = random_.Chance(faults_.corrupt);
    if (corrupt) Note(SimNote::kCorrupted, wire, coming.to, &coming.frame.header);
    event = ThroughBytes(coming.frame, to.endpoint->options().payload_bytes_max,
                         corrupt ? &random_ : nullptr);
  } else {
    event.frame = std::move(coming.frame);
  }
  event.connection = to.id;
  Note(SimNote::kDelivered, wire, coming.to, &event.frame.header);
  to.endpoint->Take({std::move(event), bytes});
}

void SimNetwork::Tell(uint32_t number, size_t end, absl::Duration delay, const std::string& why) {
  After(delay, [this, number, end, why] {
    Wire& wire = wires_[number];
    SimEndpoint* endpoint = std::exchange(wire.ends[end].endpoint, nullptr);
    if (endpoint == nullptr) return;
    Note(SimNote::kDisconnected, wire, end, nullptr);
    Event event;
    event.kind = Event::Kind::kDisconnected;
    event.connection = wire.ends[end].id;
    event.error = absl::UnavailableError(why);
    endpoint->Take({std::move(event), 0});
  });
}

// `knows`: the end that is told at once; the other one after everything in flight to it, or, half
// open, late.
void SimNetwork::BreakWire(uint32_t number, size_t knows, bool half_open, const std::string& why) {
  Wire& wire = wires_[number];
  if (wire.broken) return;
  wire.broken = true;
  Note(half_open ? SimNote::kHalfOpen : SimNote::kBroken, wire, knows, nullptr);
  Tell(number, knows, absl::ZeroDuration(), why);
  const absl::Duration in_flight =
      std::max(absl::ZeroDuration(), wire.ends[knows].last_arrival - Now());
  const absl::Duration late =
      half_open ? random_.Between(absl::ZeroDuration(), faults_.notice_max) : Delay(wire);
  Tell(number, 1 - knows, in_flight + late, why);
}

void SimNetwork::Break(ConnectionId connection, bool half_open) {
  if (connection.value() < 2 || WireOf(connection) >= wires_.size()) return;
  BreakWire(static_cast<uint32_t>(WireOf(connection)), EndOf(connection), half_open, "broken");
}

void SimNetwork::Close(SimEndpoint* endpoint, ConnectionId id) {
  Wire* wire = Find(endpoint, id);
  if (wire == nullptr) return;
  End& own = wire->ends[EndOf(id)];
  own.endpoint = nullptr;
  const bool was_broken = std::exchange(wire->broken, true);
  if (was_broken) return;
  // The other end learns it after everything in flight to it, or, if the last packet is lost, late.
  const absl::Duration in_flight = std::max(absl::ZeroDuration(), own.last_arrival - Now());
  const bool late = random_.Chance(faults_.close_unseen);
  if (late) Note(SimNote::kHalfOpen, *wire, EndOf(id), nullptr);
  const absl::Duration more =
      late ? random_.Between(absl::ZeroDuration(), faults_.notice_max) : Delay(*wire);
  Tell(static_cast<uint32_t>(WireOf(id)), 1 - EndOf(id), in_flight + more, "the peer closed it");
}

void SimNetwork::Partition(uint64_t hosts, bool stall) {
  cut_hosts_ = hosts;
  stall_ = stall;
}

void SimNetwork::Heal() {
  cut_hosts_ = 0;
  for (Coming& coming : stalled_) DeliverAfter(absl::ZeroDuration(), std::move(coming));
  stalled_.clear();
}

void SimNetwork::CutPair(uint32_t host, uint32_t other, bool cut) {
  const std::pair<uint32_t, uint32_t> pair = std::minmax(host, other);
  cut ? (void)cut_pairs_.insert(pair) : (void)cut_pairs_.erase(pair);
}

}  // namespace strata::transport
