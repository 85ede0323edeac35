#ifndef STRATA_KERNELS_FAKE_CUDA_TESTING_H_
#define STRATA_KERNELS_FAKE_CUDA_TESTING_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/unique_fd.h"

// Support for tests of the fake device and of code that uses it.
namespace fake_cuda {

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using OwnedStream = std::unique_ptr<FakeStream, DestroyStream>;
inline OwnedStream NewStream() {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0);
  return OwnedStream(stream);
}

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using OwnedEvent = std::unique_ptr<FakeEvent, DestroyEvent>;
inline OwnedEvent NewEvent() {
  cudaEvent_t event = nullptr;
  cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
  return OwnedEvent(event);
}

// Elements on the device; null where there is no memory.
template <typename T>
class Array {
 public:
  explicit Array(size_t count) : count_(count) {
    void* memory = nullptr;
    cudaMalloc(&memory, count * sizeof(T));
    at_ = static_cast<T*>(memory);
  }
  ~Array() { cudaFree(at_); }
  Array(Array&& other) noexcept
      : at_(std::exchange(other.at_, nullptr)), count_(std::exchange(other.count_, 0)) {}
  Array& operator=(Array&&) = delete;

  T* at() const { return at_; }
  size_t bytes() const { return count_ * sizeof(T); }
  // Reads it once all earlier work in the stream is done.
  std::vector<T> Read(cudaStream_t stream) const {
    std::vector<T> host(count_);
    cudaMemcpyAsync(host.data(), at_, bytes(), cudaMemcpyDefault, stream);
    cudaStreamSynchronize(stream);
    return host;
  }

 private:
  T* at_ = nullptr;
  size_t count_ = 0;
};

template <typename... Expected, typename... Actual>
cudaError_t LaunchOn(const OwnedStream& stream, unsigned blocks, unsigned threads,
                     void (*kernel)(Expected...), Actual... actual) {
  cudaLaunchConfig_t config = {};
  config.gridDim.x = blocks;
  config.blockDim.x = threads;
  config.stream = stream.get();
  return cudaLaunchKernelEx(&config, kernel, actual...);
}

// Work that waits in a stream until it is opened, or for a minute.
class Gate {
 public:
  void Close(cudaStream_t stream) { cudaLaunchHostFunc(stream, &Gate::Await, this); }
  void Open() { opens_.Notify(); }

 private:
  static void Await(void* gate) {
    static_cast<Gate*>(gate)->opens_.WaitForNotificationWithTimeout(absl::Minutes(1));
  }
  absl::Notification opens_;
};

// A process forked off this one, with a connection to it, which exits when it has run `body`, or
// the connection breaks, or after a minute.
class OtherProcess {
 public:
  class Line {
   public:
    explicit Line(strata::UniqueFd fd) : fd_(std::move(fd)) {}
    // Returns false if the other end is gone.
    bool Send(const void* data, size_t bytes);
    bool Receive(void* data, size_t bytes);

   private:
    strata::UniqueFd fd_;
  };

  explicit OtherProcess(const std::function<void(Line&)>& body);
  ~OtherProcess();

  Line& line() { return *line_; }
  // Waits until it has exited; returns its status, as of waitpid.
  int End();

 private:
  std::unique_ptr<Line> line_;
  int pid_ = -1;
};

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_TESTING_H_
