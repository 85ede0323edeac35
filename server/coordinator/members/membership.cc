#include "server/coordinator/members/membership.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/os/limits.h"
#include "common/require.h"

namespace strata::server {

namespace {

// Lost daemons are remembered up to this number in total.
constexpr size_t kDaemonsMax = 4096;

absl::Status Refuse(const std::string& reason) { return absl::FailedPreconditionError(reason); }

absl::Status CheckWord(const char* what, const std::string& word) {
  if (word.size() > kNameBytesMax) {
    return Refuse(absl::StrFormat("its %s has %d bytes, at most %d are possible", what, word.size(),
                                  kNameBytesMax));
  }
  const bool is_plain =
      std::none_of(word.begin(), word.end(), [](unsigned char c) { return c < 32 || c == 127; });
  return is_plain ? absl::OkStatus()
                  : Refuse(absl::StrCat("its ", what, " contains a control character"));
}

absl::Status CheckWords(const proto::Register& registration) {
  absl::Status words = CheckWord("name", registration.name());
  if (words.ok()) words = CheckWord("address", registration.address());
  if (words.ok()) words = CheckWord("version", registration.version());
  return words.ok() ? CheckWord("host", registration.host()) : words;
}

absl::Status CheckCount(const char* what, uint64_t count, uint64_t max) {
  if (count <= max) return absl::OkStatus();
  return Refuse(absl::StrFormat("it has %d %s, at most %d are possible", count, what, max));
}

absl::Status CheckCounts(const proto::Register& registration) {
  absl::Status counts = CheckCount("shards", registration.shard_ports_size(), kShardsPerServerMax);
  if (counts.ok()) counts = CheckCount("slots", registration.slots(), kSlotsMax);
  if (counts.ok()) counts = CheckCount("jobs", registration.running_jobs_size(), kJobsHeldMax);
  for (const uint32_t port : registration.shard_ports()) {
    if (!counts.ok() || (port >= 1 && port <= 65535)) continue;
    counts = Refuse(absl::StrFormat("its shard's port %d is not in 1 to 65535", port));
  }
  return counts;
}

// Indices ascend, as devices are listed.
absl::Status CheckGpus(const proto::Register& registration) {
  if (registration.gpus().empty()) return absl::OkStatus();
  if (registration.role() != proto::WORKER) return Refuse("it is a server with GPUs");
  if (registration.ranks_per_gpu() == 0) return Refuse("its GPUs take no ranks");
  // Checks each factor first: their product may overflow 32 bits.
  absl::Status counts = CheckCount("GPUs", registration.gpus_size(), kSlotsMax);
  if (counts.ok()) counts = CheckCount("ranks per GPU", registration.ranks_per_gpu(), kSlotsMax);
  if (counts.ok()) counts = CheckCount("GPU slots", CountGpuSlots(registration), kSlotsMax);
  for (int i = 0; i < registration.gpus_size() && counts.ok(); ++i) {
    const proto::Gpu& gpu = registration.gpus(i);
    if (i > 0 && gpu.index() <= registration.gpus(i - 1).index()) {
      return Refuse(absl::StrFormat("its GPU %d does not come after GPU %d", gpu.index(),
                                    registration.gpus(i - 1).index()));
    }
    counts = CheckWord("GPU's name", gpu.name());
  }
  return counts;
}

absl::Status Check(const proto::Register& registration, const std::string& cluster_id) {
  const absl::Status speaks = CheckProtocol("it", registration.protocol_version());
  if (!speaks.ok()) return speaks;
  if (!registration.cluster_id().empty() && registration.cluster_id() != cluster_id) {
    return Refuse(absl::StrFormat("it belongs to cluster %s, the coordinator to cluster %s",
                                  registration.cluster_id(), cluster_id));
  }
  if (registration.name().empty()) return Refuse("it has no name");
  if (registration.address().empty()) return Refuse("it gives no address that peers can reach");
  const absl::Status words = CheckWords(registration);
  if (!words.ok()) return words;
  if (registration.role() == proto::SERVER && registration.shard_ports().empty()) {
    return Refuse("it is a server without shards");
  }
  if (registration.role() == proto::WORKER && registration.slots() == 0) {
    return Refuse("it is a worker without slots");
  }
  if (registration.role() == proto::SERVER && registration.stands_in()) {
    return Refuse("it is a server that only stands in: workers alone can");
  }
  if (registration.role() != proto::SERVER && registration.role() != proto::WORKER) {
    return Refuse(absl::StrFormat("its role %d is unknown", registration.role()));
  }
  const double rate = registration.link_bytes_per_s();
  if (!std::isfinite(rate) || rate < 0) {
    return Refuse(absl::StrFormat("its link's rate %g is no number of bytes a second", rate));
  }
  if (registration.attempt() == 0) return Refuse("it does not count its registrations");
  const absl::Status gpus = CheckGpus(registration);
  return gpus.ok() ? CheckCounts(registration) : gpus;
}

}  // namespace

absl::Status CheckProtocol(const char* who, uint32_t version) {
  if (version >= kProtocolVersionOldest && version <= kProtocolVersion) return absl::OkStatus();
  return Refuse(absl::StrFormat(
      "%s speaks protocol version %d, the coordinator speaks %d and %d: %s", who, version,
      kProtocolVersionOldest, kProtocolVersion,
      version > kProtocolVersion ? "upgrade the coordinator first"
                                 : "install the coordinator's version of strata here"));
}

uint32_t CountGpuSlots(const proto::Register& registration) {
  return registration.gpus_size() * registration.ranks_per_gpu();
}

absl::Time Excused(absl::Time at, absl::Duration gap, absl::Time now) {
  return at >= now ? at : std::min(at + gap, now);
}

Membership::Membership(Options options, std::string cluster_id)
    : options_(options), cluster_id_(std::move(cluster_id)) {}

absl::StatusOr<Membership::Joined> Membership::Register(SessionId session,
                                                        const proto::Register& registration,
                                                        absl::Time now) {
  const absl::Status status = Check(registration, cluster_id_);
  if (!status.ok()) return status;
  const uint64_t id = registration.daemon_id();
  if (registration.attempt() <= seen_.NewestAttempt(id)) {
    return absl::AlreadyExistsError(
        absl::StrFormat("its registration %d was seen before, the newest is %d: this is a copy",
                        registration.attempt(), seen_.NewestAttempt(id)));
  }
  seen_.Note(id, registration.attempt());
  Joined joined;
  Daemon& daemon = daemons_[registration.name()];
  const bool same = daemon.registration.daemon_id() == registration.daemon_id();
  if (daemon.alive && !same && daemon.session != SessionId()) {
    return Refuse(absl::StrFormat("the name \"%s\" is in use by a live daemon at %s",
                                  registration.name(), daemon.registration.address()));
  }
  if (daemon.alive && !same) MarkLost(&daemon, "it was started anew", &joined.lost);
  joined.returned = daemon.alive;
  joined.replaced = daemon.session;
  if (daemon.session != SessionId()) sessions_.erase(daemon.session);
  if (daemon.order == 0) daemon.order = next_order_++;
  daemon.registration = registration;
  daemon.registration.DiscardUnknownFields();
  daemon.session = session;
  daemon.alive = true;
  daemon.heard_at = now;
  daemon.disconnected_at = absl::InfiniteFuture();
  daemon.has_ended = false;
  sessions_[session] = registration.name();
  ForgetOldest();
  return joined;
}

std::string Membership::Heard(SessionId session, absl::Time now) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return "";
  daemons_[it->second].heard_at = now;
  return it->second;
}

