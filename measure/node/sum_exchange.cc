#include "measure/node/sum_exchange.h"

#include <poll.h>

namespace strata::bench {
namespace {

// So many are shown together: often enough for ranks to go on, seldom enough to meet for.
constexpr size_t kChunksAtOnce = 16;

}  // namespace

uint64_t& SumExchange::ClockOf(ChunkId chunk) {
  if (chunk.value() >= clocks_.size()) clocks_.resize(chunk.value() + 1, 0);
  return clocks_[chunk.value()];
}

absl::Status SumExchange::Poll(absl::Duration timeout) {
  for (size_t i = 0; i < submitted_.size();) {
    const uint64_t clock = ClockOf(submitted_[i]);
    size_t end = i + 1;
    while (end < submitted_.size() && end - i < kChunksAtOnce &&
           submitted_[end].value() == submitted_[end - 1].value() + 1 &&
           ClockOf(submitted_[end]) == clock) {
      ++end;
    }
    arenas_->SumIntoWeights(submitted_[i], static_cast<uint32_t>(end - i), clock);
    for (; i < end; ++i, ++counters_.pushes) ++ClockOf(submitted_[i]);
  }
  if (!submitted_.empty()) timeout = absl::ZeroDuration();
  submitted_.clear();
  if (phase_ == Phase::kFinishing) phase_ = Phase::kFinished;
  pollfd wake = {wake_fd_, POLLIN, 0};
  poll(&wake, 1, static_cast<int>(absl::ToInt64Milliseconds(timeout)));
  return absl::OkStatus();
}

}  // namespace strata::bench
