#include "worker/exchange/local_steps_layer.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/job/consistency.h"
#include "common/job/same_host.h"
#include "worker/exchange/node_share.h"

namespace strata::worker {
namespace {

float ElasticPullOf(const proto::JobRecord& record) {
  const proto::Async& async = record.job().consistency().async();
  if (!async.has_elastic()) return 0;
  const double rate = async.elastic().moving_rate() / record.view().nodes_size();
  return static_cast<float>(rate / (1 - rate));
}

}  // namespace

LocalStepsLayer::LocalStepsLayer(std::unique_ptr<ExchangeCore> below, const CoreOptions& options,
                                 const kernels::Kernels& kernels)
    : ExchangeLayer(std::move(below)),
      node_(options.node),
      trace_(options.trace),
      kernels_(kernels),
      map_(options.record.layout().elements(), options.record.placement().chunk_elements()),
      steps_(StepsPerClock(options.record.job())),
      elastic_pull_(ElasticPullOf(options.record)),
      samples_of_all_(JobSamplesPerOwn(options.record, options.node)),
      rule_(kernels::LocalUpdateRuleOf(options.record.job(), options.record.samples_per_epoch())),
      changes_(BufferPool::kRetainedBytesMax,
               PushesOutliveAnswers(options.record.job()) ? nullptr : options.memory),
      chunks_(map_.chunks()) {
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const ChunkId id(c);
    chunks_[c].local = std::make_unique<kernels::WeightState>(
        kernels_, pool_, rule_, map_.ElementsOf(id), RunsOf(options.record.layout(), map_, id));
  }
}

void LocalStepsLayer::Submit(ChunkId chunk, CoreActions* actions) {
  actions->node.push_back(
      {.kind = NodeAction::Kind::kSum, .chunk = chunk, .clock = chunks_[chunk.value()].clock});
}

absl::Status LocalStepsLayer::OnPayload(const NodeAction& asked, Bytes payload, uint32_t samples,
                                        absl::Time now, CoreActions* actions) {
  if (asked.kind == NodeAction::Kind::kSum) {
    return NamedBy(node_, Step(asked.chunk, payload, samples, now, actions));
  }
  Chunk& chunk = chunks_[asked.chunk.value()];
  chunk.local->Seed(payload, 0);
  chunk.start = chunk.local->weights();
  return GiveBelow(asked, std::move(payload), samples, now, actions);
}

absl::Status LocalStepsLayer::Step(ChunkId id, const Bytes& sum, uint32_t samples, absl::Time now,
                                   CoreActions* actions) {
  Chunk& chunk = chunks_[id.value()];
  if (!kernels_.all_finite(sum.floats(), sum.float_count())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("chunk %d at step %d: the sum of the gradients has NaN or infinity",
                        id.value(), chunk.clock));
  }
  if (samples > 0) {
    TraceSpan span(trace_, proto::TraceEvent::APPLY, id, chunk.clock);
    const auto of_all = static_cast<uint64_t>(samples * samples_of_all_);
    chunk.local->Apply(sum, static_cast<float>(1.0 / samples), of_all, 1.0);
  }
  chunk.samples += samples;
  if (++chunk.clock % steps_ == 0) {
    chunk.waits = true;
    return SubmitBelow(id, now, actions);
  }
  actions->node.push_back({.kind = NodeAction::Kind::kDeliver,
                           .chunk = id,
                           .clock = chunk.clock - 1,
                           .lands = true,
                           .weights = chunk.local->weights()});
  return absl::OkStatus();
}

// The steps of an unfinished round are not lost: they make a last, shorter one.
void LocalStepsLayer::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  if (clocks % steps_ != 0) {
    for (uint32_t c = 0; c < chunks_.size(); ++c) Later(SubmitBelow(ChunkId(c), now, actions));
  }
  FinishBelow((clocks + steps_ - 1) / steps_, now, actions);
}

Bytes LocalStepsLayer::ChangeOf(ChunkId id) {
  const Chunk& chunk = chunks_[id.value()];
  if (elastic_pull_ > 0) return chunk.local->weights();
  const uint32_t count = map_.ElementsOf(id);
  const std::shared_ptr<float> change = changes_.AllocateFloats(count);
  const float* const start = chunk.start.floats();
  const float* const local = chunk.local->weights().floats();
  const auto samples = static_cast<float>(chunk.samples);
  for (uint32_t i = 0; i < count; ++i) change.get()[i] = (start[i] - local[i]) * samples;
  return AsBytes(change, count);
}

absl::Status LocalStepsLayer::FromBelow(NodeAction action, absl::Time now, CoreActions* actions) {
  switch (action.kind) {
    case NodeAction::Kind::kSum:
      return GiveBelow(action, ChangeOf(action.chunk), chunks_[action.chunk.value()].samples, now,
                       actions);
    case NodeAction::Kind::kDeliver:
      Take(std::move(action), actions);
      return absl::OkStatus();
    case NodeAction::Kind::kFirstWeights:
    case NodeAction::Kind::kDeliverFinal:
      actions->node.push_back(std::move(action));
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// The node's arena has its own weights: what is to be added to those of the last round is, here.
void LocalStepsLayer::Take(NodeAction action, CoreActions* actions) {
  Chunk& chunk = chunks_[action.chunk.value()];
  if (chunk.next == nullptr) chunk.next = pool_.AllocateFloats(map_.ElementsOf(action.chunk));
  float* const to = chunk.next.get() + action.first_element;
  const size_t count = action.delta ? action.delta->elements() : action.weights.float_count();
  if (action.delta) {
    action.delta->AddTo(chunk.start.floats() + action.first_element, to);
  } else {
    CopyBytes(CopyReason::kRound, to, action.weights.data(), action.weights.size());
  }
  if (elastic_pull_ > 0) Meet(chunk, action.first_element, count, to);
  action.delta.reset();
  action.weights = AsBytes(std::shared_ptr<float>(chunk.next, to), count);
  if (action.lands) {
    chunk.local->Replace(
        AsBytes(std::exchange(chunk.next, nullptr), map_.ElementsOf(action.chunk)));
    chunk.start = chunk.local->weights();
    chunk.samples = 0;
  }
  action.clock = chunk.clock - 1;
  action.lands = action.lands && std::exchange(chunk.waits, false);
  actions->node.push_back(std::move(action));
}

void LocalStepsLayer::Meet(const Chunk& chunk, uint32_t first, size_t count, float* next) const {
  const float* const own = chunk.local->weights().floats() + first;
  for (size_t i = 0; i < count; ++i) next[i] = own[i] - elastic_pull_ * (own[i] - next[i]);
}

size_t LocalStepsLayer::memory_bytes() const {
  return ExchangeLayer::memory_bytes() + pool_.allocated_bytes() + changes_.allocated_bytes();
}

}  // namespace strata::worker
