// The part of ReformingCore that leaves rings and forms new ones, and sees to their connections.
#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/exchange/ring_forming.h"
#include "common/link/link.h"
#include "worker/exchange/all_reduce/reforming_core.h"

namespace strata::worker {

using Phase = Exchange::Phase;

absl::StatusOr<StoppedRing> ReformingCore::StopRing(uint32_t number, absl::Time now,
                                                    CoreActions* actions) {
  if (phase_ == Phase::kSeeding) {
    return absl::FailedPreconditionError(
        "the nodes have not agreed on the first weights, without which none goes on");
  }
  if (number > number_) {
    number_ = number;
    LeaveRing(now, &actions->wire);
  }
  return StoppedRing{.clock = step_.clock(), .is_over = is_over_};
}

void ReformingCore::LeaveRing(absl::Time now, WireActions* actions) {
  if (ring_ == nullptr) return;
  Note();
  past_.bytes_pushed = counters_.bytes_pushed;
  past_.bytes_answered = counters_.bytes_answered;
  proto::NodeActivity activity;
  ring_->AddActivity(now, &activity);
  refused_ += activity.refused();
  WireActions from;
  ring_->Close(&from);
  PassOn(std::move(from), actions);
  links_before_ += static_cast<uint32_t>(ring_->links());
  ring_.reset();
  step_.Forget();
}

absl::Status ReformingCore::FormRing(const proto::FormRing& forming, absl::Time now,
                                     CoreActions* actions) {
  const uint32_t number = forming.change().number();
  if (number < number_ || number == formed_) return absl::OkStatus();
  if (phase_ == Phase::kSeeding) {
    return Named(absl::FailedPreconditionError(
        absl::StrFormat("ring %d is to go on, but the first weights are not settled", number)));
  }
  LeaveRing(now, &actions->wire);
  number_ = formed_ = number;
  is_first_ = ring_knows_end_ = false;
  if (absl::Status status = CheckFits(forming); !status.ok()) return Named(status);
  if (forming.is_over()) return EndWith(forming);
  if (absl::Status status = Form(forming); !status.ok()) return Named(status);
  return InRing(now, actions, [&](CoreActions* from) { return ring_->Start(now, from); });
}

absl::Status ReformingCore::CheckFits(const proto::FormRing& forming) const {
  const auto differs = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "ring %d is to go on after %d steps%s, but this node has made %d%s", formed_,
        forming.clock(), forming.some_lack() ? ", which some lack" : "", step_.clock(), what));
  };
  if (is_over_ && !forming.is_over()) return differs(", and they were all");
  if (forming.clock() == step_.clock()) {
    const bool can_give = !forming.some_lack() || forming.is_over() || step_.has_last();
    return can_give ? absl::OkStatus() : differs(", and keeps none of the last one's means");
  }
  const bool lacks_one = forming.clock() == step_.clock() + 1 && forming.some_lack();
  return lacks_one && !forming.is_over() ? absl::OkStatus() : differs("");
}

absl::Status ReformingCore::EndWith(const proto::FormRing& forming) {
  is_over_ = true;
  if (!makes_) return absl::OkStatus();
  if (*makes_ != step_.clock()) {
    return Named(absl::InvalidArgumentError(
        absl::StrFormat("the other nodes have finished after %d steps, this node after %d",
                        forming.clock(), *makes_)));
  }
  phase_ = Phase::kFinished;
  return absl::OkStatus();
}

absl::Status ReformingCore::Form(const proto::FormRing& forming) {
  absl::StatusOr<proto::JobRecord> record = WithRing(options_.record, forming, options_.node);
  if (!record.ok()) return record.status();
  RingBegin begin = {
      .clock = forming.clock(), .some_lack = forming.some_lack(), .means = {}, .pool = pool_};
  if (begin.some_lack && begin.clock == step_.clock()) {
    for (uint32_t c = 0; c < step_.chunks(); ++c) {
      begin.means.push_back(step_.LastMean(ChunkId(c), pool_.get()));
    }
  }
  Members members = {.from_clock = forming.clock()};
  for (const proto::LogicalNode& node : record->view().nodes()) members.ranks += node.ranks();
  CoreOptions options = options_;
  options.record = *std::move(record);
  absl::StatusOr<std::unique_ptr<AllReduceCore>> ring =
      AllReduceCore::CreateAfter(options, kernels_, std::move(begin));
  if (!ring.ok()) return ring.status();
  ring_ = *std::move(ring);
  while (!members_.empty() && members_.back().from_clock >= members.from_clock) members_.pop_back();
  members_.push_back(members);
  return absl::OkStatus();
}

// Another node may be in a new ring already, or still in the old one: it comes again.
void ReformingCore::PutOff(transport::ConnectionId connection, const wire::Frame& frame,
                           WireActions* actions) {
  LinkIdentity self = MakeIdentity(options_);
  self.view = frame.header.view;
  uint32_t unused = 0;
  wire::ErrorCode error = CheckPeerHello(self, frame, &unused);
  const bool comes_again = error == wire::ErrorCode::kNone;
  if (comes_again) {
    error = wire::ErrorCode::kWrongView;
  } else {
    ++refused_;
  }
  actions->push_back(
      {.kind = WireAction::Kind::kSend,
       .link = LinkId(),
       .connection = connection,
       .frame = MakeRefusal(self, comes_again ? wire::Op::kRetry : wire::Op::kError, error)});
}

void ReformingCore::PassOn(WireActions from, WireActions* actions) const {
  for (WireAction& action : from) {
    if (action.kind == WireAction::Kind::kConnect) {
      action.link = LinkId(action.link.value() + links_before_);
    }
    actions->push_back(std::move(action));
  }
}

void ReformingCore::OnConnected(LinkId link, transport::ConnectionId connection, absl::Time now,
                                WireActions* actions) {
  if (ring_ == nullptr || link.value() < links_before_) {
    actions->push_back({.kind = WireAction::Kind::kClose, .link = link, .connection = connection});
    return;
  }
  WireActions from;
  ring_->OnConnected(LinkId(link.value() - links_before_), connection, now, &from);
  PassOn(std::move(from), actions);
}

void ReformingCore::OnConnectFailed(LinkId link, const absl::Status& why, absl::Time now,
                                    WireActions* actions) {
  if (ring_ == nullptr || link.value() < links_before_) return;
  WireActions from;
  ring_->OnConnectFailed(LinkId(link.value() - links_before_), why, now, &from);
  PassOn(std::move(from), actions);
}

void ReformingCore::OnLost(transport::ConnectionId connection, const absl::Status& why,
                           absl::Time now, WireActions* actions) {
  if (ring_ == nullptr) return;
  WireActions from;
  ring_->OnLost(connection, why, now, &from);
  PassOn(std::move(from), actions);
}

void ReformingCore::OnSendQueueFull(const WireAction& send, absl::Time now) {
  if (ring_ != nullptr) ring_->OnSendQueueFull(send, now);
}

const std::string& ReformingCore::address(LinkId link) const {
  if (ring_ == nullptr || link.value() < links_before_) return nowhere_;
  return ring_->address(LinkId(link.value() - links_before_));
}

void ReformingCore::AddActivity(absl::Time now, proto::NodeActivity* activity) const {
  activity->set_refused(activity->refused() + refused_);
  if (ring_ != nullptr) ring_->AddActivity(now, activity);
}

}  // namespace strata::worker
