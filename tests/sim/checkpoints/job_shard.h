#ifndef STRATA_TESTS_SIM_CHECKPOINTS_JOB_SHARD_H_
#define STRATA_TESTS_SIM_CHECKPOINTS_JOB_SHARD_H_

#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/image/chunk_image.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "proto/record.pb.h"
#include "server/shard/shard_cut.h"
#include "server/shard/shard_job.h"

namespace strata::sim {

// One shard of a job on a simulated network, as ShardThread and ShardCore drive it.
class JobShard {
 public:
  // Listens where the record says. `network` outlives it.
  JobShard(transport::SimNetwork* network, const proto::JobRecord& record, uint32_t own);

  // See ShardJob.
  absl::Status Restore(absl::Span<const ChunkImage> images) {
    absl::Status restored = job_->Restore(images);
    return restored.ok() ? job_->CheckRestored() : restored;
  }
  std::vector<server::ShardCut> TakeCuts() { return std::exchange(cuts_, {}); }
  void LetGoOf(ShardId /*shard*/, uint64_t clock) { job_->LetGoOf(clock); }
  uint64_t refused() const { return job_->counters().refused; }

 private:
  transport::SimEndpoint::Options OptionsOf(uint32_t own);
  void Serve();
  void Take(const transport::Event& event);
  void Send(const std::vector<server::ShardAction>& actions);
  void WakeAtDeadline();

  transport::SimNetwork& network_;
  absl::Time wakes_at_ = absl::InfiniteFuture();
  BufferPool pool_;
  kernels::EncoderScratch scratch_;
  server::Refusals refusals_;
  std::vector<server::ShardCut> cuts_;
  std::unique_ptr<server::ShardJob> job_;
  std::set<transport::ConnectionId> bound_;
  transport::SimEndpoint endpoint_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECKPOINTS_JOB_SHARD_H_
