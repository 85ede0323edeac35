#ifndef STRATA_KERNELS_DEVICE_HOST_KERNELS_H_
#define STRATA_KERNELS_DEVICE_HOST_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/device/device_kernels.h"
#include "kernels/kernels.h"

namespace strata::device {

// For tests: wraps a device's kernels as if they were the host's, so that they run the conformance
// suite of all devices (kernels/testing/conformance.h). Each call copies its buffers to the device,
// at the same offsets within 16 bytes (payloads at multiples of 16), between sentinels; a write
// outside of them fails the test. `device` outlives all calls; one at a time per process.
const kernels::Kernels& AsHostKernels(std::shared_ptr<Device> device);

// For tests: images of host buffers on a device, for one call, with sentinels between and around
// them.
class Mirror {
 public:
  // Shared by calls: memory on the device, and its image on the host, filled with sentinels between
  // calls.
  struct Room {
    std::unique_ptr<Stream> stream;
    Memory memory;
    std::vector<std::byte> image;
  };
  static absl::StatusOr<Room> NewRoom(Device* device, size_t bytes);

  explicit Mirror(Room* room) : room_(*room) {}

  // Returns the device address for `host`: its content is copied to the device, and with kOut back
  // again. The same host address gives the same result; null gives null.
  enum Way { kIn, kOut };
  template <typename T>
  T* At(T* host, size_t count, Way way) {
    auto* at = const_cast<void*>(static_cast<const void*>(host));
    return reinterpret_cast<T*>(
        Place(at, count * sizeof(T), way, reinterpret_cast<uintptr_t>(host) % 16));
  }
  // Does so at a multiple of 16.
  std::byte* Payload(const std::byte* host, size_t bytes, Way way) {
    return Place(const_cast<std::byte*>(host), bytes, way, 0);
  }

  // Runs the call, whose verdict begins as kGood, and copies everything back; returns its verdict.
  // Failures are gtest's.
  Verdict Run(const std::function<absl::Status(Stream&, Verdict*)>& call);

 private:
  static constexpr std::byte kSentinel{0x5c};
  static constexpr size_t kMargin = 256;

  struct Image {
    std::byte* host;
    size_t offset, bytes;
    Way way;
  };

  std::byte* Place(void* host, size_t bytes, Way way, size_t shift);
  void TakeBack();

  Room& room_;
  std::vector<Image> images_;
  size_t used_ = kMargin;
};

}  // namespace strata::device

#endif  // STRATA_KERNELS_DEVICE_HOST_KERNELS_H_
