#include "worker/exchange/server/check_placement.h"

#include <cstdint>

#include "absl/strings/str_format.h"
#include "common/job/arena.h"

namespace strata::worker {

absl::Status CheckPlacement(const proto::JobRecord& record) {
  const proto::Placement& placement = record.placement();
  if (record.layout().elements() == 0) return absl::InvalidArgumentError("layout is empty");
  if (placement.chunk_elements() == 0) {
    return absl::InvalidArgumentError("placement.chunk_elements is 0");
  }
  if (placement.shard_endpoints().empty()) {
    return absl::InvalidArgumentError("placement.shard_endpoints is empty");
  }
  const uint32_t chunks = ChunkMap(record.layout().elements(), placement.chunk_elements()).chunks();
  if (static_cast<uint32_t>(placement.shard_of_chunk_size()) != chunks) {
    return absl::InvalidArgumentError(
        absl::StrFormat("placement.shard_of_chunk has %d entries for %d chunks",
                        placement.shard_of_chunk_size(), chunks));
  }
  for (uint32_t shard : placement.shard_of_chunk()) {
    if (shard >= static_cast<uint32_t>(placement.shard_endpoints_size())) {
      return absl::InvalidArgumentError(
          absl::StrFormat("placement.shard_of_chunk names shard %d of %d", shard,
                          placement.shard_endpoints_size()));
    }
  }
  return absl::OkStatus();
}

}  // namespace strata::worker
