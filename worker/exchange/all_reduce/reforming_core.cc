#include "worker/exchange/all_reduce/reforming_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/encoding.h"
#include "common/job/job.h"
#include "common/job/views.h"
#include "common/transport/link.h"

namespace strata::worker {

using Phase = ExchangeCore::Phase;

namespace {

// The coordinator decides which nodes are lost, and may itself be away for a while; until it has,
// nobody must give up.
constexpr absl::Duration kGiveUpAfter = absl::Minutes(10);

CoreOptions Patient(CoreOptions options) {
  options.timing.give_up_after = std::max(options.timing.give_up_after, kGiveUpAfter);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ReformingCore>> ReformingCore::Create(
    const CoreOptions& options, const kernels::Kernels& kernels) {
  const proto::Job& job = options.record.job();
  if (IsEncoded(job.push()) || job.has_checkpoint() || options.record.has_resume()) {
    return absl::InvalidArgumentError(
        "on_loss: DROP goes with push.codec: FP32 alone, and without "
        "checkpoints");
  }
  const CoreOptions patient = Patient(options);
  absl::StatusOr<std::unique_ptr<AllReduceCore>> first = AllReduceCore::Create(patient, kernels);
  if (!first.ok()) return first.status();
  return std::unique_ptr<ReformingCore>(new ReformingCore(patient, kernels, *std::move(first)));
}

ReformingCore::ReformingCore(const CoreOptions& options, const kernels::Kernels& kernels,
                             std::unique_ptr<AllReduceCore> first)
    : options_(options),
      kernels_(kernels),
      pool_(first->pool()),
      ring_(std::move(first)),
      step_(ChunkMap(options.record.layout().elements(),
                     options.record.placement().chunk_elements())),
      number_(options.record.view().number()),
      formed_(number_) {}

absl::Status ReformingCore::Submit(ChunkId chunk, absl::Time now, CoreActions* actions) {
  if (is_over_) {
    return Named(absl::InvalidArgumentError(absl::StrFormat(
        "the other nodes have finished after %d steps, but this node goes on", step_.clock())));
  }
  step_.Publish(chunk);
  return InRing(now, actions, [](CoreActions*) { return absl::OkStatus(); });
}

absl::Status ReformingCore::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  makes_ = clocks;
  phase_ = Phase::kFinishing;
  if (is_over_) {
    if (clocks != step_.clock()) {
      return Named(absl::InvalidArgumentError(
          absl::StrFormat("the other nodes have finished after %d steps, this node after %d",
                          step_.clock(), clocks)));
    }
    phase_ = Phase::kFinished;
    return absl::OkStatus();
  }
  return InRing(now, actions, [](CoreActions*) { return absl::OkStatus(); });
}

absl::Status ReformingCore::OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                      absl::Time now, CoreActions* actions) {
  return InRing(now, actions, [&](CoreActions* from) {
    if (asked.kind != NodeAction::Kind::kSum) {
      return ring_->OnPayload(asked, std::move(payload), step, now, from);
    }
    ++counters_.pushes;
    step_.Keep(asked.chunk, {std::move(payload), step});
    // A ring that was formed meanwhile asks for it itself.
    return step_.is_wanted(asked.chunk) ? GiveSum(asked, now, from) : absl::OkStatus();
  });
}

absl::Status ReformingCore::InRing(absl::Time now, CoreActions* actions,
                                   const std::function<absl::Status(CoreActions*)>& call) {
  CoreActions from;
  absl::Status status = call(&from);
  while (true) {
    CoreActions more;
    PassOn(std::move(from.wire), &actions->wire);
    for (NodeAction& action : from.node)
      status.Update(Take(std::move(action), now, actions, &more));
    if (status.ok()) status = TellRing(now, &more);
    if (more.wire.empty() && more.node.empty()) break;
    from = std::move(more);
  }
  Note();
  return status;
}

absl::Status ReformingCore::Take(NodeAction action, absl::Time now, CoreActions* actions,
                                 CoreActions* more) {
  switch (action.kind) {
    case NodeAction::Kind::kSum:
      if (step_.Want(action.chunk)) {
        actions->node.push_back(std::move(action));
      } else if (step_.sum(action.chunk) != nullptr) {
        return GiveSum(action, now, more);
      }
      break;
    case NodeAction::Kind::kDeliverFirst:
      if (is_first_) {
        actions->node.push_back(std::move(action));
        break;
      }
      action.lands = true;
      TakeMean(action, actions);
      break;
    case NodeAction::Kind::kDeliver:
      TakeMean(action, actions);
      break;
    case NodeAction::Kind::kFirstWeights:
    case NodeAction::Kind::kDeliverFinal:
      actions->node.push_back(std::move(action));
      break;
  }
  return absl::OkStatus();
}

absl::Status ReformingCore::GiveSum(const NodeAction& asked, absl::Time now, CoreActions* more) {
  const ExchangeNode::Sum& sum = *step_.sum(asked.chunk);
  return ring_->OnPayload(asked, sum.bytes, sum.step, now, more);
}

void ReformingCore::TakeMean(const NodeAction& mean, CoreActions* actions) {
  if (!step_.TakeMean(mean.chunk, mean.first_element, mean.weights, mean.lands)) return;
  const uint32_t ranks = RanksAt(step_.clock());
  for (NodeAction& made : step_.Make()) {
    counters_.staleness[0] += made.lands ? 1 : 0;
    made.ranks = ranks;
    actions->node.push_back(std::move(made));
  }
}

absl::Status ReformingCore::TellRing(absl::Time now, CoreActions* more) {
  if (ring_ == nullptr || ring_->phase() == Phase::kSeeding) return absl::OkStatus();
  while (const std::optional<ChunkId> chunk = step_.NextToAnnounce()) {
    if (absl::Status status = ring_->Submit(*chunk, now, more); !status.ok()) return status;
  }
  if (!makes_ || std::exchange(ring_knows_end_, true)) return absl::OkStatus();
  return ring_->Finish(*makes_, now, more);
}

void ReformingCore::Note() {
  if (ring_ == nullptr) return;
  is_over_ = is_over_ || ring_->is_over();
  if (is_first_ && phase_ == Phase::kSeeding) phase_ = ring_->phase();
  if (makes_ && ring_->phase() == Phase::kFinished) phase_ = Phase::kFinished;
  counters_.bytes_pushed = past_.bytes_pushed + ring_->counters().bytes_pushed;
  counters_.bytes_answered = past_.bytes_answered + ring_->counters().bytes_answered;
}

uint32_t ReformingCore::RanksAt(uint64_t clock) const {
  uint32_t ranks = 0;
  for (const Members& members : members_) {
    if (members.from_clock <= clock) ranks = members.ranks;
  }
  return ranks;
}

absl::Status ReformingCore::OnLinkEvent(const LinkEvent& event, absl::Time now,
                                        CoreActions* actions) {
  using Kind = LinkEvent::Kind;
  const bool of_link = event.kind == Kind::kConnected || event.kind == Kind::kConnectFailed;
  if (ring_ == nullptr || (of_link && event.link.value() < links_before_)) {
    OnStaleEvent(event, &actions->wire);
    return absl::OkStatus();
  }
  LinkEvent own = event;
  if (of_link) own.link = LinkId(event.link.value() - links_before_);
  if (event.kind == Kind::kStart || event.kind == Kind::kFrame) {
    return InRing(now, actions,
                  [&](CoreActions* from) { return ring_->OnLinkEvent(own, now, from); });
  }
  CoreActions from;
  const absl::Status status = ring_->OnLinkEvent(own, now, &from);
  PassOn(std::move(from.wire), &actions->wire);
  if (event.kind == Kind::kTime) Note();
  return status;
}

// There is no ring, or the link belongs to an earlier one.
void ReformingCore::OnStaleEvent(const LinkEvent& event, WireActions* actions) {
  if (event.kind == LinkEvent::Kind::kFrame) PutOff(event.connection, *event.frame, actions);
  if (event.kind == LinkEvent::Kind::kConnected) {
    actions->push_back(
        {.kind = WireAction::Kind::kClose, .link = event.link, .connection = event.connection});
  }
}

absl::Time ReformingCore::deadline() const {
  return ring_ == nullptr ? absl::InfiniteFuture() : ring_->deadline();
}

size_t ReformingCore::memory_bytes() const {
  return ring_ == nullptr ? pool_->allocated_bytes() : ring_->memory_bytes();
}

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
  return InRing(now, actions, [&](CoreActions* from) {
    return ring_->OnLinkEvent(LinkEvent::Start(), now, from);
  });
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

// Another node may be in a new ring already, or still in the old one: it tries again.
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

const std::string& ReformingCore::address(LinkId link) const {
  if (ring_ == nullptr || link.value() < links_before_) return nowhere_;
  return ring_->address(LinkId(link.value() - links_before_));
}

void ReformingCore::AddActivity(absl::Time now, proto::NodeActivity* activity) const {
  activity->set_refused(activity->refused() + refused_);
  if (ring_ != nullptr) ring_->AddActivity(now, activity);
}

}  // namespace strata::worker
