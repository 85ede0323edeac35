#ifndef STRATA_WORKER_CLIENT_CONNECT_RANK_CHECKPOINTS_H_
#define STRATA_WORKER_CLIENT_CONNECT_RANK_CHECKPOINTS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <stop_token>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/checkpoint/part_writer.h"
#include "common/checkpoint/store.h"
#include "proto/control.pb.h"
#include "worker/client/client_checkpoints.h"
#include "worker/client/job_facts.h"
#include "worker/contract/agent_channel.h"

namespace strata::client {

// Writes one rank's states of its job's checkpoints on a thread of its own, which tells the worker
// daemon of each, and reads those that the job goes on from.
//
// Threads: one, the client's.
class RankCheckpoints final : public ClientCheckpoints {
 public:
  // `open` opens the job's store; null: OpenStore, with this process's environment. Both outlive
  // it.
  RankCheckpoints(const proto::Launch& launch, AgentChannel* agent, StoreOpener open = nullptr);
  ~RankCheckpoints() override;  // leaves what is queued unwritten

  bool due() const override { return is_due_; }
  absl::Status Give(std::string state) override;
  absl::StatusOr<Bytes> Read(uint32_t rank) override;

  // Training begins, after the facts were given, with this step.
  void Begin(const JobFacts& facts, uint64_t first_step);
  // So many steps have been made, those before the first one among them.
  void AtStep(uint64_t steps);
  // The next step begins, or none does any more: what is due and was not given fails.
  void PassOn();
  // No state comes any more: waits until all are written, or for `timeout`, and asks `still_wanted`
  // meanwhile, whose error it returns.
  absl::Status Finish(absl::Duration timeout, const std::function<absl::Status()>& still_wanted);

 private:
  absl::StatusOr<Bytes> ReadObject(uint32_t rank);
  void Write(std::string problem, std::function<ImageFile()> make);

  const proto::Launch& launch_;
  AgentChannel& agent_;
  std::stop_source stop_;  // ends waits for the store
  const StoreOpener open_;
  uint64_t first_step_ = 0;
  uint64_t every_ = 0;  // steps; 0: this rank keeps nothing
  uint64_t steps_per_clock_ = 1;
  uint64_t clock_ = 0;  // of the newest checkpoint that was due
  bool is_due_ = false;
  bool trains_ = false;  // a step has been made

  absl::Mutex mutex_;
  std::set<uint64_t> held_ ABSL_GUARDED_BY(mutex_);  // clocks whose states are in memory
  std::unique_ptr<PartWriter> writer_;  // last: its thread ends first; null: none is needed
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_RANK_CHECKPOINTS_H_
