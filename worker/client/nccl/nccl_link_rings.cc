// The part of NcclLink that goes on without ranks that die.
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/log.h"
#include "worker/client/nccl/communicator_watch.h"
#include "worker/client/nccl/nccl_link.h"

namespace strata::nccl {
namespace {

constexpr absl::Duration kLook = absl::Milliseconds(10);

}  // namespace

absl::Status NcclLink::StillWanted() {
  absl::Status status = aggregator_->CheckAlive();
  return status.ok() && stops_ ? stops_->Check() : status;
}

void NcclLink::Answer(const RingStops::Answer& answer) {
  proto::RankStopped stopped;
  stopped.set_number(answer.number);
  stopped.set_has_begun(answer.has_begun);
  stopped.set_steps(answer.steps);
  stopped.set_is_over(answer.is_over);
  if (launch_.local_rank() == 0) {
    absl::StatusOr<std::string> id = device_->NewCommunicatorId();
    // Without one the coordinator finds that its node cannot go on.
    if (!id.ok()) LogError("ring %d: %s", answer.number, std::string(id.status().message()));
    if (id.ok()) stopped.set_nccl_id(*std::move(id));
  }
  aggregator_->SayStopped(stopped);
}

absl::Status NcclLink::InRings(absl::FunctionRef<absl::Status()> call) {
  while (true) {
    absl::Status status = call();
    if (!absl::IsAborted(status)) return status;
    if (status = GoOn(); !status.ok()) return status;
    if (is_over_) {
      return absl::InvalidArgumentError(
          "all other ranks have made all of their steps, but this one goes on");
    }
  }
}

absl::Status NcclLink::GoOn() {
  while (true) {
    if (absl::Status left = steps_->LeaveRing(); !left.ok()) return left;
    const absl::StatusOr<proto::RankRing> ring = aggregator_->AwaitRing([this] {
      const absl::Status wanted = StillWanted();
      return wanted.ok() || absl::IsAborted(wanted) ? aggregator_->AskProgram() : wanted;
    });
    if (!ring.ok()) return ring.status();
    if (!stops_->Form(ring->number())) continue;
    is_over_ = ring->is_over();
    absl::Status formed = is_over_ ? absl::OkStatus() : FormRing(*ring);
    if (!absl::IsAborted(formed)) return formed;
  }
}

absl::Status NcclLink::FormRing(const proto::RankRing& ring) {
  LogInfo("goes on in ring %d, as rank %d of %d", ring.number(), ring.rank(), ring.ranks());
  absl::StatusOr<std::unique_ptr<device::Communicator>> communicator = device_->NewCommunicator(
      ring.nccl_id(), ring.ranks(), ring.rank(), [this] { return StillWanted(); });
  if (!communicator.ok()) return OrStopped(communicator.status());
  return steps_->GoOn(*std::move(communicator), ring.ranks(), ring.rank());
}

absl::Status NcclLink::OrStopped(absl::Status error) {
  const absl::Time give_up = absl::Now() + CommunicatorWatch::kForTheCoordinator;
  while (absl::IsInternal(error) && device_->Health().ok() && absl::Now() < give_up) {
    if (absl::Status wanted = StillWanted(); !wanted.ok()) return wanted;
    absl::SleepFor(kLook);
  }
  return error;
}

absl::Status NcclLink::EndTogether() {
  while (true) {
    absl::Status status = ExpectSameWeights("final weights");
    // Where the ring was stopped before this rank knew it to be over, the next one says so.
    if (status.ok() && stops_ && !stops_->End()) status = stops_->Check();
    if (!absl::IsAborted(status)) return status;
    if (status = GoOn(); !status.ok() || is_over_) return status;
  }
}

}  // namespace strata::nccl
