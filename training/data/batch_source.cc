#include "training/data/batch_source.h"

#include "common/require.h"
#include "training/data/sampler.h"

namespace strata::worker {

BatchSource::BatchSource(const Dataset* data, const Normalisation& normalisation,
                         const Options& options)
    : data_(data),
      normalisation_(normalisation),
      options_(options),
      prepared_(options.first_step),
      taken_(options.first_step) {
  STRATA_REQUIRE(StepsPerEpoch(data->size(), options.ranks, options.batch) >= 1);
  for (Batch& slot : slots_) {
    slot.images.resize(options.batch * data->PixelsPerImage());
    slot.labels.resize(options.batch);
  }
}

BatchSource::~BatchSource() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void BatchSource::Start() {
  thread_ = std::thread([this] { Prepare(); });
}

const Batch& BatchSource::Next() {
  absl::MutexLock lock(&mutex_);
  STRATA_REQUIRE(taken_ < options_.total_steps);
  const uint64_t wanted = taken_++;
  const auto ready = [this, wanted]()
                         ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return prepared_ > wanted; };
  mutex_.Await(absl::Condition(&ready));
  return slots_[wanted % 2];
}

void BatchSource::Prepare() {
  const uint64_t steps_per_epoch = StepsPerEpoch(data_->size(), options_.ranks, options_.batch);
  std::vector<uint32_t> order;
  for (uint64_t step = options_.first_step; step < options_.total_steps; ++step) {
    const uint64_t step_in_epoch = step % steps_per_epoch;
    if (step_in_epoch == 0 || order.empty()) {
      order = EpochOrder(data_->size(), options_.seed, step / steps_per_epoch);
    }
    {
      absl::MutexLock lock(&mutex_);
      // The slot's last content is batch step - 2; it is free once batch step - 1 was taken.
      const auto free = [this, step]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || step < options_.first_step + 2 || taken_ >= step;
      };
      mutex_.Await(absl::Condition(&free));
      if (stopping_) return;
    }
    Batch& slot = slots_[step % 2];
    FillBatch(*data_, normalisation_,
              RankSlice(order, step_in_epoch, options_.rank, options_.ranks, options_.batch),
              slot.images.data(), slot.labels.data());
    absl::MutexLock lock(&mutex_);
    prepared_ = step + 1;
  }
}

}  // namespace strata::worker
