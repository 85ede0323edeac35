// The part of AggregatorLink that goes from one ring of ranks to the next.
#include "absl/time/time.h"
#include "worker/client/link/aggregator_link.h"

namespace strata::client {

void AggregatorLink::SayStopped(const proto::RankStopped& stopped) {
  proto::RankMessage message;
  *message.mutable_stopped() = stopped;
  Say(message).IgnoreError();
}

absl::StatusOr<proto::RankRing> AggregatorLink::AwaitRing(const device::StillWanted& wanted) {
  while (true) {
    if (ring_ && ring_->number() >= ring_asked()) return *ring_;
    if (absl::Status status = wanted(); !status.ok()) return status;
    proto::AggregatorMessage message;
    const absl::Status heard = channel_.Receive(&message, absl::Milliseconds(kRingPollMs));
    if (absl::IsDeadlineExceeded(heard)) continue;
    if (!heard.ok()) return Gone();
    if (message.has_stopped()) return absl::UnavailableError(message.stopped());
    if (!Keep(message)) {
      return absl::InternalError("the aggregator does not say how the job's nodes go on");
    }
  }
}

}  // namespace strata::client
