#include "kernels/cuda/runtime/stream.h"

#include "absl/strings/str_format.h"

namespace strata::cuda {

absl::Status Check(int device, const char* call, cudaError_t error) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // it is reported here, not by the next call
  const std::string text = absl::StrFormat("device %d: %s: %s (%s)", device, call,
                                           cudaGetErrorString(error), cudaGetErrorName(error));
  if (error == cudaErrorMemoryAllocation) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

// On a thread whose current device is another one, or that has chosen none, most calls also open
// that device, which takes some of its memory. An error of choosing the device is reported by the
// call after it.
CudaEvent::~CudaEvent() {
  (void)cudaSetDevice(device_);
  cudaEventDestroy(event_);
}

absl::StatusOr<bool> CudaEvent::Done() const {
  (void)cudaSetDevice(device_);
  const cudaError_t error = cudaEventQuery(event_);
  if (error == cudaErrorNotReady) return false;
  if (error == cudaSuccess) return true;
  return Check(device_, "cudaEventQuery", error);
}

absl::Status CudaEvent::Await() const {
  (void)cudaSetDevice(device_);
  return Check(device_, "cudaEventSynchronize", cudaEventSynchronize(event_));
}

absl::StatusOr<double> CudaEvent::SecondsSince(const device::Event& earlier) const {
  (void)cudaSetDevice(device_);
  float ms = 0;
  const cudaEvent_t begin = static_cast<const CudaEvent&>(earlier).get();
  const absl::Status status =
      Check(device_, "cudaEventElapsedTime", cudaEventElapsedTime(&ms, begin, event_));
  if (!status.ok()) return status;
  return ms / 1e3;
}

// Freeing the work space, after this, waits for kernels that use it.
CudaStream::~CudaStream() {
  if (!owned_) return;
  (void)cudaSetDevice(device_);
  cudaStreamDestroy(stream_);
}

absl::Status CudaStream::Copy(void* to, const void* from, size_t bytes) {
  (void)cudaSetDevice(device_);
  return Check(device_, "cudaMemcpyAsync",
               cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_));
}

absl::Status CudaStream::Fill(void* to, uint8_t value, size_t bytes) {
  (void)cudaSetDevice(device_);
  return Check(device_, "cudaMemsetAsync", cudaMemsetAsync(to, value, bytes, stream_));
}

absl::Status CudaStream::Record(device::Event* event) {
  (void)cudaSetDevice(device_);
  return Check(device_, "cudaEventRecord",
               cudaEventRecord(static_cast<CudaEvent*>(event)->get(), stream_));
}

absl::Status CudaStream::Wait(const device::Event& event) {
  (void)cudaSetDevice(device_);
  return Check(device_, "cudaStreamWaitEvent",
               cudaStreamWaitEvent(stream_, static_cast<const CudaEvent&>(event).get(), 0));
}

absl::Status CudaStream::Call(std::function<void()> then) {
  (void)cudaSetDevice(device_);
  auto owned = std::make_unique<std::function<void()>>(std::move(then));
  const auto call = [](void* function) {
    const std::unique_ptr<std::function<void()>> owner(
        static_cast<std::function<void()>*>(function));
    (*owner)();
  };
  const cudaError_t error = cudaLaunchHostFunc(stream_, call, owned.get());
  // If the stream fails first, it is never called and leaks.
  if (error == cudaSuccess) owned.release();
  return Check(device_, "cudaLaunchHostFunc", error);
}

absl::StatusOr<uint32_t*> CudaStream::WorkSpace() {
  if (work_space_ == nullptr) {
    auto memory =
        owner_.Allocate(kChoiceWorkSpaceBytes + multiprocessors_ * kWorkSpaceBytesPerMultiprocessor,
                        "a stream's work space");
    if (!memory.ok()) return memory.status();
    work_space_ = *std::move(memory);
  }
  return reinterpret_cast<uint32_t*>(work_space_.get());
}

absl::Status CudaStream::Synchronize() {
  (void)cudaSetDevice(device_);
  return Check(device_, "cudaStreamSynchronize", cudaStreamSynchronize(stream_));
}

}  // namespace strata::cuda
