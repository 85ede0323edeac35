#ifndef STRATA_WORKER_CLIENT_CONNECT_RANK_CHECKPOINTS_H_
#define STRATA_WORKER_CLIENT_CONNECT_RANK_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/bytes.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/part_writer.h"
#include "common/checkpoint/store.h"
#include "common/image/chunk_image.h"
#include "common/image/image_tensors.h"
#include "proto/processes.pb.h"
#include "worker/client/client.h"
#include "worker/client/client_parts.h"
#include "worker/client/rank_link.h"
#include "worker/contract/agent_channel.h"

namespace strata::client {

// Returns the job with what its program has said at the start: the optimizer, by which steps make
// clocks, and samples. REQUIRES: the coordinator has taken what was said.
proto::Job Completed(proto::Job job, const JobFacts& facts);

// Writes what one rank has to give to its job's checkpoints on a thread of its own, which tells the
// worker daemon of each object, and reads what the job resumes from: the program's state and, where
// ranks alone have the weights, those.
//
// Threads: one, the client's.
class RankCheckpoints final : public ClientCheckpoints {
 public:
  // `link`, which does this rank's steps, resumes from the weights that the job resumes from, where
  // ranks alone have them; null: it is no such job's. `open` opens the job's store; null:
  // OpenStore, with this process's environment. All outlive it.
  RankCheckpoints(const proto::Launch& launch, AgentChannel* agent, RankLink* link,
                  StoreOpener open = nullptr);
  ~RankCheckpoints() override;  // leaves what is queued unwritten

  bool due() const override { return is_due_; }
  absl::Status Give(std::string state) override;
  absl::StatusOr<Bytes> Read(uint32_t rank) override;

  // Training begins, after the facts were given, with this step.
  void Begin(const JobFacts& facts, uint64_t first_step);
  // So many steps have been made, those before the first one among them. Errors: the link's.
  absl::Status AtStep(uint64_t steps);
  // The next step begins, or none does any more: what is due and was not given fails.
  void PassOn();
  // No state comes any more: waits until all are written, or for `timeout`, and asks `still_wanted`
  // meanwhile, whose error it returns.
  absl::Status Finish(absl::Duration timeout, const std::function<absl::Status()>& still_wanted);

 private:
  absl::StatusOr<Bytes> ReadState(uint32_t rank);
  absl::StatusOr<std::vector<ChunkImage>> ReadWeights();
  absl::StatusOr<std::vector<ChunkImage>> ReadImages();
  // An object that the job resumes from.
  absl::StatusOr<ResumeObject> ReadObject(uint32_t index);
  // Says to the daemon what has kept the job from going on, and returns the error for the program.
  absl::Status Refuse(const absl::Status& status);

  // True if this rank can hold one more part of the kind; else it reports that.
  bool IsDue(PartKind kind);
  void Hold(PartKind kind);
  void Write(PartKind kind, std::string problem, std::function<ImageFile()> make);

  const proto::Launch& launch_;
  AgentChannel& agent_;
  RankLink* const link_;
  std::stop_source stop_;  // ends waits for the store
  const StoreOpener open_;
  uint64_t first_step_ = 0;
  uint64_t every_ = 0;  // steps; 0: this rank gives nothing
  bool keeps_state_ = false, keeps_weights_ = false;
  uint64_t steps_per_clock_ = 1;
  uint64_t clock_ = 0;  // of the newest checkpoint that was due
  bool is_due_ = false;
  bool trains_ = false;  // a step has been made

  absl::Mutex mutex_;
  // Clocks whose parts are in memory.
  std::map<PartKind, std::set<uint64_t>> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PartWriter> writer_;  // last: its thread ends first; null: none is needed
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_RANK_CHECKPOINTS_H_
