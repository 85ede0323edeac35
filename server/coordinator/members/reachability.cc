#include "server/coordinator/members/reachability.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/log.h"

namespace strata::server {
namespace {

// Interval of looking at all pairs, unless somebody joins.
constexpr absl::Duration kLookEvery = absl::Seconds(1);
// Limit of a worker's error text.
constexpr size_t kErrorBytesMax = 300;

std::vector<std::string> ShardAddresses(const proto::Register& server) {
  std::vector<std::string> addresses;
  for (uint32_t port : server.shard_ports()) {
    addresses.push_back(absl::StrCat("tcp://", server.address(), ":", port));
  }
  return addresses;
}

std::string Advice(const std::string& address) {
  if (absl::StartsWith(address, "tcp://127.") || absl::StartsWith(address, "tcp://localhost:")) {
    return "the server advertises a loopback address: start it with --interface or --advertise";
  }
  return "check route and firewall, or start the server with --interface or --advertise";
}

}  // namespace

Reachability::Reachability(Options options, const Membership* membership)
    : options_(options), membership_(membership) {}

void Reachability::Forget(const std::string& daemon) {
  pairs_.erase(daemon);
  for (auto& [worker, pairs] : pairs_) {
    std::erase_if(pairs, [&](const auto& item) { return item.second.server == daemon; });
  }
  next_look_ = absl::InfinitePast();
}

bool Reachability::IsDue(const Pair& pair, absl::Time now) const {
  const absl::Duration pause = pair.is_waiting       ? options_.answer_patience
                               : pair.error->empty() ? options_.repeat_after
                                                     : options_.retry_after;
  return now - pair.asked_at >= pause;
}

std::vector<Reachability::Try> Reachability::Due(absl::Time now) {
  std::vector<Try> due;
  if (now < next_look_) return due;
  next_look_ = now + kLookEvery;
  const std::vector<const Daemon*> servers = membership_->Alive(proto::SERVER);
  for (const Daemon* worker : membership_->Alive(proto::WORKER)) {
    if (worker->session == SessionId()) continue;
    Try ask{.session = worker->session, .peers = {}};
    for (const Daemon* server : servers) {
      const std::string& name = server->registration.name();
      for (const std::string& address : ShardAddresses(server->registration)) {
        auto [it, is_new] = pairs_[worker->registration.name()].try_emplace(address);
        Pair& pair = it->second;
        if (!is_new && !IsDue(pair, now)) continue;
        if (is_new) pair.first_asked_at = now;
        pair.server = name;
        pair.asked_at = now;
        pair.is_waiting = true;
        proto::PeerReach* peer = ask.peers.add_peers();
        peer->set_address(address);
        peer->set_name(name);
      }
    }
    if (!ask.peers.peers().empty()) due.push_back(std::move(ask));
  }
  return due;
}

bool Reachability::OnPeersTried(const std::string& worker, const proto::PeersTried& tried,
                                absl::Time now) {
  bool changed = false;
  const auto pairs = pairs_.find(worker);
  if (pairs == pairs_.end()) return false;
  for (const proto::PeerReach& peer : tried.peers()) {
    const auto it = pairs->second.find(peer.address());
    // The address is no longer requested, or belongs to another server by now.
    if (it == pairs->second.end() || it->second.server != peer.name()) continue;
    Pair& pair = it->second;
    pair.asked_at = now;  // the next try counts from the end of this one
    pair.is_waiting = false;
    const std::string error = peer.error().substr(0, kErrorBytesMax);
    const bool failed_before = pair.error.has_value() && !pair.error->empty();
    const bool news = !pair.error.has_value() || *pair.error != error;
    pair.error = error;
    if (!news) continue;
    changed = true;
    if (!error.empty()) {
      LogWarning("%s", Describe(worker, peer.address(), pair));
    } else if (failed_before) {
      LogInfo("worker %s now reaches server %s at %s", worker, pair.server, peer.address());
    }
  }
  return changed;
}

std::string Reachability::Describe(const std::string& worker, const std::string& address,
                                   const Pair& pair) const {
  const Daemon* daemon = membership_->Find(worker);
  const std::string at = daemon == nullptr ? "" : daemon->registration.address();
  return absl::StrCat("worker ", worker, at.empty() ? "" : absl::StrCat(" (", at, ")"),
                      " cannot reach server ", pair.server, " at ", address, ": ", *pair.error,
                      "; ", Advice(address));
}

Reachability::Verdict Reachability::Between(const std::string& worker, const std::string& server,
                                            absl::Time now) const {
  const Daemon* const from = membership_->Find(worker);
  const Daemon* const to = membership_->Find(server);
  if (from != nullptr && to != nullptr) {
    const uint32_t speaks = from->registration.protocol_version();
    const uint32_t needs = to->registration.protocol_version();
    if (speaks != needs) {
      return {State::kFailed,
              absl::StrFormat("worker %s speaks protocol version %d, server %s version %d", worker,
                              speaks, server, needs)};
    }
  }
  Verdict verdict;
  const auto pairs = pairs_.find(worker);
  if (pairs == pairs_.end()) return verdict;
  for (const auto& [address, pair] : pairs->second) {
    if (pair.server != server) continue;
    if (pair.error.has_value() && !pair.error->empty()) {
      return {State::kFailed, Describe(worker, address, pair)};
    }
    if (!pair.error.has_value() && now - pair.first_asked_at < options_.answer_patience) {
      verdict = {State::kTrying, absl::StrCat("waits to hear whether worker ", worker,
                                              " reaches server ", server, " at ", address)};
    }
  }
  return verdict;
}

std::vector<proto::PeerReach> Reachability::Tried(const std::string& worker) const {
  std::vector<proto::PeerReach> tried;
  const auto pairs = pairs_.find(worker);
  if (pairs == pairs_.end()) return tried;
  for (const auto& [address, pair] : pairs->second) {
    if (!pair.error.has_value()) continue;
    proto::PeerReach& peer = tried.emplace_back();
    peer.set_address(address);
    peer.set_name(pair.server);
    peer.set_error(*pair.error);
  }
  return tried;
}

}  // namespace strata::server
