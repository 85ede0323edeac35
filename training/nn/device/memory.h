#ifndef STRATA_TRAINING_NN_DEVICE_MEMORY_H_
#define STRATA_TRAINING_NN_DEVICE_MEMORY_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/require.h"
#include "kernels/device/device.h"

namespace strata::worker::on_device {

// Device memory of one network: all that its layers ask for while they are built.
class NetworkMemory {
 public:
  explicit NetworkMemory(device::Device& device) : device_(device) {}

  absl::StatusOr<std::byte*> Allocate(size_t bytes) {
    auto memory = device_.Allocate(bytes == 0 ? 1 : bytes, "a network");
    if (!memory.ok()) return memory.status();
    owned_.push_back(*std::move(memory));
    return owned_.back().get();
  }

  // Memory that is used for a while in each step, always at the same place in its order: what is
  // given back is taken again by those that are built, and run, later.
  absl::StatusOr<std::byte*> Take(size_t bytes) {
    const auto found = free_.lower_bound(bytes);
    if (found != free_.end() && found->first / 4 <= bytes) {
      std::byte* const at = found->second;
      free_.erase(found);
      return at;
    }
    auto at = Allocate(bytes);
    if (at.ok()) sizes_[*at] = bytes;
    return at;
  }
  // Makes memory free for later calls of Take. REQUIRES: `at` came from Take.
  void GiveBack(std::byte* at) {
    const auto size = sizes_.find(at);
    STRATA_REQUIRE(size != sizes_.end());
    free_.emplace(size->second, at);
  }

 private:
  device::Device& device_;
  std::vector<device::Memory> owned_;
  std::map<std::byte*, size_t> sizes_;
  std::multimap<size_t, std::byte*> free_;
};

}  // namespace strata::worker::on_device

#endif  // STRATA_TRAINING_NN_DEVICE_MEMORY_H_
