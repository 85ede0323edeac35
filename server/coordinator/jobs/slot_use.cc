#include "server/coordinator/jobs/slot_use.h"

#include "absl/strings/str_cat.h"
#include "common/counted.h"

namespace strata::server {
namespace {

bool Holds(const JobEntry& entry, SlotKind kind) {
  return entry.running() && (kind == SlotKind::kAny || entry.on_gpus());
}

}  // namespace

uint32_t SlotsHeldOn(const std::string& daemon, SlotKind kind,
                     const std::map<JobId, JobEntry>& jobs) {
  uint32_t ranks = 0;
  for (const auto& [id, entry] : jobs) {
    if (!Holds(entry, kind)) continue;
    for (const JobNode& node : entry.nodes) {
      if (node.daemon == daemon && !node.finished) ranks += node.ranks;
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
                    entry.job().ranks());
  }
  return holders;
}

UserSlots::User& UserSlots::Find(const std::string& user) {
  if (!is_counted_) {
    for (const auto& [id, entry] : jobs_) {
      if (entry.running()) users_[entry.owner().user].used += entry.job().ranks();
    }
    for (auto& [name, found] : users_) found.limit = limit_of_(name);
    is_counted_ = true;
  }
  const auto [found, is_new] = users_.try_emplace(user);
  if (is_new) found->second.limit = limit_of_(user);
  return found->second;
}

std::string UserSlots::WhyWaits(const JobEntry& entry) {
  const std::string& name = entry.stored.status().owner();
  if (name.empty() || !limit_of_) return "";
  const User& user = Find(name);
  const uint64_t ranks = entry.job().ranks();
  if (user.limit == 0 || user.used + ranks <= user.limit) return "";
  return absl::StrCat("waits: user ", name, " may have ", Counted(user.limit, "rank"),
                      " at once, running jobs have ", user.used, ", and this job needs ", ranks);
}

void UserSlots::OnStarted(const JobEntry& entry) {
  const std::string& name = entry.stored.status().owner();
  if (!name.empty() && limit_of_) Find(name).used += entry.job().ranks();
}

}  // namespace strata::server
