#ifndef STRATA_WORKER_AGGREGATOR_NODE_TRAINING_H_
#define STRATA_WORKER_AGGREGATOR_NODE_TRAINING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/event_fd.h"
#include "common/fork_join.h"
#include "common/job/arena.h"
#include "common/trace/trace_log.h"
#include "kernels/device/device.h"
#include "proto/processes.pb.h"
#include "worker/aggregator/chunk_intake.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/aggregator/core/busy_time.h"
#include "worker/aggregator/core/rank_watch.h"
#include "worker/aggregator/core/view_gate.h"
#include "worker/aggregator/host/node_arenas.h"
#include "worker/aggregator/host/rank_group.h"
#include "worker/aggregator/ranks_ring.h"
#include "worker/aggregator/ring_port.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange.h"

namespace strata::worker {

// What an aggregator does from RunNode on: it joins the ranks to the exchange, moves their chunks
// there and back, and lets the ranks go once they have left and the final weights are there.
//
// Threads: one. Nothing blocks but MoveChunks.
class NodeTraining {
 public:
  // What it is made of; all of it outlives it.
  struct Parts {
    const proto::Launch& launch;
    NodeMemory* memory;
    RankGroup* ranks;
    const EventFd* doorbell;
    int wake_fd;     // see Exchange::Poll
    RingPort* port;  // exchange: RING, of which the exchange takes over the endpoint; or null
    // By local rank, where the aggregator uses them.
    const std::vector<std::shared_ptr<device::Device>>& devices;
    const ClockInterface* clock;
    TraceLog* trace;                                  // null: the job wants none
    const std::shared_ptr<const NodeResume>& resume;  // see CoreOptions; not kept
    // See AggregatorOptions.
    std::optional<uint32_t> helpers;
    const std::function<std::unique_ptr<Exchange>(NodeArenas* arenas, int wake_fd)>& exchange;
  };

  // Starts the exchange. Errors: InvalidArgument (the record does not fit what the ranks
  // registered), those of the arenas and the exchange.
  static absl::StatusOr<std::unique_ptr<NodeTraining>> Begin(const Parts& parts,
                                                             const proto::RunNode& run);

  // Takes chunks from the ranks to the exchange and back, waiting for either up to `timeout`.
  absl::Status MoveChunks(absl::Duration timeout);
  // Goes on with what has come of that, and of what the ranks have said.
  absl::Status Advance();
  // What the worker daemon says while the node trains: where shards lie, and who takes part.
  absl::Status Hear(const proto::AgentMessage& message);
  // Returns what the node answers to that, for its worker daemon, since the last call.
  std::vector<proto::ChildMessage> TakeAnswers() { return std::exchange(answers_, {}); }

  // The first weights are there, and ranks compute with them.
  bool ranks_train() const { return phase_ >= Phase::kTraining; }
  // The final weights are there.
  bool ranks_may_go() const { return phase_ == Phase::kReleased; }

  Exchange* exchange() { return exchange_.get(); }

  // For the node's activity. REQUIRES of the two: ranks_train().
  uint64_t least_landed() const;
  RankWatch::Progress MeasureProgress(uint32_t local_rank, uint64_t least_landed) const;
  uint32_t chunks() const { return core_.chunks(); }
  // Adds the phase and what the exchange says.
  void AddActivity(proto::NodeActivity* activity) const;
  // Steps of each of its ranks, once they make no more.
  std::optional<uint64_t> steps_made() const { return core_.steps(); }
  size_t memory_bytes() const { return arenas_->buffer_bytes() + exchange_->memory_bytes(); }
  size_t device_bytes() const { return arenas_->device_bytes(); }

 private:
  // Each follows the one before.
  enum class Phase {
    kSeeding,    // the exchange settles the first weights
    kTraining,   // ranks publish
    kFinishing,  // all ranks have left; the exchange settles the final weights
    kReleased,   // ranks have been told that those are there
  };

  NodeTraining(const Parts& parts, const ChunkMap& map, Views views);

  absl::Status JoinExchange(const proto::JobRecord& record, const ChunkMap& map);
  uint64_t FirstStep() const;
  absl::Status StartRanks();
  absl::Status TakeLeaves();
  absl::Status FinishExchange();
  void ReleaseRanks();
  void NoteBusy();
  void ShowRanksCounters();
  absl::Status ChangeView(const proto::ViewChange& change);
  // Answers the newest proposal, once ranks train.
  void Promise();
  // Stops exchanging, and answers how far the node is, once that is known.
  absl::Status StopRing(uint32_t number);
  // None: some ranks have not stopped yet.
  absl::StatusOr<std::optional<RanksRing::Answer>> StopExchange(uint32_t number);
  absl::Status FormRing(const proto::FormRing& forming);
  absl::Status CheckMembers(const proto::FormRing& forming) const;
  // Has the ranks know the change, with which they may go on.
  absl::Status TakeChange(const proto::ViewChange& change);
  // Shows ranks how far they are told who makes a step; returns how far any of them has been.
  uint64_t Close(uint64_t until);
  bool ranks_await_view() const;
  std::string PhaseText() const;

  const Parts parts_;
  NodeMemory& memory_;
  RankGroup& ranks_;
  AggregatorCore core_;
  ForkJoin helpers_;
  std::unique_ptr<Arenas> arenas_;
  std::unique_ptr<Exchange> exchange_;
  std::optional<ChunkIntake> intake_;  // with the exchange
  proto::Started started_;
  Phase phase_ = Phase::kSeeding;
  std::vector<bool> leave_taken_;  // by local rank
  BusyTime busy_;                  // with chunks under way
  ViewGate gate_;
  std::optional<uint32_t> proposed_;     // the number of a change that is to be answered yet
  std::optional<RanksRing> ranks_ring_;  // where the ranks are a ring and may lose some
  uint32_t asked_ = 0;    // the number of the ring that ranks are still to stop for; 0: none is
  uint32_t stopped_ = 0;  // the number of the ring that is waited for; 0: none is
  std::vector<proto::ChildMessage> answers_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_NODE_TRAINING_H_
