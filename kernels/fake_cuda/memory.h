#ifndef STRATA_KERNELS_FAKE_CUDA_MEMORY_H_
#define STRATA_KERNELS_FAKE_CUDA_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/unique_fd.h"

namespace fake_cuda {

// Device memory: anonymous files. Device addresses are in an inaccessible range, so that the host's
// access faults; the devices use the same offsets in a second range. After each allocation comes a
// page that is mapped in neither.
//
// Threads: any.
class DeviceMemory {
 public:
  // The process's instance, which is never destroyed: owners of device memory may outlive
  // everything else.
  static DeviceMemory& Get();
  DeviceMemory();

  // Null: not enough memory, or no such device.
  std::byte* Allocate(int device, size_t bytes);
  bool Free(std::byte* address);
  // Returns the name by which another process opens an allocation, from its first address; empty:
  // there is none.
  struct Name {
    uint64_t magic;
    int32_t pid, fd, device;
    uint64_t bytes;
  };
  std::optional<Name> FindName(const std::byte* address) const;
  // Null: its owner is gone, or it is this process's own.
  std::byte* Open(const Name& name);
  bool Close(std::byte* address);

  // Returns whether an address is in the devices' range, allocated or not.
  bool IsDevices(uint64_t address) const { return address - base_ < kRange; }
  // Returns this process's address for `bytes` from a device address on; null: not all of them are
  // allocated.
  std::byte* Real(const std::byte* address, size_t bytes) const;

  // Gives the device's kernels access to the peer's memory, permanently; returns false if they had
  // it.
  bool EnablePeer(int device, int peer);
  // Returns whether the device's kernels may use the memory there. REQUIRES: Real finds it.
  bool MayUse(int device, const std::byte* address) const;

  size_t used(int device) const;
  size_t allocated() const;
  size_t opened() const;

 private:
  static constexpr size_t kRange = size_t{1} << 40;

  struct Block {
    strata::UniqueFd fd;
    size_t bytes = 0;
    int device = 0;
    bool opened = false;
  };

  std::byte* Map(strata::UniqueFd fd, size_t bytes, int device, bool opened)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Remove(std::byte* address, bool opened);
  // Returns the block that contains the address, or ends at it; null: there is none.
  const std::pair<const uint64_t, Block>* Find(uint64_t offset) const
      ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  size_t Sum(std::optional<int> device, bool opened) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  uint64_t base_ = 0;  // of device addresses
  uint64_t real_ = 0;  // of the same places, for streams
  mutable absl::Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // never reused, so that use after free is noticed
  std::map<uint64_t, Block> blocks_ ABSL_GUARDED_BY(mutex_);     // by offset
  std::set<std::pair<int, int>> peers_ ABSL_GUARDED_BY(mutex_);  // device, and whose it may use
};

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_MEMORY_H_
