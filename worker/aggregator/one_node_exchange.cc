#include "worker/aggregator/one_node_exchange.h"

#include "absl/strings/str_format.h"

namespace strata::worker {

bool IsMeanOfOneNode(const proto::JobRecord& record) {
  const proto::Job& job = record.job();
  const proto::Lazy& lazy = job.consistency().lazy();
  return job.exchange() == proto::Job::RING && record.view().nodes_size() == 1 &&
         job.optimizer().has_mean() && job.device() == proto::Job::CPU && lazy.local_steps() == 0 &&
         !lazy.double_buffering() && job.trace().steps() == 0 && !job.has_checkpoint() &&
         !record.has_resume();
}

absl::Status OneNodeExchange::Submit(ChunkId chunk) {
  if (phase() != Phase::kTraining) {
    return absl::FailedPreconditionError(
        absl::StrFormat("chunk %d was published after its rank had left", chunk.value()));
  }
  return arenas_->MeanIntoWeights(chunk, clocks_[chunk.value()]++);
}

}  // namespace strata::worker
