#include "tests/sim/causes.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace strata::sim {

bool Causes::ExplainNodeError(uint32_t job, const std::string& reason) const {
  return corrupted_.count(job) > 0 && absl::StrContains(reason, "MALFORMED");
}

bool Causes::Explain(uint32_t job, proto::JobState state, const std::string& reason) const {
  if (state == proto::FINISHED) return true;
  if (state == proto::CANCELLED) {
    return cancelled_.count(job) > 0 && reason == "cancelled by the user";
  }
  if (ExplainNodeError(job, reason)) return true;
  if (reason == "the coordinator was restarted while the job was starting") return restarted_;
  if (absl::StartsWith(reason, "can never fit: ")) return IsLost("worker ", /*unmet=*/true);
  if (reason == "no server is alive") return IsLost("server ", /*unmet=*/false);
  return NamesLost(reason) || NamesKeptApart(reason);
}

bool Causes::IsLost(const std::string& role, bool unmet) const {
  return std::any_of(lost_.begin(), lost_.end(), [&](const std::string& daemon) {
    return absl::StartsWith(daemon, role) && !(unmet && met_.count(daemon) > 0);
  });
}

bool Causes::NamesKeptApart(const std::string& reason) const {
  const auto says_nothing = [&](const std::string& worker) {
    return silent_.count(worker) > 0 || lost_.count(absl::StrCat("worker ", worker)) > 0;
  };
  const bool is_unknown = std::any_of(silent_.begin(), silent_.end(), [&](const auto& worker) {
    return absl::StartsWith(
        reason, absl::StrFormat("waits to hear whether worker %s reaches server ", worker));
  });
  return is_unknown || std::any_of(kept_apart_.begin(), kept_apart_.end(), [&](const auto& pair) {
           const auto& [worker, server] = pair;
           const bool is_named = absl::StartsWith(reason, absl::StrFormat("worker %s ", worker)) &&
                                 absl::StrContains(reason, absl::StrFormat(" server %s ", server));
           return is_named && says_nothing(worker);
         });
}

bool Causes::NamesLost(const std::string& reason) const {
  return std::any_of(lost_.begin(), lost_.end(), [&](const std::string& daemon) {
    // All patience for the placement went into waiting for it, or for the next of its name.
    const bool is_waited_for =
        absl::StartsWith(reason, "waits ") || absl::StrContains(reason, " cannot reach ");
    const bool came_late = is_waited_for && absl::StrContains(reason, absl::StrCat(daemon, " "));
    if (came_late) return true;
    // The process that has taken its place knows nothing of the job.
    const bool is_forgotten = absl::StrContains(reason, " no longer runs the job") ||
                              absl::StrContains(reason, " no longer holds the job's weights");
    return absl::StartsWith(reason, absl::StrCat(daemon, " ")) &&
           (absl::StrContains(reason, " is lost: ") || (is_forgotten && restarted_));
  });
}

}  // namespace strata::sim
