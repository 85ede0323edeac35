#include "kernels/fake_cuda/streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/memory.h"

namespace fake_cuda {
namespace {

std::atomic<int> sticky = cudaSuccess;
std::atomic<uint32_t> launches = 0;
std::atomic<uint64_t> timed_events = 0;
std::atomic<uint64_t> used_devices = 0;
thread_local cudaError_t last_error = cudaSuccess;

void Delay() {
  const uint32_t us = CurrentSettings().delay_us;
  if (us > 0) absl::SleepFor(absl::Microseconds(us));
}

// Replaces device addresses among the words by real ones. Returns false if one is not allocated, or
// inaccessible to the device's kernels.
bool Translate(int device, std::vector<uint64_t>* words) {
  const DeviceMemory& memory = DeviceMemory::Get();
  for (uint64_t& word : *words) {
    if (!memory.IsDevices(word)) continue;
    const auto* const address = reinterpret_cast<const std::byte*>(word);
    const std::byte* real = memory.Real(address, 0);
    if (real == nullptr || !memory.MayUse(device, address)) return false;
    word = reinterpret_cast<uint64_t>(real);
  }
  return true;
}

void RunLaunch(const cudaLaunchConfig_t& config, Arguments arguments) {
  Delay();
  if (Sticky() != cudaSuccess) return;
  const Settings& settings = CurrentSettings();
  if (++launches == settings.fails_at) return Fail(static_cast<cudaError_t>(settings.error));
  if (!Translate(config.stream->device(), &arguments.words)) return Fail(cudaErrorIllegalAddress);
  const auto body = [&] { arguments.call(arguments.words); };
  if (!RunGrid(config.gridDim, config.blockDim, body)) Fail(cudaErrorLaunchFailure);
}

}  // namespace

std::optional<std::byte*> Reach(const void* address, size_t bytes) {
  auto* at = static_cast<std::byte*>(const_cast<void*>(address));
  const DeviceMemory& memory = DeviceMemory::Get();
  if (!memory.IsDevices(reinterpret_cast<uint64_t>(at))) return at;
  std::byte* real = memory.Real(at, bytes);
  return real == nullptr ? std::nullopt : std::optional(real);
}

uint64_t TimedEvents() { return timed_events; }
uint64_t UsedDevices() { return used_devices; }

int& CurrentDevice() {
  thread_local int device = 0;
  return device;
}

cudaError_t Sticky() { return static_cast<cudaError_t>(sticky.load()); }
void Fail(cudaError_t error) {
  int none = cudaSuccess;
  sticky.compare_exchange_strong(none, error);
}
void ForgetFailures() {
  sticky = cudaSuccess;
  launches = 0;
  used_devices = 0;
  last_error = cudaSuccess;
}
cudaError_t Return(cudaError_t error) {
  if (Sticky() != cudaSuccess) error = Sticky();
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

cudaError_t ReturnUsing(cudaError_t error) {
  used_devices |= uint64_t{1} << CurrentDevice();
  return Return(error);
}

cudaError_t Launch(const cudaLaunchConfig_t& config, Arguments arguments) {
  const dim3 blocks = config.gridDim, threads = config.blockDim;
  const uint64_t count = uint64_t{threads.x} * threads.y * threads.z;
  if (count == 0 || count > 1024 || blocks.x == 0 || blocks.y == 0 || blocks.z == 0 ||
      config.stream == nullptr || config.dynamicSmemBytes > 0) {
    return ReturnUsing(cudaErrorInvalidValue);
  }
  if (config.stream->device() != CurrentDevice()) {
    return ReturnUsing(cudaErrorInvalidResourceHandle);
  }
  config.stream->Add([config, arguments = std::move(arguments)] { RunLaunch(config, arguments); });
  return ReturnUsing(cudaSuccess);
}

}  // namespace fake_cuda

using fake_cuda::ReturnUsing;

FakeStream::FakeStream() : device_(fake_cuda::CurrentDevice()), thread_([this] { Run(); }) {}

FakeStream::~FakeStream() {
  {
    const absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

void FakeStream::Add(std::function<void()> work) {
  const absl::MutexLock lock(&mutex_);
  work_.push_back(std::move(work));
}

bool FakeStream::DoNext(const absl::Condition& due) {
  std::function<void()> work;
  {
    const absl::MutexLock lock(&mutex_);
    mutex_.Await(due);
    if (work_.empty()) return false;
    work = std::move(work_.front());
    work_.pop_front();
    busy_ = true;
  }
  std::exchange(work, nullptr)();
  const absl::MutexLock lock(&mutex_);
  busy_ = false;
  return true;
}

// The waiting thread does the remaining work itself: on a busy host, waking another thread takes
// longer than most work.
void FakeStream::Drain() {
  const auto due = [this] {
    mutex_.AssertHeld();
    return !busy_;
  };
  while (DoNext(absl::Condition(&due))) continue;
}

void FakeStream::Run() {
  const auto due = [this] {
    mutex_.AssertHeld();
    return !busy_ && (!work_.empty() || ends_);
  };
  while (DoNext(absl::Condition(&due))) continue;
}

cudaError_t cudaGetLastError() { return std::exchange(fake_cuda::last_error, fake_cuda::Sticky()); }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = std::make_unique<FakeStream>().release();
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::unique_ptr<FakeStream> owned(stream);
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  // Default streams, which are small numbers, are not supported.
  if (reinterpret_cast<uintptr_t>(stream) < 3) {
    return fake_cuda::Return(cudaErrorInvalidResourceHandle);
  }
  *device = stream->device();
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->Drain();
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const auto counts = event->counts;
  counts->mutex.Lock();
  const uint64_t recorded = counts->recorded;
  counts->mutex.Unlock();
  stream->Add([counts, recorded] {
    const absl::MutexLock lock(&counts->mutex);
    const auto done = [&] {
      counts->mutex.AssertHeld();
      return counts->done >= recorded;
    };
    counts->mutex.Await(absl::Condition(&done));
  });
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  stream->Add([=] {
    if (fake_cuda::Sticky() == cudaSuccess) function(argument);
  });
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  stream->Add([=] {
    fake_cuda::Delay();
    if (fake_cuda::Sticky() != cudaSuccess || bytes == 0) return;
    const auto target = fake_cuda::Reach(to, bytes), source = fake_cuda::Reach(from, bytes);
    if (!target || !source) return fake_cuda::Fail(cudaErrorIllegalAddress);
    std::memcpy(*target, *source, bytes);
  });
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  stream->Add([=] {
    if (fake_cuda::Sticky() != cudaSuccess || bytes == 0) return;
    const auto target = fake_cuda::Reach(to, bytes);
    if (!target) return fake_cuda::Fail(cudaErrorIllegalAddress);
    std::memset(*target, value, bytes);
  });
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const bool is_timed = (flags & cudaEventDisableTiming) == 0;
  if (is_timed) ++fake_cuda::timed_events;
  *event = std::make_unique<FakeEvent>(is_timed).release();
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::unique_ptr<FakeEvent> owned(event);
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const auto counts = event->counts;
  if (counts->device != stream->device()) return ReturnUsing(cudaErrorInvalidResourceHandle);
  counts->mutex.Lock();
  const uint64_t mine = ++counts->recorded;
  counts->mutex.Unlock();
  stream->Add([counts, mine, stream] {
    const absl::MutexLock lock(&counts->mutex);
    counts->done = std::max(counts->done, mine);
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    counts->at_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
    counts->stream = stream;
    counts->pretended_us = stream->pretended_us();
  });
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const absl::MutexLock lock(&event->counts->mutex);
  return ReturnUsing(event->counts->done == event->counts->recorded ? cudaSuccess
                                                                    : cudaErrorNotReady);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  {
    FakeEvent::Counts& counts = *event->counts;
    const absl::MutexLock lock(&counts.mutex);
    const auto done = [&counts] {
      counts.mutex.AssertHeld();
      return counts.done == counts.recorded;
    };
    counts.mutex.Await(absl::Condition(&done));
  }
  return ReturnUsing(cudaSuccess);
}

namespace {

struct Reading {
  int64_t at_ns;
  const FakeStream* stream;
  uint64_t pretended_us;
};

// Sets `error` if CUDA would refuse it.
Reading Read(FakeEvent::Counts& counts, cudaError_t* error) {
  const absl::MutexLock lock(&counts.mutex);
  if (!counts.is_timed || counts.recorded == 0) {
    *error = cudaErrorInvalidResourceHandle;
  } else if (counts.done != counts.recorded) {
    *error = cudaErrorNotReady;
  }
  return {counts.at_ns, counts.stream, counts.pretended_us};
}

}  // namespace

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  if (begin->counts->device != end->counts->device) {
    return ReturnUsing(cudaErrorInvalidResourceHandle);
  }
  cudaError_t error = cudaSuccess;
  const Reading from = Read(*begin->counts, &error), to = Read(*end->counts, &error);
  if (error != cudaSuccess) return ReturnUsing(error);
  if (from.stream == to.stream && from.pretended_us != to.pretended_us) {
    *ms = static_cast<float>(static_cast<int64_t>(to.pretended_us - from.pretended_us)) / 1e3f;
  } else {
    *ms = static_cast<float>(static_cast<double>(to.at_ns - from.at_ns) / 1e6);
  }
  return ReturnUsing(cudaSuccess);
}
