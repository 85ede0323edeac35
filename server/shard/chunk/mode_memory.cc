#include "server/shard/chunk/mode_memory.h"

#include <algorithm>

#include "absl/strings/str_format.h"

namespace strata::server {

void AddGivenWeights(const ShardSize& size, MemoryFormula* need) {
  need->Add(absl::StrFormat("nodes' versions %d x %s", size.nodes, BytesText(size.own_bytes)),
            SaturatingProduct(size.nodes, size.own_bytes));
}

void AddWaitingPushes(const ShardSize& size, uint64_t leaves, uint64_t saved, MemoryFormula* need) {
  const uint64_t waiting =
      SaturatingProduct(SaturatingProduct(size.nodes, size.window) - saved, size.chunk_bytes);
  const uint64_t one_clock = SaturatingProduct(leaves, size.own_bytes);
  need->Add(waiting < one_clock
                ? absl::StrFormat("held sums (%d x %d - %d) x %s", size.nodes, size.window, saved,
                                  BytesText(size.chunk_bytes))
                : absl::StrFormat("held sums %d x %s", leaves, BytesText(size.own_bytes)),
            std::min(waiting, one_clock));
}

}  // namespace strata::server
