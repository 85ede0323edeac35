#include "kernels/cuda/device.h"

#include <cuda_runtime.h>

#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/cudnn/layers.h"
#include "kernels/cuda/nccl/communicator.h"
#include "kernels/cuda/runtime/stream.h"

namespace strata::cuda {
namespace {

std::string SizeText(size_t bytes) {
  const bool small = bytes < 1 << 20;
  return absl::StrFormat("%.1f %s", bytes / (small ? 1024.0 : 1048576.0), small ? "KiB" : "MiB");
}

// As in 13000 for 13.0.
std::string VersionText(int version) {
  return absl::StrFormat("%d.%d", version / 1000, version % 1000 / 10);
}

// Lets the device use the peer's memory, over NVLink or PCIe; returns false if it cannot. This
// opens the peer in this process, which takes some of its memory.
bool EnablePeer(int device, int peer) {
  static absl::Mutex mutex(absl::kConstInit);
  static std::set<std::pair<int, int>> enabled;
  if (device == peer) return true;
  int can = 0;
  absl::MutexLock lock(&mutex);
  bool reaches = cudaSetDevice(device) == cudaSuccess &&
                 cudaDeviceCanAccessPeer(&can, device, peer) == cudaSuccess && can != 0;
  if (reaches && !enabled.contains({device, peer})) {
    reaches = cudaDeviceEnablePeerAccess(peer, 0) == cudaSuccess;
    if (reaches) enabled.emplace(device, peer);
  }
  if (!reaches) cudaGetLastError();  // then copies go through the host, which is fine
  return reaches;
}

class CudaDevice final : public device::Device {
 public:
  CudaDevice(device::DeviceInfo info, int multiprocessors)
      : info_(std::move(info)), multiprocessors_(multiprocessors) {}

  const device::DeviceInfo& info() const override { return info_; }
  const device::DeviceKernels& kernels() const override { return Kernels(); }
  absl::StatusOr<std::shared_ptr<device::Layers>> OpenLayers(
      const device::LayersOptions& options) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    return cuda::OpenLayers(*this, options);
  }

  absl::StatusOr<size_t> FreeBytes() const override {
    size_t free = 0, total = 0;
    if (absl::Status status = Select(); !status.ok()) return status;
    const absl::Status status = Check(index(), "cudaMemGetInfo", cudaMemGetInfo(&free, &total));
    if (!status.ok()) return status;
    return free;
  }

  absl::Status Health() const override { return FreeBytes().status(); }

  absl::StatusOr<device::Memory> Allocate(size_t bytes, absl::string_view what) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    void* memory = nullptr;
    const cudaError_t error = cudaMalloc(&memory, bytes);
    if (error == cudaErrorMemoryAllocation) return NotEnough(bytes, what, "");
    if (error != cudaSuccess) return Check(index(), "cudaMalloc", error);
    return Owned(memory, [](void* at) { cudaFree(at); });
  }

