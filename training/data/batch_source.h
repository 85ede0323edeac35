#ifndef STRATA_TRAINING_DATA_BATCH_SOURCE_H_
#define STRATA_TRAINING_DATA_BATCH_SOURCE_H_

#include <array>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "training/data/dataset.h"

namespace strata::worker {

struct Batch {
  std::vector<float> images;  // batch x channels x height x width
  std::vector<uint16_t> labels;
};

// One rank's batches in the order in which they were asked for, the next one prepared on a thread
// of its own while the current one is trained on. What comes is a pure function of the options and
// of the batches' numbers; see sampler.h.
//
// Threads: one caller. The data set must outlive this.
class BatchSource {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t batch = 64;             // samples in each
    uint64_t batches_per_epoch = 1;  // of all ranks
  };

  // REQUIRES: the data holds the batches of an epoch, and these are one at least.
  BatchSource(const Dataset* data, const Normalisation& normalisation, const Options& options);
  ~BatchSource();
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  // Starts the thread. Called once.
  void Start();

  // Asks for the job's batch of this number. It is prepared once those asked for before have been,
  // and all of them but one have been taken.
  void Expect(uint64_t number);
  // The next batch that was asked for, valid until the next call. Blocks until it is prepared.
  // REQUIRES: there is one.
  const Batch& Next();

 private:
  void Prepare();

  const Dataset* const data_;
  const Normalisation normalisation_;
  const Options options_;

  // The k-th batch that was asked for is in slot k % 2; the preparing thread is at most one batch
  // ahead of the one in use.
  std::array<Batch, 2> slots_;
  absl::Mutex mutex_;
  std::deque<uint64_t> expected_ ABSL_GUARDED_BY(mutex_);  // numbers, not yet begun
  uint64_t asked_ ABSL_GUARDED_BY(mutex_) = 0;             // batches
  uint64_t prepared_ ABSL_GUARDED_BY(mutex_) = 0;          // likewise filled
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;  // likewise handed out, the last is in use
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_DATA_BATCH_SOURCE_H_
