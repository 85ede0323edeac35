#include "worker/client/local_link.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/diverged.h"
#include "common/job/program_optimizer.h"
#include "common/require.h"

namespace strata::client {

absl::Status AwaitTraining(const proto::Launch& launch, const proto::Layout& layout,
                           const JobFacts& facts, AgentChannel* agent,
                           const device::StillWanted& still_wanted) {
  if (!agent->connected()) return absl::OkStatus();
  proto::ChildMessage message;
  proto::NodeReady* ready = message.mutable_ready();
  ready->set_job_id(launch.record().job_id());
  *ready->mutable_layout() = layout;
  ready->set_samples_per_epoch(facts.samples_per_epoch);
  ready->set_total_steps(facts.total_steps);
  ready->set_run_dir(launch.run_dir());
  ready->set_says_rates(facts.says_rates);
  ready->set_can_resume(facts.can_resume);
  ready->set_ranks_keep_state(facts.keeps_state);
  ready->set_samples_per_rank(facts.samples_per_rank);
  ready->set_marks_absent(facts.marks_absent);
  if (!facts.optimizer.empty()) {
    absl::StatusOr<proto::Optimizer> named = ParseOptimizer(facts.optimizer);
    if (!named.ok()) return named.status();
    *ready->mutable_optimizer() = *std::move(named);
  }
  if (absl::Status status = agent->Send(message); !status.ok()) return status;
  return agent->AwaitRun(still_wanted).status();
}

absl::StatusOr<proto::Job> CompleteJob(const proto::Job& job, const JobFacts& facts) {
  absl::StatusOr<proto::Optimizer> named;
  if (!facts.optimizer.empty()) {
    named = ParseOptimizer(facts.optimizer);
    if (!named.ok()) return named.status();
  }
  proto::Job complete = job;
  const proto::Optimizer* const own = named.ok() ? &*named : nullptr;
  TakeProgramSamples(facts.samples_per_rank, own, &complete);
  absl::Status taken = TakeProgramOptimizer(own, facts.says_rates, &complete);
  if (!taken.ok()) return taken;
  return complete;
}

absl::StatusOr<std::optional<ArenaImage>> ReadArena(const RankLink::ReadImages& read,
                                                    const proto::Layout& layout, int states) {
  if (read == nullptr) return std::nullopt;
  const absl::StatusOr<std::vector<ChunkImage>> images = read();
  if (!images.ok()) return images.status();
  absl::StatusOr<ArenaImage> image = ArenaImage::Join(*images, layout.elements(), states);
  if (!image.ok()) return image.status();
  return std::optional<ArenaImage>(*std::move(image));
}

RunFacts FactsAlone(const proto::JobRecord& record, const proto::Layout& layout,
                    const JobFacts& facts) {
  const proto::Job& job = record.job();
  RunFacts run;
  run.samples_per_epoch = facts.samples_per_epoch;
  run.first_step = record.resume().step();
  run.chunk_elements =
      job.chunk_elements() > 0 ? job.chunk_elements() : DefaultChunkElements(layout.elements(), 1);
  return run;
}

LocalLink::LocalLink(const proto::Launch& launch, std::shared_ptr<AgentChannel> agent,
                     const kernels::Kernels& kernels)
    : launch_(launch), agent_(std::move(agent)), kernels_(kernels) {
  STRATA_REQUIRE(launch.record().job().ranks() == 1);
}

absl::StatusOr<ArenaView> LocalLink::Allocate(const proto::Layout& layout) {
  if (absl::Status status = ValidateLayout(layout); !status.ok()) return status;
  layout_ = layout;
  weights_.assign(layout.elements(), 0.0f);
  gradients_.assign(layout.elements(), 0.0f);
  return ArenaView{absl::MakeSpan(weights_), absl::MakeSpan(gradients_)};
}

absl::StatusOr<RunFacts> LocalLink::Start(const JobFacts& facts) {
  const absl::StatusOr<proto::Job> job = CompleteJob(launch_.record().job(), facts);
  if (!job.ok()) return job.status();
  absl::Status status = AwaitTraining(launch_, layout_, facts, agent_.get(), still_wanted_);
  if (!status.ok()) return status;
  facts_ = FactsAlone(launch_.record(), layout_, facts);
  rule_ = numerics::MakeLocalUpdateRule(*job, facts_.samples_per_epoch, facts.says_rates);
  const int vectors = StateVectors(rule_.optimizer.kind);
  if (vectors > 0) state0_.assign(layout_.elements(), 0.0f);
  if (vectors > 1) state1_.assign(layout_.elements(), 0.0f);
  map_ = std::make_unique<ChunkMap>(layout_.elements(), facts_.chunk_elements);
  for (uint32_t c = 0; c < map_->chunks(); ++c) {
    runs_.push_back(OptimizerRuns(layout_, *map_, ChunkId(c)));
  }
  const absl::StatusOr<std::optional<ArenaImage>> image = ReadArena(read_, layout_, vectors);
  if (!image.ok()) return image.status();
  if (*image) {
    (*image)->CopyTo(weights_.data(), state0_.data(), state1_.data());
    samples_ = (*image)->samples();
  }
  return facts_;
}

absl::Status LocalLink::BeginStep(uint64_t, uint32_t samples, float rate) {
  rate_ = rate;
  step_samples_ = samples;
  samples_ += samples;
  if (samples == 0) ++empty_steps_;
  return absl::OkStatus();
}

absl::Status LocalLink::AwaitWeights(ChunkId, uint64_t) { return absl::OkStatus(); }

absl::Status LocalLink::Publish(absl::Span<const ChunkId> chunks, uint64_t step) {
  for (ChunkId chunk : chunks) {
    if (absl::Status status = Update(chunk, step); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status LocalLink::Update(ChunkId chunk, uint64_t step) {
  const uint64_t begin = map_->OffsetOf(chunk);
  if (!kernels_.all_finite(gradients_.data() + begin, map_->ElementsOf(chunk))) {
    return DivergedError(
        absl::StrCat("the gradient of chunk ", chunk.value(), " is not finite at step ", step));
  }
  float* w = weights_.data() + begin;
  if (step_samples_ == 0) {
    // As WeightState::Skip.
    if (rule_.optimizer.kind == OptimizerKind::kMean) {
      std::fill_n(w, map_->ElementsOf(chunk), 0.0f);
    }
    return absl::OkStatus();
  }
  const uint64_t number = step + 1 - empty_steps_;
  numerics::Update update = numerics::UpdateAt(rule_, samples_, number, {.said = rate_});
  update.gradient_scale = static_cast<float>(1.0 / step_samples_);
  numerics::ApplyUpdate(kernels_, rule_.optimizer, update, runs_[chunk.value()],
                        gradients_.data() + begin, w, w,
                        state0_.empty() ? nullptr : state0_.data() + begin,
                        state1_.empty() ? nullptr : state1_.data() + begin);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ChunkImage>> LocalLink::Cut(uint64_t steps) {
  ArenaImage image(layout_.elements(), StateVectors(rule_.optimizer.kind));
  image.CopyFrom(weights_.data(), state0_.data(), state1_.data());
  return image.Chunks(*map_, steps, samples_);
}

absl::Status LocalLink::Finish(uint64_t) { return absl::OkStatus(); }

}  // namespace strata::client
