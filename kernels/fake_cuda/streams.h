#ifndef STRATA_KERNELS_FAKE_CUDA_STREAMS_H_
#define STRATA_KERNELS_FAKE_CUDA_STREAMS_H_

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace fake_cuda {

// The first error in a stream; all later work of the process is dropped, as on a device.
cudaError_t Sticky();
void Fail(cudaError_t error);
void ForgetFailures();
void ForgetExecutions();  // of cuDNN
// Keeps a non-sticky error for this thread until it asks for it.
cudaError_t Return(cudaError_t error);
// The same for a call that opens the thread's device if nothing did before, as most calls do.
cudaError_t ReturnUsing(cudaError_t error);

// The calling thread's, as set by cudaSetDevice.
int& CurrentDevice();

// Returns this process's address for a device's `address`; host addresses are unchanged. None: not
// all of it is allocated.
std::optional<std::byte*> Reach(const void* address, size_t bytes);

}  // namespace fake_cuda

// How often it was recorded, and how many of these are done.
struct FakeEvent {
  struct Counts {
    Counts(bool is_timed, int device) : is_timed(is_timed), device(device) {}

    const bool is_timed;
    const int device;
    absl::Mutex mutex;
    uint64_t recorded ABSL_GUARDED_BY(mutex) = 0;
    uint64_t done ABSL_GUARDED_BY(mutex) = 0;
    // The last completed recording: when, where, and the stream's pretended time then.
    int64_t at_ns ABSL_GUARDED_BY(mutex) = 0;
    const FakeStream* stream ABSL_GUARDED_BY(mutex) = nullptr;
    uint64_t pretended_us ABSL_GUARDED_BY(mutex) = 0;
  };
  // Streams of the current device.
  explicit FakeEvent(bool is_timed)
      : counts(std::make_shared<Counts>(is_timed, fake_cuda::CurrentDevice())) {}

  std::shared_ptr<Counts> counts;
};

// Work, done piece by piece, by a thread of its own or by a thread that waits for it.
struct FakeStream {
 public:
  // Makes a stream of the current device.
  FakeStream();
  // Ends it once all work is done.
  ~FakeStream();

  void Add(std::function<void()> work);
  void Drain();
  int device() const { return device_; }

  // Work in this stream can declare its duration: that is the time between two events, whatever it
  // really was, so that the faster of two engines is always the same.
  void Pretend(uint64_t us) { pretended_us_ += us; }
  uint64_t pretended_us() const { return pretended_us_; }

 private:
  // Does the first piece of work, once `due`; returns false if there is none.
  bool DoNext(const absl::Condition& due);
  void Run();

  const int device_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> work_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> pretended_us_ = 0;
  std::thread thread_;
};

#endif  // STRATA_KERNELS_FAKE_CUDA_STREAMS_H_
