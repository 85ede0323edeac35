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

std::string UserSlots::WhyWaits(const JobEntry& entry) {
  const std::string& user = entry.stored.status().owner();
  if (user.empty() || !limit_of_) return "";
  const auto [found, is_new] = limits_.try_emplace(user);
  if (is_new) found->second = limit_of_(user);
  const uint64_t limit = found->second, ranks = entry.job().ranks();
  if (limit == 0) return "";
  uint64_t used = 0;
  for (const auto& [id, other] : jobs_) {
    if (other.running() && other.stored.status().owner() == user) used += other.job().ranks();
  }
  if (used + ranks <= limit) return "";
  return absl::StrCat("waits: user ", user, " may have ", Counted(limit, "rank"),
                      " at once, running jobs have ", used, ", and this job needs ", ranks);
}

}  // namespace strata::server
