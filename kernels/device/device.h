#ifndef STRATA_KERNELS_DEVICE_DEVICE_H_
#define STRATA_KERNELS_DEVICE_DEVICE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/device/communicator.h"

namespace strata::device {

struct DeviceKernels;
class Layers;
struct LayersOptions;

// Facts about a device that are known before it is opened.
struct DeviceInfo {
  uint32_t index = 0;
  std::string name;          // of the model
  std::string architecture;  // as in "sm_90"
  std::string bus;           // its bus address; the same in all processes on the host
  size_t memory_bytes = 0;
};

// Memory that is freed with its last owner. On a device: an address that only its streams may use,
// at a multiple of 256 bytes; access by the host is an error.
using Memory = std::shared_ptr<std::byte>;

// Device memory under a name that other processes of this host and user can open while its owner
// lives. Trivially copyable.
struct SharedMemory {
  std::array<char, 64> handle = {};
  uint64_t bytes = 0;
};

// Returns the size to allocate for `bytes` that will be shared: less than a block of 2 MiB may
// share its block with other memory, which other processes could then access, too (CUDA C++
// Programming Guide, "Interprocess Communication").
inline size_t SharedAllocationBytes(size_t bytes) {
  constexpr size_t kBlock = size_t{2} << 20;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

// Encodes it for another process of the same build.
inline std::string Serialize(const SharedMemory& shared) {
  return std::string(reinterpret_cast<const char*>(&shared), sizeof(shared));
}
// nullopt: malformed bytes.
inline std::optional<SharedMemory> ParseSharedMemory(absl::string_view bytes) {
  SharedMemory shared;
  if (bytes.size() != sizeof(shared)) return std::nullopt;
  std::memcpy(&shared, bytes.data(), sizeof(shared));
  return shared;
}

// A point in a stream. Reusable; destroying it does not wait. Threads: any.
class Event {
 public:
  virtual ~Event() = default;
  // Returns whether everything queued before its last Record is done, or it was never recorded.
  virtual absl::StatusOr<bool> Done() const = 0;
  // Blocks until it is done.
  virtual absl::Status Await() const = 0;
  // Returns the time from `earlier` to this, by the device's clock, whose resolution is about half
  // a microsecond; the value is a float of milliseconds, so it is exact to 1 us up to 16 s.
  // Negative if they are in reverse order. Both are of one device, from NewTimedEvent, recorded and
  // done. Errors: Internal (they are not).
  virtual absl::StatusOr<double> SecondsSince(const Event& earlier) const = 0;
};

// A queue of work that a device does in order. Calls return before the work is done, and its
// memory, on host and device, must stay until it is: use Record and Event, or Synchronize. Threads:
// one at a time. Errors: Internal with the device and the cause, for errors that the call itself
// finds; later errors are returned by a later call, of any stream or event of the device, and
// persist (Device::Health).
class Stream {
 public:
  virtual ~Stream() = default;

  // Copies between any two of pinned host memory and device memory. Unpinned host memory works,
  // too, but the call may wait for it.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status Fill(void* to, uint8_t value, size_t bytes) = 0;

  virtual absl::Status Record(Event* event) = 0;
  // Later work waits for the event's last Record, in a stream of any device.
  virtual absl::Status Wait(const Event& event) = 0;
  // Calls `then` on a thread of the device's once all earlier work is done; not if that failed. It
  // must be short and must not call the device.
  virtual absl::Status Call(std::function<void()> then) = 0;
  // Blocks until all is done.
  virtual absl::Status Synchronize() = 0;
  // The stream's handle in the device's own library; for CUDA a cudaStream_t.
  virtual void* native() const = 0;
};

// One accelerator as a process uses it. Threads: any. Errors of all calls: ResourceExhausted (gives
// the requested and the free amount), Internal (the device and the cause; see Health).
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual absl::StatusOr<size_t> FreeBytes() const = 0;
  // Internal if the device has failed in this process: nothing on it works from then on.
  virtual absl::Status Health() const = 0;

  // `what` names the purpose in errors.
  virtual absl::StatusOr<Memory> Allocate(size_t bytes, absl::string_view what) = 0;
  // Allocates host memory that devices can copy to and from directly.
  virtual absl::StatusOr<Memory> AllocatePinned(size_t bytes, absl::string_view what) = 0;
  // Makes existing host memory such memory, until the result's last owner releases it.
  virtual absl::StatusOr<Memory> Pin(void* begin, size_t bytes) = 0;

  // Returns whether kernels of this device may use memory of `other`, of the same plugin; copies
  // always work.
  virtual bool Reaches(const Device& other) const = 0;

  // `memory` from Allocate, `bytes` as there.
  virtual absl::StatusOr<SharedMemory> Share(const Memory& memory, size_t bytes) = 0;
  // Opens memory shared by another process, of the device at the same bus address.
  virtual absl::StatusOr<Memory> Open(const SharedMemory& shared) = 0;

  // Work of urgent streams goes first.
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool urgent) = 0;
  // Returns an existing stream in this process, by its Stream::native: its creator continues to use
  // it, and destroys it after the result. Further errors: InvalidArgument (there is no such stream,
  // or it is another device's).
  virtual absl::StatusOr<std::unique_ptr<Stream>> AdoptStream(void* native) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> NewEvent() = 0;
  // Creates an event for SecondsSince, which costs the device more. See device_clock.h.
  virtual absl::StatusOr<std::unique_ptr<Event>> NewTimedEvent() = 0;

  virtual const DeviceKernels& kernels() const = 0;
  // Opens the layers of networks (layers.h); the device outlives them. Further errors:
  // Unimplemented (the plugin was built without), NotFound and FailedPrecondition (a library is
  // missing or of another version; says which, and where it was searched).
  virtual absl::StatusOr<std::shared_ptr<Layers>> OpenLayers(const LayersOptions& options) = 0;

  // For ranks that are to sum data on their devices: one of them makes the id, and its process must
  // stay until all have joined. Errors, also of NewCommunicator: NotFound (the library for it),
  // Unimplemented (the plugin was built without).
  virtual absl::StatusOr<std::string> NewCommunicatorId() = 0;
  // Blocks until all `ranks` have joined, each on a device of its own.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> NewCommunicator(
      const std::string& id, uint32_t ranks, uint32_t rank, const StillWanted& still_wanted) = 0;
};

// The devices of this host that one plugin supports.
class Devices {
 public:
  virtual ~Devices() = default;

  // A text such as "CUDA 13.0, driver 13.0".
  virtual const std::string& software() const = 0;
  virtual const std::vector<DeviceInfo>& infos() const = 0;
  // Opens one in this process, which takes some of its memory. The result outlives everything made
  // with it. Errors: NotFound (no such index), Internal.
  virtual absl::StatusOr<std::shared_ptr<Device>> Use(uint32_t index) = 0;
};

class Devices;

// Changed whenever an interface of this folder changes: program and plugin must come from one
// build.
inline constexpr char kPluginVersion[] = "2";
inline constexpr char kPluginEntry[] = "StrataDevices";

// `options`: comma-separated NAME=VALUE, documented by each plugin; may be empty. The caller owns
// the result. Null: `error` says why there is no device.
using PluginEntry = Devices* (*)(const char* version, const char* options, char* error,
                                 size_t error_size);

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_DEVICE_H_
