#include "worker/aggregator/host/node_counters.h"

namespace strata::worker {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

bool Shows(const NodeHeader& header, const ExchangeCounters& counters) {
  return header.pushes.load(kRelaxed) == counters.pushes &&
         header.bytes_answered.load(kRelaxed) == counters.bytes_answered;
}

void ShowCounters(const ExchangeCounters& counters, uint64_t pushes_during_backward,
                  absl::Duration exchange, NodeHeader* header) {
  header->exchange_us.store(absl::ToInt64Microseconds(exchange), kRelaxed);
  header->bytes_pushed.store(counters.bytes_pushed, kRelaxed);
  header->bytes_answered.store(counters.bytes_answered, kRelaxed);
  header->pushes.store(counters.pushes, kRelaxed);
  header->pushes_during_backward.store(pushes_during_backward, kRelaxed);
  static_assert(kStalenessBins == kNodeStalenessBins);
  for (size_t i = 0; i < kStalenessBins; ++i) {
    header->staleness[i].store(counters.staleness[i], kRelaxed);
  }
}

}  // namespace strata::worker
