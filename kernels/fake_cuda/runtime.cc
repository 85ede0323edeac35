#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/memory.h"
#include "kernels/fake_cuda/streams.h"

using fake_cuda::CurrentDevice;
using fake_cuda::CurrentSettings;
using fake_cuda::DeviceMemory;
using fake_cuda::Return;
using fake_cuda::ReturnUsing;

namespace {

bool Exists(int device) { return device >= 0 && device < CurrentSettings().devices; }

cudaError_t Usable() {
  if (CurrentSettings().driver < CUDART_VERSION) return cudaErrorInsufficientDriver;
  return CurrentSettings().devices == 0 ? cudaErrorNoDevice : cudaSuccess;
}

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed",
     "mapping of buffer object failed"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};

const ErrorText& TextOf(cudaError_t error) {
  static constexpr ErrorText kUnknown = {cudaSuccess, "unrecognized error code",
                                         "unrecognized error code"};
  const auto* found = std::find_if(std::begin(kErrors), std::end(kErrors),
                                   [=](const ErrorText& text) { return text.error == error; });
  return found == std::end(kErrors) ? kUnknown : *found;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) { return TextOf(error).name; }
const char* cudaGetErrorString(cudaError_t error) { return TextOf(error).text; }

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CurrentSettings().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = CurrentSettings().devices;
  return Return(Usable());
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!Exists(device)) return Return(cudaErrorInvalidDevice);
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "fake device");
  properties->totalGlobalMem = CurrentSettings().memory_bytes;
  properties->major = 9;
  return Return(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int device) {
  *value = 2;
  return Return(Exists(device) ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetPCIBusId(char* bus, int size, int device) {
  if (!Exists(device)) return Return(cudaErrorInvalidDevice);
  std::snprintf(bus, size, "fake:%02x", device);
  return Return(cudaSuccess);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -1;
  return Return(cudaSuccess);
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  *can = device != peer && CurrentSettings().peers;
  return Return(Exists(device) && Exists(peer) ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!Exists(peer) || peer == CurrentDevice()) return Return(cudaErrorInvalidDevice);
  if (!CurrentSettings().peers) return Return(cudaErrorPeerAccessUnsupported);
  const bool is_new = DeviceMemory::Get().EnablePeer(CurrentDevice(), peer);
  return Return(is_new ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaSetDevice(int device) {
  if (Usable() != cudaSuccess) return Return(Usable());
  if (!Exists(device)) return Return(cudaErrorInvalidDevice);
  CurrentDevice() = device;
  return ReturnUsing(cudaSuccess);
}
cudaError_t cudaGetDevice(int* device) {
  *device = CurrentDevice();
  return Return(cudaSuccess);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = CurrentSettings().memory_bytes;
  *free = *total - std::min(*total, CurrentSettings().taken_bytes +
                                        DeviceMemory::Get().used(CurrentDevice()));
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  *memory = DeviceMemory::Get().Allocate(CurrentDevice(), bytes);
  return ReturnUsing(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFree(void* memory) {
  if (memory == nullptr) return ReturnUsing(cudaSuccess);
  const bool freed = DeviceMemory::Get().Free(static_cast<std::byte*>(memory));
  return ReturnUsing(freed ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned) {
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return ReturnUsing(*memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess);
}
cudaError_t cudaFreeHost(void* memory) {
  std::free(memory);
  return ReturnUsing(cudaSuccess);
}
cudaError_t cudaHostRegister(void* memory, size_t, unsigned) {
  return ReturnUsing(memory == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}
cudaError_t cudaHostUnregister(void* memory) {
  return ReturnUsing(memory == nullptr ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  const auto name = DeviceMemory::Get().FindName(static_cast<std::byte*>(memory));
  if (!name) return ReturnUsing(cudaErrorInvalidValue);
  static_assert(sizeof *name <= sizeof *handle);
  *handle = {};
  std::memcpy(handle, &*name, sizeof *name);
  return ReturnUsing(cudaSuccess);
}

cudaError_t cudaIpcOpenMemHandle(void** memory, cudaIpcMemHandle_t handle, unsigned) {
  DeviceMemory::Name name;
  std::memcpy(&name, &handle, sizeof name);
  *memory = DeviceMemory::Get().Open(name);
  return ReturnUsing(*memory == nullptr ? cudaErrorMapBufferObjectFailed : cudaSuccess);
}

cudaError_t cudaIpcCloseMemHandle(void* memory) {
  const bool closed = DeviceMemory::Get().Close(static_cast<std::byte*>(memory));
  return ReturnUsing(closed ? cudaSuccess : cudaErrorInvalidValue);
}
