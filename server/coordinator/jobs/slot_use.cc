#include "server/coordinator/jobs/slot_use.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/counted.h"

namespace strata::server {
namespace {

bool Holds(const JobEntry& entry, SlotKind kind) {
  return entry.running() && (kind == SlotKind::kAny || entry.on_gpus());
}

// Returns why the owner's rights keep the job in the queue; empty: they do not.
std::string WhyMayNot(const QueueRights& rights, const JobEntry& entry) {
  const std::string& owner = entry.stored().status().owner();
  if (absl::FromUnixMillis(entry.stored().status().submitted_ms()) <= rights.revoked_until) {
    return absl::StrCat("waits: the keys of its owner ", owner, " were revoked");
  }
  if (!rights.may_submit) {
    return absl::StrCat("waits: its owner ", owner, " may run nothing here any more");
  }
  if (entry.job().has_program() && !rights.may_run_programs) {
    return absl::StrCat("waits: its owner ", owner, " may run no programs here any more");
  }
  return "";
}

}  // namespace

absl::Status CheckQueueHasRoom(const std::string& user, size_t queued_max,
                               const std::map<JobId, JobEntry>& jobs, size_t per_user_max,
                               size_t bytes_per_user_max) {
  size_t queued = 0, of_user = 0, bytes = 0;
  for (const auto& [id, entry] : jobs) {
    if (!entry.queued()) continue;
    ++queued;
    if (entry.stored().status().owner() != user) continue;
    ++of_user;
    if (!user.empty()) bytes += entry.stored().ByteSizeLong();
  }
  if (queued >= queued_max) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", queued, " jobs wait"));
  }
  if (user.empty()) return absl::OkStatus();
  if (of_user >= per_user_max) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "user ", user, " has ", Counted(of_user, "job"), " in the queue, and may have no more"));
  }
  if (bytes < bytes_per_user_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "user ", user, "'s ", Counted(of_user, "job"), " in the queue take ", bytes,
      " bytes of the coordinator's store, and may take no more than ", bytes_per_user_max));
}

std::vector<JobId> EndedTooMany(const std::map<JobId, JobEntry>& jobs, size_t ended_max,
                                size_t per_user_max, size_t bytes_per_user_max) {
  struct Kept {
    size_t jobs = 0, bytes = 0;
  };
  std::map<std::string, Kept> of_users;
  size_t kept = 0;
  std::vector<JobId> too_many;
  for (auto it = jobs.rbegin(); it != jobs.rend(); ++it) {
    if (!it->second.ended()) continue;
    const std::string& user = it->second.stored().status().owner();
    Kept& of_user = of_users[user];
    const size_t bytes = user.empty() ? 0 : it->second.stored().ByteSizeLong();
    const bool fits_user = user.empty() || (of_user.jobs < per_user_max &&
                                            of_user.bytes + bytes <= bytes_per_user_max);
    // A user's newest job is kept, however large.
    if (kept >= ended_max || (!fits_user && of_user.jobs > 0)) {
      too_many.push_back(it->first);
      continue;
    }
    ++kept;
    ++of_user.jobs;
    of_user.bytes += bytes;
  }
  std::reverse(too_many.begin(), too_many.end());
  return too_many;
}

uint32_t SlotsHeldOn(const std::string& daemon, SlotKind kind,
                     const std::map<JobId, JobEntry>& jobs) {
  uint32_t ranks = 0;
  for (const auto& [id, entry] : jobs) {
    if (!Holds(entry, kind)) continue;
    for (const JobNode& node : entry.nodes()) {
      if (node.daemon() == daemon && !node.finished()) ranks += node.ranks();
    }
  }
  return ranks;
}

std::string NameFor(const JobEntry& reader, const JobEntry& entry) {
  const bool may_show = reader.owner().tenant == entry.owner().tenant;
  return may_show ? absl::StrCat("job ", entry.id().value()) : "a job of another namespace";
}

std::string DescribeHolders(SlotKind kind, const JobEntry& reader,
                            const std::map<JobId, JobEntry>& jobs) {
  constexpr int kNamesMax = 6;
  std::string holders;
  int count = 0;
  for (const auto& [id, entry] : jobs) {
    if (!Holds(entry, kind)) continue;
    if (++count > kNamesMax) return holders + ", ...";
    absl::StrAppend(&holders, holders.empty() ? "" : ", ", NameFor(reader, entry), " holds ",
                    entry.held_ranks());
  }
  return holders;
}

UserSlots::User& UserSlots::Find(const std::string& user) {
  if (!is_counted_) {
    for (const auto& [id, entry] : jobs_) {
      if (entry.running()) users_[entry.owner().user].used += entry.held_ranks();
    }
    for (auto& [name, found] : users_) found.rights = rights_of_(name);
    is_counted_ = true;
  }
  const auto [found, is_new] = users_.try_emplace(user);
  if (is_new) found->second.rights = rights_of_(user);
  return found->second;
}

std::string UserSlots::WhyWaits(const JobEntry& entry) {
  const std::string& name = entry.stored().status().owner();
  if (name.empty() || !rights_of_) return "";
  const User& user = Find(name);
  if (std::string why = WhyMayNot(user.rights, entry); !why.empty()) return why;
  const uint64_t ranks = entry.job().ranks();
  const uint32_t slots = user.rights.slots;
  if (slots == 0 || user.used + ranks <= slots) return "";
  return absl::StrCat("waits: user ", name, " may have ", Counted(slots, "rank"),
                      " at once, running jobs have ", user.used, ", and this job needs ", ranks);
}

bool UserSlots::MayTakeMore(const JobEntry& entry, uint32_t ranks) {
  const std::string& name = entry.stored().status().owner();
  if (name.empty() || !rights_of_) return true;
  User& user = Find(name);
  const uint32_t slots = user.rights.slots;
  return WhyMayNot(user.rights, entry).empty() && (slots == 0 || user.used + ranks <= slots);
}

void UserSlots::OnStarted(const JobEntry& entry, uint32_t ranks) {
  const std::string& name = entry.stored().status().owner();
  if (!name.empty() && rights_of_) Find(name).used += ranks;
}

}  // namespace strata::server
