#ifndef STRATA_KERNELS_FAKE_CUDA_STREAMS_H_
#define STRATA_KERNELS_FAKE_CUDA_STREAMS_H_

#include <cuda_runtime.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace fake_cuda {

// The first thing that went wrong in a stream; all later work of the process is dropped, as on a
// device.
cudaError_t Sticky();
void Fail(cudaError_t error);
void ForgetFailures();
// What is not sticky: for the thread that asks, until it asks.
cudaError_t Return(cudaError_t error);

}  // namespace fake_cuda

// How often it was recorded, and how many of these are done.
struct FakeEvent {
  struct Counts {
    absl::Mutex mutex;
    uint64_t recorded ABSL_GUARDED_BY(mutex) = 0;
    uint64_t done ABSL_GUARDED_BY(mutex) = 0;
  };
  std::shared_ptr<Counts> counts = std::make_shared<Counts>();
};

// Work, done one piece after another, by a thread of its own or by whoever waits for it.
struct FakeStream {
 public:
  FakeStream();
  // Once all work is done.
  ~FakeStream();

  void Add(std::function<void()> work);
  void Drain();

 private:
  // Takes the first piece of work and does it, once `due`; false: there is none.
  bool DoNext(const absl::Condition& due);
  void Run();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

#endif  // STRATA_KERNELS_FAKE_CUDA_STREAMS_H_
