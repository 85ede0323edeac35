#include "tests/sim/cluster/eavesdropper.h"

#include <memory>

#include "absl/strings/str_format.h"
#include "common/seal/seal.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {

namespace {

using transport::ConnectionId;
using transport::SimEndpoint;

constexpr size_t kFramesMax = 8;

SimEndpoint::Options Options(World* world) {
  SimEndpoint::Options options;
  options.name = "eavesdropper";
  options.host = world->NextHost();
  options.encode = true;
  options.on_ready = [] {};  // ignores answers
  return options;
}

bool HasConnected(ConnectionId end) { return end.value() % 2 == 0; }
uint64_t LineOf(ConnectionId end) { return end.value() / 2; }
ConnectionId OtherEnd(ConnectionId end) { return ConnectionId(end.value() ^ 1); }

}  // namespace

Eavesdropper::Eavesdropper(World* world)
    : world_(world), endpoint_(&world->network(), Options(world)) {
  world->network().set_tap(
      [this](const SimEndpoint& from, const std::string& address, ConnectionId connection,
             const wire::Frame& frame) { OnSent(from, address, connection, frame); });
}

void Eavesdropper::OnSalt(const std::string& endpoint, uint32_t job) {
  salts_[{endpoint, job}] = ++last_salt_;
}

Eavesdropper::EncodedHeader Eavesdropper::SealedPart(const wire::Frame& frame) {
  wire::Header header = frame.header;
  header.payload_kind = wire::PayloadKind::kInline;
  header.payload_checksum = 0;
  return wire::EncodeHeader(header, frame.payload.size());
}

void Eavesdropper::OnSent(const SimEndpoint& from, const std::string& address,
                          ConnectionId connection, const wire::Frame& frame) {
  if (&from == &endpoint_) return;
  Heard& heard = heard_[connection];
  heard.sender = from.options().name;
  if (frame.seal) {
    if (heard.salt == 0) heard.salt = salts_[{from.options().name, frame.header.job}];
    CheckNumber(heard.salt, frame);
    heard.under_way.push_back(SealedPart(frame));
  }
  if (!HasConnected(connection)) return;
  Beginning& beginning = heard.beginning;
  beginning.address = address;
  if (beginning.frames.size() < kFramesMax) beginning.frames.push_back(frame);
  if (!world_->Takes(Rare::kRepeatedConnection)) return;
  const absl::Duration late =
      world_->random().Between(absl::ZeroDuration(), world_->scenario().outage_max);
  const Way way = static_cast<Way>(world_->random().Below(kWays));
  world_->network().After(late, [this, again = beginning, way] { Repeat(again, way); });
}

void Eavesdropper::CheckNumber(uint64_t salt, const wire::Frame& frame) {
  seal::PayloadSeal payload;
  seal::Tag header_tag;
  if (!seal::DecodeSeal(*frame.seal, &payload, &header_tag).ok()) {
    return world_->Fail("no nonce is used twice: a seal that no sealer makes");
  }
  if (payload.number == 0) return;
  const auto [known, is_new] = numbers_.emplace(std::pair(salt, payload.number), payload.tag);
  if (is_new || known->second == payload.tag) return;
  world_->Fail(absl::StrFormat("no nonce is used twice: number %d of one sender: %s",
                               payload.number, wire::Describe(frame.header)));
}

void Eavesdropper::OnTaken(ConnectionId connection, const wire::Frame& frame, bool is_protected) {
  const ConnectionId sender = OtherEnd(connection);
  const bool is_own = own_.count(sender) > 0;
  if (is_own && !is_protected && !frame.seal) return;  // of a job that is over here
  if (is_own || frame.seal) {
    return world_->Fail(
        absl::StrFormat("nobody is heard without the secret: %s", wire::Describe(frame.header)));
  }
  std::deque<EncodedHeader>& under_way = heard_[sender].under_way;
  if (under_way.empty() || under_way.front() != SealedPart(frame)) {
    return world_->Fail(
        absl::StrFormat("frames are taken as they were sent: %s", wire::Describe(frame.header)));
  }
  under_way.pop_front();
  heard_[sender].was_taken = true;
}

void Eavesdropper::OnNote(transport::SimNote note, ConnectionId connection) {
  using transport::SimNote;
  const bool is_usual = note == SimNote::kSent || note == SimNote::kDelivered ||
                        note == SimNote::kRefused || note == SimNote::kConnected;
  if (!is_usual) disturbed_.insert(LineOf(connection));
}

void Eavesdropper::OnEnded(ConnectionId connection) {
  if (disturbed_.count(LineOf(connection)) > 0 || !heard_[OtherEnd(connection)].was_taken) return;
  world_->Fail(absl::StrFormat("no stranger ends a connection: %d of %s", connection.value(),
                               heard_[OtherEnd(connection)].sender));
}

void Eavesdropper::Repeat(const Beginning& heard, Way way) {
  const auto connection = endpoint_.Connect(heard.address);
  if (!connection.ok()) return;
  own_.insert(*connection);
  bool is_first = true;
  for (wire::Frame frame : heard.frames) {
    const bool is_handshake = frame.header.op == wire::Op::kHandshake;
    const bool may_stay = way == Way::kWhole || (way == Way::kUnproven && is_first);
    is_first = false;
    if (is_handshake && !may_stay) continue;
    if (way == Way::kForged) {
      frame.seal.reset();
      ++frame.header.incarnation;
    }
    (void)endpoint_.Send(*connection, frame);
  }
}

using transport::Event;

WatchedEndpoint::WatchedEndpoint(World* world, const transport::SimEndpoint::Options& options,
                                 Unsealed takes)
    : SealedEndpoint(std::make_unique<transport::SimEndpoint>(&world->network(), options), takes),
      world_(world),
      name_(options.name) {}

absl::Status WatchedEndpoint::Protect(JobId job, const seal::JobKeys& keys) {
  const auto known = keys_.find(job);
  const bool is_same = known != keys_.end() && known->second == keys;
  Eavesdropper* const hears = world_->eavesdropper();
  if (!is_same && hears != nullptr) hears->OnSalt(name_, job.value());
  keys_[job] = keys;
  return SealedEndpoint::Protect(job, keys);
}

void WatchedEndpoint::Forget(JobId job) {
  keys_.erase(job);
  SealedEndpoint::Forget(job);
}

void WatchedEndpoint::Poll(absl::Duration timeout, std::vector<Event>* events) {
  const size_t before = events->size();
  SealedEndpoint::Poll(timeout, events);
  Eavesdropper* const hears = world_->eavesdropper();
  if (hears == nullptr) return;
  for (size_t i = before; i < events->size(); ++i) {
    const Event& event = (*events)[i];
    if (event.kind == Event::Kind::kDisconnected) hears->OnEnded(event.connection);
    if (event.kind != Event::Kind::kFrame) continue;
    hears->OnTaken(event.connection, event.frame, keys_.count(JobId(event.frame.header.job)) > 0);
  }
}

}  // namespace strata::sim
