#ifndef STRATA_TESTS_SIM_CLUSTER_JOB_RUN_H_
#define STRATA_TESTS_SIM_CLUSTER_JOB_RUN_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/checkpoint/part_writer.h"
#include "common/image/chunk_image.h"
#include "common/transport/sim/sim_endpoint.h"
#include "common/transport/sim/sim_network.h"
#include "proto/record.pb.h"
#include "server/shard/shard_job.h"
#include "server/shard/shard_report.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/testing/training_node.h"

namespace strata::sim {

// One shard of a job on a simulated network, as ShardThread and ShardCore drive it.
class JobShard {
 public:
  // Listens at the address in the record. `network` outlives it.
  JobShard(transport::SimNetwork* network, const proto::JobRecord& record, uint32_t own);

  // See ShardJob.
  absl::Status Restore(absl::Span<const ChunkImage> images) {
    absl::Status restored = job_->Restore(images);
    return restored.ok() ? job_->CheckRestored() : restored;
  }
  std::vector<server::ShardCut> TakeCuts() { return std::exchange(cuts_, {}); }
  void ReleaseCut(ShardId /*shard*/, uint64_t clock) { job_->ReleaseCut(clock); }
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
  numerics::EncoderScratch scratch_;
  server::Refusals refusals_;
  std::vector<server::ShardCut> cuts_;
  std::unique_ptr<server::ShardJob> job_;
  std::set<transport::ConnectionId> bound_;
  transport::SimEndpoint endpoint_;
};

// The jobs of these simulations: one epoch, from which each rank takes one sample a step.
inline constexpr uint32_t kJobRanks = 4, kJobChunks = 5, kJobChunkElements = 64;
inline constexpr uint64_t kJobSteps = 14;
inline constexpr uint64_t kJobSamples = kJobSteps * kJobRanks;

struct JobCase {
  std::string name;
  std::string job;  // its text
  // Each sample adds 1 to its own element of each chunk. Otherwise any difference shows in the
  // weights' bits. In both cases ranks may be on any nodes.
  bool has_ledger = false;
  bool keeps_nodes = false;  // their number may not change
  bool is_async = false;     // each push is an update
};
const std::vector<JobCase>& JobCases();

// Returns the record of such a job with its ranks spread over this many nodes.
proto::JobRecord MakeJobRecord(const JobCase& one, uint32_t nodes, uint32_t shards,
                               uint64_t every_steps, uint32_t keep);

// One attempt of a job: its nodes and shards on a network that loses and repeats frames and breaks
// connections.
class JobRun {
 public:
  // The checkpoint from which it resumes; empty: it starts from the beginning.
  struct From {
    std::vector<std::vector<ChunkImage>> images;                   // by shard
    std::vector<std::shared_ptr<const worker::NodeResume>> nodes;  // by node

    // Returns the least number of a node's pushes applied to any chunk.
    uint64_t LeastApplied(size_t node) const;
  };
  // `one` outlives it.
  JobRun(const JobCase& one, proto::JobRecord record, uint64_t seed, const From& from);

  // Returns the status of what has begun. Errors: an image does not fit, a node has failed, a frame
  // was refused.
  absl::Status status() const;
  // Processes one event. Returns false if there is none left.
  bool RunOne() { return network_.RunOne(); }
  bool is_over() const;       // all nodes have ended
  bool has_finished() const;  // and all final weights have arrived
  // Calls `what` after this much time of the run, unless the run has been destroyed.
  void After(absl::Duration delay, std::function<void()> what) {
    network_.After(delay, std::move(what));
  }
  // Returns the parts cut since the last call, to be written. The run outlives `let_go`.
  std::vector<PartWriter::Part> TakeParts();

  const proto::JobRecord& record() const { return record_; }
  size_t nodes() const { return nodes_.size(); }
  const worker::TrainingNode& node(size_t i) const { return *nodes_[i]; }

 private:
  void AddNode(uint32_t node, const From& from);
  float Gradient(uint32_t rank, uint64_t step, uint64_t i, float weight) const;
  float Mark(uint32_t node, uint32_t rank, uint64_t step, uint64_t i) const;

  const JobCase& case_;
  const proto::JobRecord record_;
  const std::vector<uint32_t> order_;  // of samples
  transport::SimNetwork network_;
  absl::Status status_;
  std::vector<std::unique_ptr<JobShard>> shards_;
  std::vector<std::unique_ptr<worker::TrainingNode>> nodes_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_JOB_RUN_H_
