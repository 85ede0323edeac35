#ifndef STRATA_COMMON_TRANSPORT_REGION_REGION_EXPORTS_H_
#define STRATA_COMMON_TRANSPORT_REGION_REGION_EXPORTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/transport/region/region_memory.h"
#include "common/transport/region/shared_segment.h"
#include "common/unique_fd.h"
#include "common/wire/region_reference.h"

namespace strata::transport {

// What one peer of this host has been given references to: the bytes are kept until it has said
// that it needs them no more. It says so on a board, a segment of one u64 per slot, by writing the
// reference's ticket there.
//
// Threads: one.
class RegionExports {
 public:
  static constexpr size_t kSlots = 4096;
  static constexpr size_t kBoardBytes = kSlots * sizeof(uint64_t);

  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RegionExports>> Create(
      std::shared_ptr<const RegionMemory> memory);
  // Use Create.
  RegionExports(std::shared_ptr<const RegionMemory> memory, std::shared_ptr<SharedSegment> board);

  // Makes the board for the peer, once. Errors: ResourceExhausted.
  absl::StatusOr<UniqueFd> HandOverBoard();

  // Keeps the bytes for the peer. Nullopt: they do not lie in the memory, or all slots are in use.
  std::optional<wire::RegionReference> Add(const Bytes& bytes);
  // Lets go of what the peer needs no more.
  void Sweep();
  // What it still needs.
  size_t kept() const { return used_.size(); }

 private:
  struct Used {
    uint32_t slot = 0;
    uint64_t ticket = 0;
    Bytes bytes;
  };
  // Only ever written by the peer.
  uint64_t TicketOn(uint32_t slot) const;

  const std::shared_ptr<const RegionMemory> memory_;
  const std::shared_ptr<SharedSegment> board_;
  uint64_t tickets_ = 0;
  std::vector<uint32_t> free_slots_;
  std::vector<Used> used_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_REGION_EXPORTS_H_
