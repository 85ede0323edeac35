#ifndef STRATA_KERNELS_CUDA_RUNTIME_STREAM_H_
#define STRATA_KERNELS_CUDA_RUNTIME_STREAM_H_

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"

namespace strata::cuda {

// Turns the result of a CUDA call into a status such as "device 0: cudaMemcpyAsync: an illegal
// memory access was encountered (cudaErrorIllegalAddress)": Internal, or ResourceExhausted if out
// of memory.
absl::Status Check(int device, const char* call, cudaError_t error);

class CudaEvent final : public device::Event {
 public:
  CudaEvent(int device, cudaEvent_t event) : device_(device), event_(event) {}
  ~CudaEvent() override;

  absl::StatusOr<bool> Done() const override;
  absl::Status Await() const override;
  absl::StatusOr<double> SecondsSince(const device::Event& earlier) const override;

  cudaEvent_t get() const { return event_; }

 private:
  const int device_;
  const cudaEvent_t event_;
};

// Bytes of a stream's work space: for the choice of the largest elements, and then for counts by
// block and by warp.
inline constexpr size_t kChoiceWorkSpaceBytes = 8448;
inline constexpr size_t kWorkSpaceBytesPerMultiprocessor = 640;

class CudaStream final : public device::Stream {
 public:
  // `multiprocessors` of the device: grids fill it a few times. `owned`: it is destroyed with this.
  CudaStream(device::Device& device, int multiprocessors, cudaStream_t stream, bool owned)
      : owner_(device),
        device_(static_cast<int>(device.info().index)),
        multiprocessors_(multiprocessors),
        stream_(stream),
        owned_(owned) {}
  ~CudaStream() override;

  absl::Status Copy(void* to, const void* from, size_t bytes) override;
  absl::Status Fill(void* to, uint8_t value, size_t bytes) override;
  absl::Status Record(device::Event* event) override;
  absl::Status Wait(const device::Event& event) override;
  absl::Status Call(std::function<void()> then) override;
  absl::Status Synchronize() override;
  void* native() const override { return stream_; }

  // Makes the stream's device the thread's current one.
  absl::Status Select() const { return Check(device_, "cudaSetDevice", cudaSetDevice(device_)); }

  // Queues a kernel, after Select.
  template <typename... Expected, typename... Actual>
  absl::Status Launch(const char* name, dim3 blocks, dim3 threads, void (*kernel)(Expected...),
                      Actual&&... actual) {
    if (absl::Status status = Select(); !status.ok()) return status;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.stream = stream_;
    return Check(device_, name,
                 cudaLaunchKernelEx(&config, kernel, std::forward<Actual>(actual)...));
  }

  // Returns device memory in which kernels leave counts for the next kernel of the stream:
  // kChoiceWorkSpaceBytes, plus kWorkSpaceBytesPerMultiprocessor for each. Allocated on the first
  // call.
  absl::StatusOr<uint32_t*> WorkSpace();

  int device() const { return device_; }
  int multiprocessors() const { return multiprocessors_; }
  cudaStream_t get() const { return stream_; }

 private:
  device::Device& owner_;
  const int device_;
  const int multiprocessors_;
  const cudaStream_t stream_;
  const bool owned_;
  device::Memory work_space_;
};

// Returns the CUDA stream of a stream that this plugin made.
inline CudaStream& Cast(device::Stream& stream) { return static_cast<CudaStream&>(stream); }

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_RUNTIME_STREAM_H_