  absl::StatusOr<device::Memory> AllocatePinned(size_t bytes, absl::string_view what) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    void* memory = nullptr;
    const cudaError_t error = cudaHostAlloc(&memory, bytes, cudaHostAllocDefault);
    if (error == cudaErrorMemoryAllocation) return NotEnough(bytes, what, "pinned host memory, ");
    if (error != cudaSuccess) return Check(index(), "cudaHostAlloc", error);
    return Owned(memory, [](void* at) { cudaFreeHost(at); });
  }

  absl::StatusOr<device::Memory> Pin(void* begin, size_t bytes) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    const absl::Status status =
        Check(index(), "cudaHostRegister", cudaHostRegister(begin, bytes, cudaHostRegisterDefault));
    if (!status.ok()) return status;
    return Owned(begin, [](void* at) { cudaHostUnregister(at); });
  }

  bool Reaches(const device::Device& other) const override {
    return EnablePeer(index(), static_cast<int>(other.info().index));
  }

  absl::StatusOr<device::SharedMemory> Share(const device::Memory& memory, size_t bytes) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    cudaIpcMemHandle_t handle = {};
    const absl::Status status =
        Check(index(), "cudaIpcGetMemHandle", cudaIpcGetMemHandle(&handle, memory.get()));
    if (!status.ok()) return status;
    device::SharedMemory shared;
    static_assert(sizeof shared.handle == sizeof handle);
    std::memcpy(shared.handle.data(), &handle, sizeof handle);
    shared.bytes = bytes;
    return shared;
  }

  absl::StatusOr<device::Memory> Open(const device::SharedMemory& shared) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    cudaIpcMemHandle_t handle;
    std::memcpy(&handle, shared.handle.data(), sizeof handle);
    void* memory = nullptr;
    const absl::Status status =
        Check(index(), "cudaIpcOpenMemHandle",
              cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess));
    if (!status.ok()) return status;
    return Owned(memory, [](void* at) { cudaIpcCloseMemHandle(at); });
  }

  absl::StatusOr<std::unique_ptr<device::Stream>> NewStream(bool urgent) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    int least = 0, greatest = 0;
    cudaDeviceGetStreamPriorityRange(&least, &greatest);
    cudaStream_t stream = nullptr;
    const absl::Status status = Check(
        index(), "cudaStreamCreateWithPriority",
        cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgent ? greatest : least));
    if (!status.ok()) return status;
    return std::make_unique<CudaStream>(*this, multiprocessors_, stream, /*owned=*/true);
  }

  absl::StatusOr<std::unique_ptr<device::Stream>> AdoptStream(void* native) override {
    if (absl::Status status = Select(); !status.ok()) return status;
    auto* const stream = static_cast<cudaStream_t>(native);
    int of = -1;
    const cudaError_t error = cudaStreamGetDevice(stream, &of);
    if (error == cudaErrorInvalidResourceHandle) {
      cudaGetLastError();  // it is reported here, not by the next call
      return absl::InvalidArgumentError(
          absl::StrFormat("device %d: %p is no stream", index(), native));
    }
    const absl::Status status = Check(index(), "cudaStreamGetDevice", error);
    if (!status.ok()) return status;
    if (of != index()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("device %d: the stream %p is device %d's", index(), native, of));
    }
    return std::make_unique<CudaStream>(*this, multiprocessors_, stream, /*owned=*/false);
  }

  absl::StatusOr<std::string> NewCommunicatorId() override { return cuda::NewCommunicatorId(); }

  absl::StatusOr<std::unique_ptr<device::Communicator>> NewCommunicator(
      const std::string& id, uint32_t ranks, uint32_t rank,
      const device::StillWanted& still_wanted) override {
    return cuda::NewCommunicator(index(), id, ranks, rank, still_wanted);
  }

  absl::StatusOr<std::unique_ptr<device::Event>> NewEvent() override {
    return NewEventWith(cudaEventDisableTiming | cudaEventBlockingSync);
  }
  absl::StatusOr<std::unique_ptr<device::Event>> NewTimedEvent() override {
    return NewEventWith(cudaEventBlockingSync);
  }

 private:
  absl::StatusOr<std::unique_ptr<device::Event>> NewEventWith(unsigned flags) const {
    if (absl::Status status = Select(); !status.ok()) return status;
    cudaEvent_t event = nullptr;
    const absl::Status status =
        Check(index(), "cudaEventCreateWithFlags", cudaEventCreateWithFlags(&event, flags));
    if (!status.ok()) return status;
    return std::make_unique<CudaEvent>(index(), event);
  }

  int index() const { return static_cast<int>(info_.index); }

  absl::Status Select() const { return Check(index(), "cudaSetDevice", cudaSetDevice(index())); }

  // Returns memory that `free` releases, with this device as the thread's current one.
  device::Memory Owned(void* memory, void (*free)(void*)) const {
    return device::Memory(static_cast<std::byte*>(memory), [index = index(), free](std::byte* at) {
      cudaSetDevice(index);
      free(at);
    });
  }

  absl::Status NotEnough(size_t bytes, absl::string_view what, const char* of) const {
    cudaGetLastError();
    const absl::StatusOr<size_t> free = FreeBytes();
    if (!free.ok()) return free.status();
    return absl::ResourceExhaustedError(absl::StrFormat(
        "device %d: out of memory: %s%s asked for %s, %s of %s free on the device", index(), of,
        SizeText(bytes), what, SizeText(*free), SizeText(info_.memory_bytes)));
  }

  const device::DeviceInfo info_;
  const int multiprocessors_;
};

class CudaDevices final : public device::Devices {
 public:
  CudaDevices(std::string software, std::vector<device::DeviceInfo> infos)
      : software_(std::move(software)), infos_(std::move(infos)) {}

  const std::string& software() const override { return software_; }
  const std::vector<device::DeviceInfo>& infos() const override { return infos_; }

  absl::StatusOr<std::shared_ptr<device::Device>> Use(uint32_t index) override {
    if (index >= infos_.size()) {
      return absl::NotFoundError(
          absl::StrFormat("device %d: there are %d, from 0 on", index, infos_.size()));
    }
    const int device = static_cast<int>(index);
    if (absl::Status status = Check(device, "cudaSetDevice", cudaSetDevice(device)); !status.ok()) {
      return status;
    }
    int multiprocessors = 0;
    const absl::Status status =
        Check(device, "cudaDeviceGetAttribute",
              cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
    if (!status.ok()) return status;
    return std::make_shared<CudaDevice>(infos_[index], multiprocessors);
  }

 private:
  const std::string software_;
  const std::vector<device::DeviceInfo> infos_;
};

absl::StatusOr<device::DeviceInfo> InfoOf(int device) {
  cudaDeviceProp properties = {};
  char bus[32] = {};
  absl::Status status =
      Check(device, "cudaGetDeviceProperties", cudaGetDeviceProperties(&properties, device));
  if (!status.ok()) return status;
  status = Check(device, "cudaDeviceGetPCIBusId", cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  if (!status.ok()) return status;
  return device::DeviceInfo{
      .index = static_cast<uint32_t>(device),
      .name = properties.name,
      .architecture = absl::StrCat("sm_", properties.major, properties.minor),
      .bus = bus,
      .memory_bytes = properties.totalGlobalMem,
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<device::Devices>> FindDevices() {
  int driver = 0, runtime = 0, count = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0) return absl::UnavailableError("no driver for CUDA devices is installed");
  // Minor versions of one major version are compatible.
  if (driver / 1000 < runtime / 1000) {
    return absl::UnavailableError(
        absl::StrFormat("the driver is too old: it is for CUDA %s, this program needs %d.0",
                        VersionText(driver), runtime / 1000));
  }
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    cudaGetLastError();
    return absl::UnavailableError(error == cudaSuccess ? "there is no CUDA device"
                                                       : cudaGetErrorString(error));
  }
  std::vector<device::DeviceInfo> infos;
  for (int device = 0; device < count; ++device) {
    absl::StatusOr<device::DeviceInfo> info = InfoOf(device);
    if (!info.ok()) return info.status();
    infos.push_back(*std::move(info));
  }
  return std::make_unique<CudaDevices>(
      absl::StrFormat("CUDA %s, driver for %s", VersionText(runtime), VersionText(driver)),
      std::move(infos));
}

}  // namespace strata::cuda
