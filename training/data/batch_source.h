#ifndef STRATA_TRAINING_DATA_BATCH_SOURCE_H_
#define STRATA_TRAINING_DATA_BATCH_SOURCE_H_

#include <array>
#include <cstdint>
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

// One rank's batches in order, the next one prepared on a thread of its own while the current one
// is trained on. What comes is a pure function of the options; see sampler.h.
//
// Threads: one caller. The data set must outlive this.
class BatchSource {
 public:
  struct Options {
    uint64_t seed = 1;
    uint32_t rank = 0, ranks = 1;
    uint32_t batch = 64;       // samples of this rank per step
    uint64_t first_step = 0;   // whose batch is the first one
    uint64_t total_steps = 0;  // and after these there is none; batches before count too
  };

  // REQUIRES: the data holds at least one full step.
  BatchSource(const Dataset* data, const Normalisation& normalisation, const Options& options);
  ~BatchSource();
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  // Starts the thread. Called once.
  void Start();

  // The next batch, valid until the next call. Blocks until it is prepared.
  // REQUIRES: called at most total_steps - first_step times.
  const Batch& Next();

 private:
  void Prepare();

  const Dataset* const data_;
  const Normalisation normalisation_;
  const Options options_;

  // The batch of step k is in slot k % 2; the preparing thread is at most one batch ahead of the
  // one in use.
  std::array<Batch, 2> slots_;
  absl::Mutex mutex_;
  uint64_t prepared_ ABSL_GUARDED_BY(mutex_);  // batches of steps before it have been filled
  uint64_t taken_ ABSL_GUARDED_BY(mutex_);     // likewise handed out, the last is in use
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace strata::worker

#endif  // STRATA_TRAINING_DATA_BATCH_SOURCE_H_
