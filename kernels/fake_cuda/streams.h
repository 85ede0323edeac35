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

// The first thing that went wrong in a stream; all later work of the process is dropped, as on a
// device.
cudaError_t Sticky();
void Fail(cudaError_t error);
void ForgetFailures();
void ForgetExecutions();  // of cuDNN
// Keeps an error that is not sticky for this thread until it asks for it.
cudaError_t Return(cudaError_t error);
// Does the same for a call that begins to use the thread's device if nothing did before, which is
// most.
cudaError_t ReturnUsing(cudaError_t error);

// The calling thread's, as cudaSetDevice has left it.
int& CurrentDevice();

// Returns where this process has what a device sees at `address`; host memory stays. None: not all
// of it is allocated.
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
    // The last one that is done: when, where, and the stream's pretended time then.
    int64_t at_ns ABSL_GUARDED_BY(mutex) = 0;
    const FakeStream* stream ABSL_GUARDED_BY(mutex) = nullptr;
    uint64_t pretended_us ABSL_GUARDED_BY(mutex) = 0;
  };
  // Streams of the current device.
  explicit FakeEvent(bool is_timed)
      : counts(std::make_shared<Counts>(is_timed, fake_cuda::CurrentDevice())) {}

  std::shared_ptr<Counts> counts;
};

// Work, done one piece after another, by a thread of its own or by whoever waits for it.
struct FakeStream {
 public:
  // Makes a stream of the current device.
  FakeStream();
  // Ends it once all work is done.
  ~FakeStream();

  void Add(std::function<void()> work);
  void Drain();
  int device() const { return device_; }

  // Work of this stream says how long it takes: between two of its events that is the time,
  // whatever it was, so that the faster of two engines is always the same one.
  void Pretend(uint64_t us) { pretended_us_ += us; }
  uint64_t pretended_us() const { return pretended_us_; }

 private:
  // Takes the first piece of work and does it, once `due`; false: there is none.
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
