#include "worker/exchange/core/norm_layer.h"

#include <algorithm>
#include <utility>

#include "common/job/consistency.h"
#include "common/require.h"

namespace strata::worker {

NormLayer::NormLayer(ExchangeStage* below, const CoreOptions& options,
                     const kernels::Kernels& kernels)
    : ExchangeLayer(below),
      map_(options.record.layout().elements(), options.record.placement().chunk_elements()),
      share_(NodeShare::Of(options.record, options.node)),
      update_(kernels, pool_, options.record.job(), options.record.samples_per_epoch(),
              options.record.layout(), map_, options.record.says_rates(),
              options.record.marks_absent()) {
  STRATA_REQUIRE(AppliesOnNodes(options.record.job()));
}

absl::Status NormLayer::Submit(ChunkId chunk, absl::Time now, CoreActions* actions) {
  return SubmitBelow(chunk, now, actions);
}

absl::Status NormLayer::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  to_make_ = clocks - first_clock();
  return FinishBelow(clocks, now, actions);
}

absl::Status NormLayer::OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                                  absl::Time now, CoreActions* actions) {
  if (asked.kind == NodeAction::Kind::kFirstWeights) {
    update_.Seed(asked.chunk, payload);
  } else {
    step_ = step;
  }
  return GiveBelow(asked, std::move(payload), step, now, actions);
}

absl::Status NormLayer::FromBelow(NodeAction action, absl::Time, CoreActions* actions) {
  if (action.kind == NodeAction::Kind::kDeliverFirst) {
    TakeFirst(std::move(action), actions);
    return absl::OkStatus();
  }
  if (action.kind == NodeAction::Kind::kDeliver) {
    Take(action, actions);
    return absl::OkStatus();
  }
  if (action.kind != NodeAction::Kind::kDeliverFinal) {
    actions->node.push_back(std::move(action));
    return absl::OkStatus();
  }
  finals_.push_back(action.chunk);
  ReleaseFinals(actions);
  return absl::OkStatus();
}

// In a job that resumes, the servers have the last mean, and the node has the weights.
void NormLayer::TakeFirst(NodeAction action, CoreActions* actions) {
  if (is_restored_) {
    std::copy_n(action.weights.floats(), action.weights.float_count(),
                update_.mean(action.chunk).data());
    action.weights = update_.weights(action.chunk);
  } else {
    update_.Seed(action.chunk, action.weights);
  }
  actions->node.push_back(std::move(action));
}

void NormLayer::AddToImage(ChunkId chunk, NodeChunkImage* image) {
  image->norms = update_.Image(chunk);
  ExchangeLayer::AddToImage(chunk, image);
}

absl::Status NormLayer::Restore(ChunkId chunk, const NodeChunkImage& image) {
  if (!image.norms) return absl::InvalidArgumentError("no weights that nodes update");
  is_restored_ = true;
  absl::Status restored = update_.Restore(chunk, *image.norms);
  return restored.ok() ? ExchangeLayer::Restore(chunk, image) : restored;
}

// The servers have the last clock's gradients, and one may answer before the last answer of another
// has come.
void NormLayer::ReleaseFinals(CoreActions* actions) {
  if (to_make_ && updates_ < *to_make_) return;
  for (const ChunkId chunk : std::exchange(finals_, {})) {
    actions->node.push_back({.kind = NodeAction::Kind::kDeliverFinal,
                             .chunk = chunk,
                             .weights = update_.weights(chunk)});
  }
}

void NormLayer::Take(const NodeAction& action, CoreActions* actions) {
  float* const mean = update_.mean(action.chunk).data() + action.first_element;
  if (action.delta) {
    action.delta->AddTo(mean, mean);
  } else {
    std::copy_n(action.weights.floats(), action.weights.float_count(), mean);
  }
  if (!action.lands || !update_.Complete(action.chunk)) return;
  NodeShare share = share_;
  if (action.ranks > 0) share.ranks = action.ranks;
  update_.Apply(share.JobSamples(step_.samples), {.said = step_.rate});
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    actions->node.push_back({.kind = NodeAction::Kind::kDeliver,
                             .chunk = ChunkId(c),
                             .clock = action.clock,
                             .lands = true,
                             .weights = update_.weights(ChunkId(c))});
  }
  ++updates_;
  ReleaseFinals(actions);
}

}  // namespace strata::worker
