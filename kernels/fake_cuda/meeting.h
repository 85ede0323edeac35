#ifndef STRATA_KERNELS_FAKE_CUDA_MEETING_H_
#define STRATA_KERNELS_FAKE_CUDA_MEETING_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/types/span.h"
#include "common/unique_fd.h"

namespace fake_cuda {

// The place where the ranks of a communicator meet: memory of their own that their processes share,
// a file without a name, found through the process that made it and gone with the last that has it.
//
// Threads: any, of one rank one at a time.
class Meeting {
 public:
  static constexpr uint32_t kRanksMax = 16;
  static constexpr size_t kPieceBytes = 64 << 10;

  // What others find it by while its maker lives.
  struct Name {
    uint64_t magic;
    int32_t pid, fd;
  };
  // Makes one, which stays as long as this process. Null: out of descriptors.
  static std::optional<Name> Make();
  // Null: its maker is gone, or that is no name.
  static std::unique_ptr<Meeting> Open(const Name& name);
  ~Meeting();
  Meeting(const Meeting&) = delete;

  // Comes as `rank`, on the device of that number. False: somebody has come as that rank.
  bool Come(uint32_t rank, uint32_t ranks, int device);
  // Whether all have come.
  bool all_here(uint32_t ranks) const;
  // Once they have: whether they agree on how many they are; and two that have one device.
  bool agree(uint32_t ranks) const;
  std::optional<std::pair<uint32_t, uint32_t>> same_device(uint32_t ranks) const;

  // Each rank's room for what the others are to read.
  std::byte* piece(uint32_t rank) const;
  // Waits until all ranks have called it as often; false: `ended` came first.
  bool Pass(uint32_t rank, uint32_t ranks, const std::atomic<bool>& ended);
  // Says, without waiting, that this rank is done; whether all are.
  void Leave(uint32_t rank);
  bool all_left(uint32_t ranks) const;

 private:
  struct Rank {
    std::atomic<uint32_t> ranks;  // how many it says there are; 0: has not come
    std::atomic<int32_t> device;
    std::atomic<uint64_t> passed;
    std::atomic<uint32_t> left;
  };
  struct Shared {
    Rank ranks[kRanksMax];
  };
  static constexpr size_t kBytes = 4096 + kRanksMax * kPieceBytes;
  static_assert(sizeof(Shared) <= 4096 && std::atomic<uint64_t>::is_always_lock_free);

  explicit Meeting(std::byte* memory) : memory_(memory) {}
  Shared& shared() const { return *reinterpret_cast<Shared*>(memory_); }

  std::byte* const memory_;
};

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_MEETING_H_
