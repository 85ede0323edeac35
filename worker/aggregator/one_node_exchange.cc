#include "worker/aggregator/one_node_exchange.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "worker/exchange/await_wake.h"

namespace strata::worker {

bool IsMeanOfOneNode(const proto::JobRecord& record) {
  const proto::Job& job = record.job();
  const proto::Lazy& lazy = job.consistency().lazy();
  return job.exchange() == proto::Job::RING && record.view().nodes_size() == 1 &&
         job.optimizer().has_mean() && job.device() == proto::Job::CPU && lazy.local_steps() == 0 &&
         !lazy.double_buffering() && job.trace().steps() == 0;
}

absl::Status OneNodeExchange::Start() {
  phase_ = Phase::kTraining;
  begins_ = true;
  return absl::OkStatus();
}

absl::Status OneNodeExchange::Submit(ChunkId chunk) {
  if (phase_ != Phase::kTraining) {
    return absl::FailedPreconditionError(
        absl::StrFormat("chunk %d was published after its rank had left", chunk.value()));
  }
  return arenas_->MeanIntoWeights(chunk, clocks_[chunk.value()]++);
}

absl::Status OneNodeExchange::Finish(uint64_t) {
  phase_ = Phase::kFinished;
  return absl::OkStatus();
}

absl::Status OneNodeExchange::Poll(absl::Duration timeout) {
  if (!std::exchange(begins_, false)) AwaitWake(wake_fd_, timeout);
  return absl::OkStatus();
}

}  // namespace strata::worker
