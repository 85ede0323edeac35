#ifndef STRATA_WORKER_CLIENT_NCCL_RANK_SUMS_H_
#define STRATA_WORKER_CLIENT_NCCL_RANK_SUMS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/communicator.h"
#include "kernels/device/device.h"

namespace strata::nccl {

// Numbers that all ranks add up on their devices, each of them at the same place among its sums of
// gradients, and then read on the host.
//
// Threads: one. Errors: those of device::Device and device::Communicator.
class RankSums {
 public:
  // What a rank brings: a number, and what all are to say alike beside it.
  struct Own {
    uint64_t value = 0;
    uint64_t step = 0;  // that the rank begins, from 1; 0: it makes none any more
    float rate = 0;     // of that step, where the program says rates
    uint64_t made = 0;  // steps, for words
  };

  // `stream`, of the device, outlives this. `slots`: for StartEach, of as many ranks at most.
  static absl::StatusOr<std::unique_ptr<RankSums>> Create(device::Device* device,
                                                          device::Stream* stream, uint32_t slots);

  // Queues the sum, and what is compared.
  absl::Status Start(device::Communicator* communicator, uint32_t ranks, const Own& own,
                     const device::StillWanted& wanted);
  // What was started last is there.
  const device::Event& done() const { return *done_; }
  // The sum of the values alone, once done. Errors: InvalidArgument: ranks differ in the rest.
  absl::StatusOr<uint64_t> Sum() const;

  // Queues that all ranks have each one's number, those of the others as those of this one, which
  // is number `rank` of them. REQUIRES: ranks <= slots.
  absl::Status StartEach(device::Communicator* communicator, uint32_t ranks, uint32_t rank,
                         uint64_t value, const device::StillWanted& wanted);
  // They, by rank, once done.
  std::vector<uint64_t> Each() const;

  // What it has asked for on the device.
  uint64_t device_bytes() const { return device_bytes_; }

 private:
  // Numbers on the device and in pinned memory of the host, where copies end up.
  struct Words {
    device::Memory on_device, on_host;
  };
  struct Agreed {
    uint64_t value, step, rate;  // the bits of the rate
  };

  explicit RankSums(device::Stream* stream) : stream_(stream) {}
  absl::Status Allocate(device::Device* device, size_t bytes, const char* what, Words* words);
  // Queues that the words become their sums over all ranks.
  absl::Status Queue(const Words& words, const void* own, size_t count,
                     device::Communicator* communicator, const device::StillWanted& wanted);

  device::Stream* const stream_;
  uint64_t device_bytes_ = 0;
  Words agreed_, each_;
  std::unique_ptr<device::Event> done_;
  uint32_t ranks_ = 1;
  Own own_;  // of the sum under way
};

}  // namespace strata::nccl

#endif  // STRATA_WORKER_CLIENT_NCCL_RANK_SUMS_H_
