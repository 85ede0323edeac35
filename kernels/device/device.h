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

// Facts about a device that are known before it is used.
struct DeviceInfo {
  uint32_t index = 0;
  std::string name;          // of the model
  std::string architecture;  // as in "sm_90"
  std::string bus;           // where it is plugged in; the same in all processes of the host
  size_t memory_bytes = 0;
};

// Memory that is given back when the last owner lets go of it. Of a device: an address that only
// its streams may use, at a multiple of 256 bytes; the host's access to it is an error.
using Memory = std::shared_ptr<std::byte>;

// Device memory under a name that other processes of this host and user can open while its owner
// lives. Trivially copyable.
struct SharedMemory {
  std::array<char, 64> handle = {};
  uint64_t bytes = 0;
};

// The size to allocate for `bytes` that will be shared: less than a block of 2 MiB may lie in one
// with other memory, to which whoever opens it would have access, too (CUDA C++ Programming Guide,
// "Interprocess Communication").
inline size_t SharedAllocationBytes(size_t bytes) {
  constexpr size_t kBlock = size_t{2} << 20;
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

// Bytes as they travel between processes of one build.
inline std::string Serialize(const SharedMemory& shared) {
  return std::string(reinterpret_cast<const char*>(&shared), sizeof(shared));
}
// Null: these are not such bytes.
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
  // True if everything queued before its last Record is done, or if it was never recorded.
  virtual absl::StatusOr<bool> Done() const = 0;
  // Blocks until it is.
  virtual absl::Status Await() const = 0;
  // Returns the time from `earlier` to this, by the device's clock, which has steps of about half a
  // microsecond; the value is a float of milliseconds, so it has 1 us up to 16 s. Below 0: it was
  // the other way round. Both are of one device, from NewTimedEvent, recorded and done. Errors:
  // Internal (they are not).
  virtual absl::StatusOr<double> SecondsSince(const Event& earlier) const = 0;
};

// Work that a device does in order. Calls return before the work is done, and its memory, on the
// host as on the device, must stay until it is: Record and Event tell, or Synchronize. Threads: one
// at a time. Errors: Internal with the device and the cause, for what the call finds at once; what
// goes wrong later comes out of a later call, of any stream or event of the device, and stays
// (Device::Health).
class Stream {
 public:
  virtual ~Stream() = default;

  // Copies between any two of pinned host memory and memory of devices. Host memory that is not
  // pinned works, too, but the call may wait for it.
  virtual absl::Status Copy(void* to, const void* from, size_t bytes) = 0;
  virtual absl::Status Fill(void* to, uint8_t value, size_t bytes) = 0;

  virtual absl::Status Record(Event* event) = 0;
  // Work queued after this waits for the event's last Record, in a stream of any device.
  virtual absl::Status Wait(const Event& event) = 0;
  // Calls `then` on a thread of the device's once all before is done; not if that failed. It must
  // be short and may not call the device.
  virtual absl::Status Call(std::function<void()> then) = 0;
  // Blocks until all is done.
  virtual absl::Status Synchronize() = 0;
  // The stream's handle in the device's own library; for CUDA a cudaStream_t.
  virtual void* native() const = 0;
};

// One accelerator as a process uses it. Threads: any. Errors of all calls: ResourceExhausted (says
// what was asked for, and what is free), Internal (the device and the cause; see Health).
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;
  virtual absl::StatusOr<size_t> FreeBytes() const = 0;
  // Internal if the device has failed in this process: nothing of it works from then on.
  virtual absl::Status Health() const = 0;

  // `what` it is for, to be named where there is not enough.
  virtual absl::StatusOr<Memory> Allocate(size_t bytes, absl::string_view what) = 0;
  // Host memory that copies to and from devices reach without a detour.
  virtual absl::StatusOr<Memory> AllocatePinned(size_t bytes, absl::string_view what) = 0;
  // Makes host memory that is there such memory, until the answer's last owner lets go.
  virtual absl::StatusOr<Memory> Pin(void* begin, size_t bytes) = 0;

  // True if kernels of this device may use memory of `other`, of the same plugin; copies always
  // work.
  virtual bool Reaches(const Device& other) const = 0;

  // `memory` from Allocate, `bytes` as there.
  virtual absl::StatusOr<SharedMemory> Share(const Memory& memory, size_t bytes) = 0;
  // Opens memory that another process shares, of the device on the same bus.
  virtual absl::StatusOr<Memory> Open(const SharedMemory& shared) = 0;

  // Urgent streams go before others where both have work.
  virtual absl::StatusOr<std::unique_ptr<Stream>> NewStream(bool urgent) = 0;
  // Returns a stream of somebody else's, in this process, by its Stream::native: who made it uses
  // it on, and ends it after the answer. Errors, besides: InvalidArgument (there is no such stream,
  // or it is another device's).
  virtual absl::StatusOr<std::unique_ptr<Stream>> AdoptStream(void* native) = 0;
  virtual absl::StatusOr<std::unique_ptr<Event>> NewEvent() = 0;
  // One that SecondsSince may be asked of, which costs the device more. See device_clock.h.
  virtual absl::StatusOr<std::unique_ptr<Event>> NewTimedEvent() = 0;

  virtual const DeviceKernels& kernels() const = 0;
  // Opens the layers of networks (layers.h); the device outlives them. Errors, besides:
  // Unimplemented (the plugin was built without), NotFound and FailedPrecondition (a library is
  // missing or of another version; says which, and where it was looked for).
  virtual absl::StatusOr<std::shared_ptr<Layers>> OpenLayers(const LayersOptions& options) = 0;

  // Serves ranks that are to add up what is on their devices: one of them makes the id, from which
  // on its process must stay until all have come. Errors, also of NewCommunicator: NotFound (the
  // library for it), Unimplemented (the plugin was built without).
  virtual absl::StatusOr<std::string> NewCommunicatorId() = 0;
  // Blocks until all `ranks` have come, each on a device of its own.
  virtual absl::StatusOr<std::unique_ptr<Communicator>> NewCommunicator(
      const std::string& id, uint32_t ranks, uint32_t rank, const StillWanted& still_wanted) = 0;
};

// The devices of this host that one plugin knows.
class Devices {
 public:
  virtual ~Devices() = default;

  // A text such as "CUDA 13.0, driver 13.0".
  virtual const std::string& software() const = 0;
  virtual const std::vector<DeviceInfo>& infos() const = 0;
  // Begins to use one in this process, which takes some of its memory. The answer outlives all that
  // was made with it. Errors: NotFound (no such index), Internal.
  virtual absl::StatusOr<std::shared_ptr<Device>> Use(uint32_t index) = 0;
};

class Devices;

// Changes whenever an interface of this folder does: program and plugin come from one build.
inline constexpr char kPluginVersion[] = "2";
inline constexpr char kPluginEntry[] = "StrataDevices";

// `options`: NAME=VALUE with commas between them, which each plugin documents; may be empty. The
// caller owns what it returns. Null: `error` says why there is no device.
using PluginEntry = Devices* (*)(const char* version, const char* options, char* error,
                                 size_t error_size);

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_DEVICE_H_
