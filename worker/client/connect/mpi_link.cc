#include "worker/client/connect/mpi_link.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/diverged.h"
#include "common/require.h"
#include "common/wire/frame.h"
#include "worker/client/local_link.h"

namespace strata::mpi {
namespace {

uint64_t HashOf(absl::Span<const float> floats) {
  return wire::Checksum(
      {reinterpret_cast<const std::byte*>(floats.data()), floats.size() * sizeof(float)});
}

uint64_t HashOf(const proto::Layout& layout) {
  const std::string bytes = layout.SerializeAsString();
  return wire::Checksum({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
}

}  // namespace

MpiLink::MpiLink(const proto::Job& job, uint64_t first_step, Collective* collective,
                 const kernels::Kernels& kernels, Reporting reporting)
    : job_(job),
      collective_(collective),
      kernels_(kernels),
      reporting_(std::move(reporting)),
      rule_(numerics::MakeLocalUpdateRule(job, 0)) {
  facts_.first_step = first_step;
  STRATA_REQUIRE(job.ranks() == collective->ranks());
}

absl::StatusOr<client::ArenaView> MpiLink::Allocate(const proto::Layout& layout) {
  if (absl::Status status = ValidateLayout(layout); !status.ok()) return status;
  layout_ = layout;
  weights_.assign(layout.elements(), 0.0f);
  gradients_.assign(layout.elements(), 0.0f);
  const int vectors = StateVectors(rule_.optimizer.kind);
  if (vectors > 0) state0_.assign(layout.elements(), 0.0f);
  if (vectors > 1) state1_.assign(layout.elements(), 0.0f);
  return client::ArenaView{absl::MakeSpan(weights_), absl::MakeSpan(gradients_)};
}

// The maxima of a value and of its complement over all ranks equal its own only if all are equal.
absl::Status MpiLink::ExpectSame(const char* what, uint64_t value) {
  std::array<uint64_t, 2> largest = {value, ~value};
  if (absl::Status status = collective_->Max(absl::MakeSpan(largest)); !status.ok()) return status;
  if (largest[0] == value && largest[1] == ~value) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks have other ", what, " than one another"));
}

absl::StatusOr<client::RunFacts> MpiLink::Start(const client::JobFacts& facts) {
  if (facts.says_rates) {
    return absl::InvalidArgumentError(
        "exchange: MPI takes learning rates from schedule, but the program says them in each step");
  }
  if (absl::Status same = ExpectSame("tensors", HashOf(layout_)); !same.ok()) return same;
  if (absl::Status same = ExpectSame("first weights", HashOf(weights_)); !same.ok()) return same;
  if (absl::Status begun = reporting_.begin(facts, layout_); !begun.ok()) return begun;
  facts_.samples_per_epoch = rule_.samples_per_epoch = facts.samples_per_epoch;
  facts_.chunk_elements = job_.chunk_elements() > 0 ? job_.chunk_elements()
                                                    : DefaultChunkElements(layout_.elements(), 1);
  map_ = std::make_unique<ChunkMap>(layout_.elements(), facts_.chunk_elements);
  under_way_.resize(map_->chunks());
  for (uint32_t c = 0; c < map_->chunks(); ++c) {
    runs_.push_back(OptimizerRuns(layout_, *map_, ChunkId(c)));
  }
  const absl::StatusOr<std::optional<client::ArenaImage>> image =
      client::ReadArena(read_, layout_, StateVectors(rule_.optimizer.kind));
  if (!image.ok()) return image.status();
  if (*image) {
    (*image)->CopyTo(weights_.data(), state0_.data(), state1_.data());
    samples_ = (*image)->samples();
  }
  return facts_;
}

absl::Status MpiLink::BeginStep(uint64_t, uint32_t samples, float) {
  std::array<uint64_t, 1> all = {samples};
  if (absl::Status status = collective_->Sum(absl::MakeSpan(all)); !status.ok()) return status;
  step_samples_ = all[0];
  samples_ += step_samples_;
  return reporting_.move_on();
}

absl::Status MpiLink::Push() {
  // One test makes progress on all of MPI's operations.
  if (order_.empty()) return absl::OkStatus();
  return collective_->IsDone(under_way_[order_.back().value()]->sum).status();
}

absl::Status MpiLink::Publish(absl::Span<const ChunkId> chunks, uint64_t step) {
  for (const ChunkId chunk : chunks) {
    const uint64_t begin = map_->OffsetOf(chunk);
    const size_t count = map_->ElementsOf(chunk);
    if (!kernels_.all_finite(gradients_.data() + begin, count)) {
      return DivergedError(
          absl::StrCat("the gradient of chunk ", chunk.value(), " is not finite at step ", step));
    }
    auto sum = collective_->StartSum(absl::MakeSpan(gradients_).subspan(begin, count));
    if (!sum.ok()) return sum.status();
    bytes_ += count * sizeof(float);
    UnderWay under_way = {.sum = *sum};
    under_way.update = numerics::UpdateAt(rule_, samples_, step + 1);
    under_way.update.gradient_scale =
        static_cast<float>(1.0 / static_cast<double>(std::max<uint64_t>(1, step_samples_)));
    under_way_[chunk.value()] = under_way;
    order_.push_back(chunk);
  }
  return Push();
}

absl::Status MpiLink::AwaitWeights(ChunkId chunk, uint64_t) {
  return under_way_[chunk.value()] ? Land(chunk) : absl::OkStatus();
}

absl::Status MpiLink::Land(ChunkId chunk) {
  const UnderWay& under_way = *under_way_[chunk.value()];
  absl::StatusOr<bool> done = collective_->IsDone(under_way.sum);
  if (!done.ok()) return done.status();
  ++progress_.chunks;
  progress_.done_before_wait += *done ? 1 : 0;
  const absl::Time begin = absl::Now();
  if (absl::Status status = collective_->Wait(under_way.sum); !status.ok()) return status;
  progress_.waiting_s += absl::ToDoubleSeconds(absl::Now() - begin);
  const uint64_t at = map_->OffsetOf(chunk);
  float* weights = weights_.data() + at;
  numerics::ApplyUpdate(kernels_, rule_.optimizer, under_way.update, runs_[chunk.value()],
                        gradients_.data() + at, weights, weights,
                        state0_.empty() ? nullptr : state0_.data() + at,
                        state1_.empty() ? nullptr : state1_.data() + at);
  under_way_[chunk.value()].reset();
  order_.erase(std::find(order_.begin(), order_.end(), chunk));
  return Push();
}

absl::Status MpiLink::LandAll() {
  while (!order_.empty()) {
    if (absl::Status status = Land(order_.front()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ChunkImage>> MpiLink::Cut(uint64_t steps) {
  if (absl::Status landed = LandAll(); !landed.ok()) return landed;
  client::ArenaImage image(layout_.elements(), StateVectors(rule_.optimizer.kind));
  image.CopyFrom(weights_.data(), state0_.data(), state1_.data());
  return image.Chunks(*map_, steps, samples_);
}

absl::Status MpiLink::Finish(uint64_t) {
  if (absl::Status landed = LandAll(); !landed.ok()) return landed;
  if (absl::Status status = reporting_.move_on(); !status.ok()) return status;
  return ExpectSame("final weights", HashOf(weights_));
}

proto::NodeCounters MpiLink::Counters() const {
  proto::NodeCounters counters;
  counters.set_bytes_pushed(bytes_);
  counters.set_bytes_answered(bytes_);
  counters.set_pushes(progress_.chunks);
  return counters;
}

}  // namespace strata::mpi
