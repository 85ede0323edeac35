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

// Returns the job with what its program said at the start: the optimizer, which steps make clocks,
// and samples. REQUIRES: the coordinator has accepted that.
proto::Job Completed(proto::Job job, const JobFacts& facts);

// Writes one rank's part of its job's checkpoints on a thread of its own, which reports each object
// to the worker daemon. Reads what the job resumes from: the program's state and, if only ranks
// have the weights, these.
//
// Threads: one, the client's.
class RankCheckpoints final : public ClientCheckpoints {
 public:
  // `link`, which makes this rank's steps, resumes from the checkpoint's weights if only ranks have
  // them; null: another kind of job. `open` opens the job's store; null: OpenStore, with this
  // process's environment. The arguments outlive it.
  RankCheckpoints(const proto::Launch& launch, AgentChannel* agent, RankLink* link,
                  StoreOpener open = nullptr);
  ~RankCheckpoints() override;  // abandons queued writes

  bool due() const override { return is_due_; }
  absl::Status Give(std::string state) override;
  absl::StatusOr<Bytes> Read(uint32_t rank) override;

  // Training begins with this step; called after the facts are known.
  void Begin(const JobFacts& facts, uint64_t first_step);
  // `steps` steps have been made, including those before the first one. Errors: the link's.
  absl::Status AtStep(uint64_t steps);
  // The next step begins, or none does any more: state that is due and was not given fails its
  // checkpoint.
  void PassOn();
  // No more states come: waits until all are written, or for `timeout`, and calls `still_wanted`
  // meanwhile, whose error it returns.
  absl::Status Finish(absl::Duration timeout, const std::function<absl::Status()>& still_wanted);

 private:
  absl::StatusOr<Bytes> ReadState(uint32_t rank);
  absl::StatusOr<std::vector<ChunkImage>> ReadWeights();
  absl::StatusOr<std::vector<ChunkImage>> ReadImages();
  // Reads an object that the job resumes from.
  absl::StatusOr<ResumeObject> ReadObject(uint32_t index);
  // Reports to the daemon why the job cannot resume, and returns the error for the program.
  absl::Status Refuse(const absl::Status& status);

  // Returns whether this rank can hold one more part of the kind; reports it otherwise.
  bool IsDue(PartKind kind);
  void Hold(PartKind kind);
  void Write(PartKind kind, std::string problem, std::function<ImageFile()> make);

  const proto::Launch& launch_;
  AgentChannel& agent_;
  RankLink* const link_;
  std::stop_source stop_;  // ends waits for the store
  const StoreOpener open_;
  uint64_t first_step_ = 0;
  uint64_t every_ = 0;  // steps between states; 0: this rank gives none
  bool keeps_state_ = false, keeps_weights_ = false;
  uint64_t steps_per_clock_ = 1;
  uint64_t clock_ = 0;  // of the newest due checkpoint
  bool is_due_ = false;
  bool trains_ = false;  // a step has been made

  absl::Mutex mutex_;
  // Clocks whose parts are in memory.
  std::map<PartKind, std::set<uint64_t>> held_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<PartWriter> writer_;  // last member: its thread ends first; null: not needed
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_RANK_CHECKPOINTS_H_
