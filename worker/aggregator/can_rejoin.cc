#include "worker/aggregator/can_rejoin.h"

#include "absl/strings/str_format.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

absl::Status CheckCanRejoin(const proto::Launch& launch, const proto::Offer& offer) {
  const NodeId node(launch.node());
  if (!Rejoins(launch.record(), node, launch.incarnation())) return absl::OkStatus();
  const char* lack = nullptr;
  if (!offer.can_resume()) {
    lack =
        "its program has not said that it can begin with a step that is not the first "
        "(JobFacts::can_resume)";
  } else if (offer.keeps_state()) {
    lack =
        launch.incarnation() > 1
            ? "its ranks keep state of their own, which died with them (JobFacts::keeps_state)"
            : "its ranks keep state of their own, which they do not have (JobFacts::keeps_state)";
  }
  if (lack == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      launch.incarnation() > 1 ? "node %d cannot take the place of the one that died: %s"
                               : "node %d cannot join the job: %s",
      launch.node(), lack));
}

}  // namespace strata::worker
