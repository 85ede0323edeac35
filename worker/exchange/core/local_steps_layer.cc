#include "worker/exchange/core/local_steps_layer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/copies.h"
#include "common/diverged.h"
#include "common/job/connections.h"
#include "common/job/consistency.h"
#include "common/require.h"

namespace strata::worker {
namespace {

float ElasticPull(const proto::JobRecord& record) {
  const proto::Async& async = record.job().consistency().async();
  if (!async.has_elastic()) return 0;
  const double rate = async.elastic().moving_rate() / record.view().nodes_size();
  return static_cast<float>(rate / (1 - rate));
}

}  // namespace

LocalStepsLayer::LocalStepsLayer(ExchangeStage* below, const CoreOptions& options,
                                 const kernels::Kernels& kernels)
    : ExchangeLayer(below),
      node_(options.node),
      trace_(options.trace),
      kernels_(kernels),
      map_(options.record.layout().elements(), options.record.placement().chunk_elements()),
      steps_(StepsPerClock(options.record.job())),
      elastic_pull_(ElasticPull(options.record)),
      significance_(options.record.job().consistency().lazy().significance().threshold()),
      last_round_(UINT64_MAX),
      share_(NodeShare::Of(options.record, options.node)),
      rule_(numerics::MakeLocalUpdateRule(options.record.job(), options.record.samples_per_epoch(),
                                          options.record.says_rates())),
      changes_(BufferPool::kRetainedBytesMax,
               PushesOutliveAnswers(options.record.job()) ? nullptr : options.memory),
      chunks_(map_.chunks()) {
  STRATA_REQUIRE(NodesMakeLocalSteps(options.record.job()));
  for (uint32_t c = 0; c < map_.chunks(); ++c) {
    const ChunkId id(c);
    chunks_[c].local =
        std::make_unique<numerics::WeightState>(kernels_, pool_, rule_, map_.ElementsOf(id),
                                                OptimizerRuns(options.record.layout(), map_, id));
  }
}

absl::Status LocalStepsLayer::Submit(ChunkId id, absl::Time now, CoreActions* actions) {
  Chunk& chunk = chunks_[id.value()];
  // The first step of a process that replaces one that died.
  if (chunk.clock < first_clock()) chunk.clock = chunk.steps_before = first_clock();
  actions->node.push_back({.kind = NodeAction::Kind::kSum, .chunk = id, .clock = chunk.clock});
  return absl::OkStatus();
}

absl::Status LocalStepsLayer::OnPayload(const NodeAction& asked, Bytes payload,
                                        const StepFacts& step, absl::Time now,
                                        CoreActions* actions) {
  if (asked.kind == NodeAction::Kind::kSum) {
    return NamedBy(node_, Step(asked.chunk, payload, step, now, actions));
  }
  Seed(asked.chunk, payload);
  return GiveBelow(asked, std::move(payload), step, now, actions);
}

void LocalStepsLayer::Seed(ChunkId id, const Bytes& first_weights) {
  Chunk& chunk = chunks_[id.value()];
  if (chunk.local->seeded()) {
    const uint32_t count = map_.ElementsOf(id);
    chunk.local->Replace(
        AsBytes(CopyFloats(CopyReason::kSeed, pool_, first_weights.floats(), count), count));
  } else {
    chunk.local->Seed(first_weights, 0);
  }
  chunk.start = chunk.local->weights();
}

LocalStepsImage LocalStepsLayer::Image(ChunkId id) const {
  const Chunk& chunk = chunks_[id.value()];
  STRATA_REQUIRE(chunk.local->seeded() && chunk.clock % steps_ == 0);
  STRATA_REQUIRE(!chunk.waits && chunk.next == nullptr && chunk.unsent == nullptr);
  return {.clock = chunk.clock,
          .last_samples = chunk.last_samples,
          .own = chunk.local->Image(),
          .start = chunk.start};
}

absl::Status LocalStepsLayer::Restore(ChunkId id, const LocalStepsImage& image) {
  Chunk& chunk = chunks_[id.value()];
  const uint32_t count = map_.ElementsOf(id);
  if (image.clock % steps_ != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%d steps, which end no round of %d", image.clock, steps_));
  }
  if (image.start.float_count() != count) {
    return absl::InvalidArgumentError(absl::StrFormat("vectors of %d elements, the chunk has %d",
                                                      image.start.float_count(), count));
  }
  if (absl::Status status = chunk.local->Restore(image.own); !status.ok()) return status;
  chunk.start = AsBytes(CopyFloats(CopyReason::kSeed, pool_, image.start.floats(), count), count);
  chunk.clock = image.clock;
  chunk.last_samples = image.last_samples;
  return absl::OkStatus();
}

void LocalStepsLayer::AddToImage(ChunkId chunk, NodeChunkImage* image) {
  image->local = Image(chunk);
  ExchangeLayer::AddToImage(chunk, image);
}

absl::Status LocalStepsLayer::Restore(ChunkId chunk, const NodeChunkImage& image) {
  if (!image.local) return absl::InvalidArgumentError("no weights of local steps");
  is_restored_ = true;
  absl::Status restored = Restore(chunk, *image.local);
  return restored.ok() ? ExchangeLayer::Restore(chunk, image) : restored;
}

absl::Status LocalStepsLayer::Step(ChunkId id, const Bytes& sum, const StepFacts& step,
                                   absl::Time now, CoreActions* actions) {
  Chunk& chunk = chunks_[id.value()];
  if (!kernels_.all_finite(sum.floats(), sum.float_count())) {
    return DivergedError(
        absl::StrFormat("chunk %d at step %d: the sum of the gradients has NaN or infinity",
                        id.value(), chunk.clock));
  }
  if (step.samples > 0) {
    TraceSpan span(trace_, proto::TraceEvent::APPLY, id, chunk.clock);
    uint64_t samples = share_.JobSamples(step.samples);
    // Each earlier step is assumed to have had as many samples as the largest one since: the first
    // may end an epoch, and be short.
    if (chunk.steps_before > 0 && step.samples > chunk.most_samples) {
      samples += chunk.steps_before * share_.JobSamples(step.samples - chunk.most_samples);
      chunk.most_samples = step.samples;
    }
    chunk.local->Apply(sum, static_cast<float>(1.0 / step.samples), samples, {.said = step.rate});
  }
  chunk.samples += step.samples;
  chunk.rate = step.rate;
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
absl::Status LocalStepsLayer::Finish(uint64_t clocks, absl::Time now, CoreActions* actions) {
  uint64_t rounds = (clocks + steps_ - 1) / steps_;
  const bool has_rest = significance_ > 0 && clocks % steps_ == 0;
  if (has_rest) ++rounds;
  last_round_ = rounds - 1;
  if (has_rest || clocks % steps_ != 0) {
    // By the previous process, which this one has replaced.
    const bool is_pushed = ExchangeLayer::first_clock() >= rounds;
    for (uint32_t c = 0; c < chunks_.size(); ++c) {
      // The others once the answer has come.
      if (is_pushed || chunks_[c].waits) continue;
      if (absl::Status status = SubmitBelow(ChunkId(c), now, actions); !status.ok()) return status;
    }
  }
  return FinishBelow(rounds, now, actions);
}

Bytes LocalStepsLayer::MakeChange(ChunkId id, uint64_t round) {
  Chunk& chunk = chunks_[id.value()];
  if (elastic_pull_ > 0) return chunk.local->weights();
  const uint32_t count = map_.ElementsOf(id);
  const std::shared_ptr<float> change = changes_.AllocateFloats(count);
  const float* const start = chunk.start.floats();
  const float* const local = chunk.local->weights().floats();
  const auto samples = static_cast<float>(chunk.samples);
  for (uint32_t i = 0; i < count; ++i) change.get()[i] = (start[i] - local[i]) * samples;
  if (significance_ > 0 && round != last_round_) {
    KeepInsignificant(&chunk, round, change.get(), count);
  }
  return AsBytes(change, count);
}

void LocalStepsLayer::KeepInsignificant(Chunk* chunk, uint64_t round, float* change,
                                        uint32_t count) {
  const auto limit = static_cast<float>(significance_ / std::sqrt(static_cast<double>(round) + 1));
  const float* const start = chunk->start.floats();
  const float* const local = chunk->local->weights().floats();
  const auto is_significant = [&](uint32_t i) {
    return std::abs(start[i] - local[i]) > limit * std::abs(start[i]);
  };
  uint32_t significant = 0;
  for (uint32_t i = 0; i < count; ++i) significant += is_significant(i) ? 1 : 0;
  if (significant > wire::SparseCountMax(count)) return;
  chunk->unsent = pool_.AllocateFloats(count);
  for (uint32_t i = 0; i < count; ++i) {
    const bool is_sent = is_significant(i);
    chunk->unsent.get()[i] = is_sent ? 0.0f : start[i] - local[i];
    if (!is_sent) change[i] = 0.0f;
  }
}

absl::Status LocalStepsLayer::FromBelow(NodeAction action, absl::Time now, CoreActions* actions) {
  switch (action.kind) {
    case NodeAction::Kind::kSum: {
      Chunk& chunk = chunks_[action.chunk.value()];
      // The remainder of a round counts like the round.
      if (significance_ > 0 && chunk.samples == 0) chunk.samples = chunk.last_samples;
      return GiveBelow(action, MakeChange(action.chunk, action.clock), {chunk.samples, chunk.rate},
                       now, actions);
    }
    case NodeAction::Kind::kDeliver:
      return Take(std::move(action), now, actions);
    case NodeAction::Kind::kDeliverFirst:
      if (is_restored_) {
        action.weights = chunks_[action.chunk.value()].local->weights();
      } else {
        Seed(action.chunk, action.weights);
      }
      [[fallthrough]];
    case NodeAction::Kind::kFirstWeights:
    case NodeAction::Kind::kDeliverFinal:
      actions->node.push_back(std::move(action));
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

// The node's arena has its own weights; those of the last round, to which the delta is added, are
// here.
absl::Status LocalStepsLayer::Take(NodeAction action, absl::Time now, CoreActions* actions) {
  const ChunkId id = action.chunk;
  Chunk& chunk = chunks_[id.value()];
  if (chunk.next == nullptr) chunk.next = pool_.AllocateFloats(map_.ElementsOf(action.chunk));
  float* const to = chunk.next.get() + action.first_element;
  const size_t count = action.delta ? action.delta->elements() : action.weights.float_count();
  if (action.delta) {
    action.delta->AddTo(chunk.start.floats() + action.first_element, to);
  } else {
    CopyBytes(CopyReason::kRound, to, action.weights.data(), action.weights.size());
  }
  if (elastic_pull_ > 0) ApplyElasticPull(chunk, action.first_element, count, to);
  action.delta.reset();
  action.weights = AsBytes(std::shared_ptr<float>(chunk.next, to), count);
  if (action.lands) {
    const uint32_t all = map_.ElementsOf(id);
    chunk.local->Replace(AsBytes(std::exchange(chunk.next, nullptr), all));
    chunk.start = chunk.local->weights();
    if (const std::shared_ptr<float> unsent = std::exchange(chunk.unsent, nullptr)) {
      for (uint32_t i = 0; i < all; ++i)
        unsent.get()[i] = chunk.start.floats()[i] - unsent.get()[i];
      chunk.local->Replace(AsBytes(unsent, all));
      action.weights = chunk.local->weights();
    }
    chunk.last_samples = std::exchange(chunk.samples, 0);
  }
  action.clock = chunk.clock - 1;
  const bool is_awaited = action.lands && std::exchange(chunk.waits, false);
  action.lands = is_awaited;
  actions->node.push_back(std::move(action));
  const bool has_rest = significance_ > 0 && last_round_ != UINT64_MAX;
  return is_awaited && has_rest ? SubmitBelow(id, now, actions) : absl::OkStatus();
}

void LocalStepsLayer::ApplyElasticPull(const Chunk& chunk, uint32_t first, size_t count,
                                       float* next) const {
  const float* const own = chunk.local->weights().floats() + first;
  for (size_t i = 0; i < count; ++i) next[i] = own[i] - elastic_pull_ * (own[i] - next[i]);
}

}  // namespace strata::worker
