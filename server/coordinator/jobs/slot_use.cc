#include "server/coordinator/jobs/slot_use.h"

#include "absl/strings/str_cat.h"

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

std::string DescribeHolders(SlotKind kind, const std::map<JobId, JobEntry>& jobs) {
  constexpr int kNamesMax = 6;
  std::string holders;
  int count = 0;
  for (const auto& [id, entry] : jobs) {
    if (!Holds(entry, kind)) continue;
    if (++count > kNamesMax) return holders + ", ...";
    absl::StrAppend(&holders, holders.empty() ? "" : ", ", "job ", id.value(), " holds ",
                    entry.job().ranks());
  }
  return holders;
}

}  // namespace strata::server