void Membership::SetLeaving(const std::string& name) {
  const auto found = daemons_.find(name);
  if (found != daemons_.end()) found->second.registration.set_leaves(true);
}

bool Membership::IsDraining(const std::string& name) const {
  if (draining_.contains(name)) return true;
  const Daemon* const daemon = Find(name);
  return daemon != nullptr && (daemon->registration.leaves() || daemon->registration.stands_in());
}

bool Membership::StandsIn(const std::string& name) const {
  const Daemon* const daemon = Find(name);
  return daemon != nullptr && daemon->registration.stands_in() && !daemon->registration.leaves() &&
         !draining_.contains(name);
}

std::string Membership::WhyDraining(const std::string& worker) const {
  STRATA_REQUIRE(IsDraining(worker));
  return absl::StrCat("worker ", worker,
                      StandsIn(worker) ? " only stands in" : " is being drained");
}

void Membership::Report(const std::string& name, const proto::Heartbeat& heartbeat) {
  const auto found = daemons_.find(name);
  STRATA_REQUIRE(found != daemons_.end());
  Daemon& daemon = found->second;
  daemon.report.Clear();
  for (const proto::Resource& resource : heartbeat.resources()) {
    if (daemon.report.resources_size() >= kHeartbeatLinesMax) break;
    if (resource.name().size() > kNameBytesMax) continue;
    proto::Resource* kept = daemon.report.add_resources();
    *kept = resource;
    kept->DiscardUnknownFields();
  }
  for (const proto::Refusal& refusal : heartbeat.refusals()) {
    if (daemon.report.refusals_size() >= kHeartbeatLinesMax) break;
    if (refusal.cause().size() > kNameBytesMax) continue;
    proto::Refusal* kept = daemon.report.add_refusals();
    *kept = refusal;
    kept->DiscardUnknownFields();
  }
}

