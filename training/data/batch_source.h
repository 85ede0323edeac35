#ifndef STRATA_TRAINING_DATA_BATCH_SOURCE_H_
#define STRATA_TRAINING_DATA_BATCH_SOURCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "common/require.h"
#include "training/data/dataset.h"

namespace strata::training {

// Decides which rank sees which sample when, by pure functions of the job, the same in every mode
// and for every spread of the ranks over nodes. In each epoch the samples are permuted by (seed,
// epoch); step k uses the next ranks * batch of them, rank r the r-th slice; a last partial step is
// dropped.
//
// So the batches of all ranks in all steps count on: rank r of step k has batch k * ranks + r of
// the job. Where steps have other ranks, each takes the next ones still. An epoch has the same
// number of batches throughout, and a step may have the last ones of an epoch and the first ones of
// the next.

// Returns the permutation of `samples` indices in an epoch (Fisher-Yates). REQUIRES: samples <
// 2^32.
std::vector<uint32_t> EpochOrder(size_t samples, uint64_t seed, uint64_t epoch);

// Returns the number of full steps of an epoch: 0 if the data is too small for one.
constexpr uint64_t StepsPerEpoch(uint64_t samples, uint64_t ranks, uint64_t batch) {
  return samples / (ranks * batch);
}

// The place of a batch in the job, by its number.
struct BatchPlace {
  uint64_t epoch = 0;
  uint64_t index = 0;  // in the epoch
};
constexpr BatchPlace PlaceOfBatch(uint64_t number, uint64_t batches_per_epoch) {
  return {number / batches_per_epoch, number % batches_per_epoch};
}

// Returns the samples of a batch of the epoch. REQUIRES: the epoch has that many.
inline absl::Span<const uint32_t> BatchSlice(const std::vector<uint32_t>& order, uint64_t index,
                                             uint64_t batch) {
  STRATA_REQUIRE(index < order.size() / batch);
  return absl::MakeConstSpan(order).subspan(index * batch, batch);
}

// Returns the samples of one rank in one step of an epoch in which all steps have the same number
// of ranks.
// REQUIRES: step < StepsPerEpoch, rank < ranks.
inline absl::Span<const uint32_t> RankSlice(const std::vector<uint32_t>& order, uint64_t step,
                                            uint64_t rank, uint64_t ranks, uint64_t batch) {
  STRATA_REQUIRE(rank < ranks && step < StepsPerEpoch(order.size(), ranks, batch));
  return BatchSlice(order, step * ranks + rank, batch);
}

struct Batch {
  std::vector<float> images;  // batch x channels x height x width
  std::vector<uint16_t> labels;
};

// One rank's batches in the order in which they were asked for, the next one prepared on a thread
// of its own while the current one is trained on. A batch is a pure function of the options and of
// its number.
//
// Threads: one caller. The data set must outlive this.
class BatchSource {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t batch = 64;             // samples in each
    uint64_t batches_per_epoch = 1;  // of all ranks
  };

  // REQUIRES: an epoch has at least one batch, and the data holds its batches.
  BatchSource(const Dataset* data, const Normalisation& normalisation, const Options& options);
  ~BatchSource();
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  // Starts the thread. Called once.
  void Start();

  // Requests the job's batch of this number. It is prepared once all earlier requests have been
  // prepared, and all but one of them taken.
  void Expect(uint64_t number);
  // Returns the next requested batch, valid until the next call. Blocks until it is prepared.
  // REQUIRES: there is one.
  const Batch& Next();

 private:
  void Prepare();

  const Dataset* const data_;
  const Normalisation normalisation_;
  const Options options_;

  // The k-th requested batch is in slot k % 2; the preparing thread is at most one batch ahead of
  // the one in use.
  std::array<Batch, 2> slots_;
  absl::Mutex mutex_;
  std::deque<uint64_t> expected_ ABSL_GUARDED_BY(mutex_);  // numbers of batches not begun yet
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;             // batches requested
  uint64_t prepared_ ABSL_GUARDED_BY(mutex_) = 0;          // batches prepared
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;             // batches handed out; the last is in use
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::training

#endif  // STRATA_TRAINING_DATA_BATCH_SOURCE_H_
