#include "training/data/batch_source.h"

#include <numeric>
#include <utility>

#include "common/random.h"
#include "common/require.h"

namespace strata::training {

BatchSource::BatchSource(const Dataset* data, const Normalisation& normalisation,
                         const Options& options)
    : data_(data), normalisation_(normalisation), options_(options) {
  STRATA_REQUIRE(options.batches_per_epoch >= 1);
  STRATA_REQUIRE(data->size() / options.batch >= options.batches_per_epoch);
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

void BatchSource::Expect(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  expected_.push_back(number);
  ++asked_;
}

const Batch& BatchSource::Next() {
  absl::MutexLock lock(&mutex_);
  STRATA_REQUIRE(taken_ < asked_);
  const uint64_t wanted = taken_++;
  const auto ready = [this, wanted]()
                         ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return prepared_ > wanted; };
  mutex_.Await(absl::Condition(&ready));
  return slots_[wanted % 2];
}

void BatchSource::Prepare() {
  std::vector<uint32_t> order;
  uint64_t epoch = 0;  // the epoch of `order`, unless that is empty
  for (uint64_t k = 0;; ++k) {
    BatchPlace place;
    {
      absl::MutexLock lock(&mutex_);
      // The slot's last content is the batch k - 2; it is free once the batch k - 1 was taken.
      const auto may_begin = [this, k]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopping_ || (!expected_.empty() && (k < 2 || taken_ >= k));
      };
      mutex_.Await(absl::Condition(&may_begin));
      if (stopping_) return;
      place = PlaceOfBatch(expected_.front(), options_.batches_per_epoch);
      expected_.pop_front();
    }
    if (order.empty() || place.epoch != epoch) {
      order = EpochOrder(data_->size(), options_.seed, place.epoch);
      epoch = place.epoch;
    }
    Batch& slot = slots_[k % 2];
    FillBatch(*data_, normalisation_, BatchSlice(order, place.index, options_.batch),
              slot.images.data(), slot.labels.data());
    absl::MutexLock lock(&mutex_);
    prepared_ = k + 1;
  }
}

std::vector<uint32_t> EpochOrder(size_t samples, uint64_t seed, uint64_t epoch) {
  STRATA_REQUIRE(samples <= UINT32_MAX);
  constexpr uint64_t kOrderStream = 0x6f72646572u;
  const uint64_t key = RandomKey(RandomKey(seed, kOrderStream), epoch);
  std::vector<uint32_t> order(samples);
  std::iota(order.begin(), order.end(), 0u);
  for (size_t i = samples; i > 1; --i) {
    std::swap(order[i - 1], order[RandomBelow(key, i, i)]);
  }
  return order;
}

}  // namespace strata::training
