// The fake device's C interface for tests in other languages, which load the plugin that their
// process has loaded.
#include <cuda_runtime.h>

#include "absl/time/clock.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/memory.h"

extern "C" {

// Takes the plugin's options, before the client opens it with the same; returns 0 if they are
// valid.
int fake_cuda_configure(const char* options) {
  return fake_cuda::ConfigureFrom(options).ok() ? 0 : 1;
}

// Returns 0 or the error's number.
int fake_cuda_use(int device) { return cudaSetDevice(device); }

// Null: there is no memory.
void* fake_cuda_allocate(size_t bytes) {
  void* memory = nullptr;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}

void* fake_cuda_new_stream() {
  cudaStream_t stream = nullptr;
  return cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess ? stream
                                                                                        : nullptr;
}

int fake_cuda_copy(void* to, const void* from, size_t bytes, void* stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, static_cast<cudaStream_t>(stream));
}
int fake_cuda_synchronize(void* stream) {
  return cudaStreamSynchronize(static_cast<cudaStream_t>(stream));
}
// The next work queued in the stream waits for this time.
int fake_cuda_delay(void* stream, size_t ms) {
  const auto sleep = [](void* how_long) {
    absl::SleepFor(absl::Milliseconds(reinterpret_cast<size_t>(how_long)));
  };
  return cudaLaunchHostFunc(static_cast<cudaStream_t>(stream), sleep, reinterpret_cast<void*>(ms));
}

// Returns where this process can read and write the data at a device address; null: nowhere.
void* fake_cuda_host_view(const void* address, size_t bytes) {
  return fake_cuda::DeviceMemory::Get().Real(static_cast<const std::byte*>(address), bytes);
}

}  // extern "C"