const Daemon* Membership::Disconnected(SessionId session, absl::Time now) {
  const auto it = sessions_.find(session);
  if (it == sessions_.end()) return nullptr;
  Daemon& daemon = daemons_[it->second];
  daemon.session = SessionId();
  daemon.disconnected_at = now;
  sessions_.erase(it);
  return &daemon;
}

void Membership::Ended(const std::string& name, uint64_t daemon_id) {
  const auto it = daemons_.find(name);
  if (it == daemons_.end() || it->second.session != SessionId()) return;
  if (it->second.registration.daemon_id() == daemon_id) it->second.has_ended = true;
}

void Membership::Excuse(absl::Duration gap, absl::Time now) {
  for (auto& [name, daemon] : daemons_) {
    daemon.heard_at = Excused(daemon.heard_at, gap, now);
    daemon.disconnected_at = Excused(daemon.disconnected_at, gap, now);
  }
}

std::vector<Membership::Lost> Membership::Tick(absl::Time now) {
  std::vector<Lost> lost;
  for (auto& [name, daemon] : daemons_) {
    if (!daemon.alive) continue;
    if (daemon.has_ended) {
      MarkLost(&daemon, "its process has ended", &lost);
    } else if (now - daemon.disconnected_at >= options_.reconnect_grace) {
      MarkLost(&daemon, "its connection ended and it did not come back", &lost);
    } else if (daemon.session != SessionId() && now - daemon.heard_at >= options_.dead_after) {
      MarkLost(&daemon,
               absl::StrCat("it has been silent for ", absl::FormatDuration(options_.dead_after)),
               &lost);
    }
  }
  return lost;
}

const Daemon* Membership::Find(const std::string& name) const {
  const auto it = daemons_.find(name);
  return it == daemons_.end() ? nullptr : &it->second;
}

std::vector<const Daemon*> Membership::All() const {
  std::vector<const Daemon*> all;
  for (const auto& [name, daemon] : daemons_) all.push_back(&daemon);
  std::sort(all.begin(), all.end(),
            [](const Daemon* a, const Daemon* b) { return a->order < b->order; });
  return all;
}

std::vector<const Daemon*> Membership::Alive(proto::Role role) const {
  std::vector<const Daemon*> alive = All();
  std::erase_if(alive, [role](const Daemon* daemon) {
    return !daemon->alive || daemon->registration.role() != role;
  });
  return alive;
}

void Membership::MarkLost(Daemon* daemon, std::string why, std::vector<Lost>* lost) {
  lost->push_back({.name = daemon->registration.name(),
                   .role = daemon->registration.role(),
                   .why = std::move(why),
                   .session = daemon->session});
  if (daemon->session != SessionId()) sessions_.erase(daemon->session);
  daemon->session = SessionId();
  daemon->alive = false;
}

void Membership::ForgetOldest() {
  if (daemons_.size() <= kDaemonsMax) return;
  auto oldest = daemons_.end();
  for (auto it = daemons_.begin(); it != daemons_.end(); ++it) {
    if (it->second.alive) continue;
    if (oldest == daemons_.end() || it->second.heard_at < oldest->second.heard_at) oldest = it;
  }
  if (oldest != daemons_.end()) daemons_.erase(oldest);
}

void SeenRegistrations::Restore(const std::vector<Entry>& entries) {
  STRATA_REQUIRE(seen_.empty());
  for (const Entry& entry : entries) Note(entry.daemon_id, entry.attempt);
  Saved();
}

uint32_t SeenRegistrations::NewestAttempt(uint64_t daemon_id) const {
  const auto it = seen_.find(daemon_id);
  return it == seen_.end() ? 0 : it->second.attempt;
}

void SeenRegistrations::Note(uint64_t daemon_id, uint32_t attempt) {
  Seen& seen = seen_[daemon_id];
  daemon_of_.erase(seen.order);
  unsaved_.erase(seen.order);
  seen = {.attempt = attempt, .order = next_order_++};
  daemon_of_[seen.order] = daemon_id;
  unsaved_.insert(seen.order);
  if (seen_.size() <= max_) return;
  const auto oldest = daemon_of_.begin();
  unsaved_.erase(oldest->first);
  seen_.erase(oldest->second);
  daemon_of_.erase(oldest);
}

std::vector<SeenRegistrations::Entry> SeenRegistrations::Unsaved() const {
  std::vector<Entry> entries;
  for (const uint64_t order : unsaved_) {
    const uint64_t daemon = daemon_of_.at(order);
    entries.push_back({.daemon_id = daemon, .attempt = seen_.at(daemon).attempt});
  }
  return entries;
}

}  // namespace strata::server
