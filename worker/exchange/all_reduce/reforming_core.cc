#include "worker/exchange/all_reduce/reforming_core.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/job/encoding.h"
#include "common/job/job.h"

namespace strata::worker {

using Phase = Exchange::Phase;

absl::StatusOr<std::unique_ptr<ReformingCore>> ReformingCore::Create(
    const CoreOptions& options, const kernels::Kernels& kernels) {
  const proto::Job& job = options.record.job();
  if (IsEncoded(job.push()) || job.has_checkpoint() || options.record.has_resume()) {
    return absl::InvalidArgumentError(
        "on_loss: DROP goes with push.codec: FP32 alone, and without "
        "checkpoints");
  }
  absl::StatusOr<std::unique_ptr<AllReduceCore>> first = AllReduceCore::Create(options, kernels);
  if (!first.ok()) return first.status();
  return std::unique_ptr<ReformingCore>(new ReformingCore(options, kernels, *std::move(first)));
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

absl::Status ReformingCore::Start(absl::Time now, CoreActions* actions) {
  return InRing(now, actions, [&](CoreActions* from) { return ring_->Start(now, from); });
}

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
  while (const std::optional<ChunkId> chunk = step_.NextToTell()) {
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

absl::Status ReformingCore::OnFrame(transport::ConnectionId connection, const wire::Frame& frame,
                                    absl::Time now, CoreActions* actions) {
  if (ring_ == nullptr) {
    PutOff(connection, frame, &actions->wire);
    return absl::OkStatus();
  }
  return InRing(now, actions,
                [&](CoreActions* from) { return ring_->OnFrame(connection, frame, now, from); });
}

absl::Status ReformingCore::OnTime(absl::Time now, WireActions* actions) {
  if (ring_ == nullptr) return absl::OkStatus();
  WireActions from;
  const absl::Status status = ring_->OnTime(now, &from);
  PassOn(std::move(from), actions);
  Note();
  return status;
}

absl::Time ReformingCore::deadline() const {
  return ring_ == nullptr ? absl::InfiniteFuture() : ring_->deadline();
}

size_t ReformingCore::memory_bytes() const {
  return ring_ == nullptr ? pool_->allocated_bytes() : ring_->memory_bytes();
}

}  // namespace strata::worker
