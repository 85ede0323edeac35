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
#include "common/ids.h"
#include "common/job/arena.h"
#include "common/job/trace_log.h"
#include "common/job/views.h"
#include "kernels/device/device.h"
#include "proto/processes.pb.h"
#include "proto/record.pb.h"
#include "worker/aggregator/core/aggregator_core.h"
#include "worker/aggregator/core/arenas.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/aggregator/core/node_rows.h"
#include "worker/aggregator/core/rank_group.h"
#include "worker/aggregator/core/rank_watch.h"
#include "worker/aggregator/core/view_gate.h"
#include "worker/aggregator/node_endpoint.h"
#include "worker/contract/node_memory.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/peerless_core.h"
#include "worker/exchange/server/rows_core.h"

namespace strata::worker {

// Moves gradients from the ranks to the exchange: finds the chunks that all ranks of the node have
// published, has the arenas sum them, and submits them once their sums can be taken.
//
// Threads: one.
class ChunkIntake {
 public:
  // The arguments outlive it.
  ChunkIntake(const NodeMemory* memory, AggregatorCore* core, Arenas* arenas, Exchange* exchange)
      : memory_(*memory),
        core_(*core),
        arenas_(*arenas),
        exchange_(*exchange),
        published_(memory->offsets().local_ranks),
        ready_(memory->offsets().local_ranks),
        rates_(memory->offsets().local_ranks) {}

  // Returns whether anything changed: a chunk was submitted, or the arenas made progress. Errors:
  // those of AggregatorCore, Arenas and Exchange.
  absl::StatusOr<bool> Look();
  // Forgets what had been published at the last Look.
  void LookAgain() { published_seen_ = 0; }

 private:
  absl::Status LookAtPublished(bool* any);
  // Called before the first sum of a step: all ranks must have the same learning rate.
  absl::Status CheckRates(uint64_t step);

  const NodeMemory& memory_;
  AggregatorCore& core_;
  Arenas& arenas_;
  Exchange& exchange_;
  uint64_t published_seen_ = 0;
  std::vector<uint64_t> published_, ready_;  // scratch, by local rank
  uint64_t rated_ = 0;                       // number of steps whose rates were checked
  std::vector<float> rates_;                 // scratch, by local rank
  std::vector<ChunkId> summed_;              // scratch
};

// Returns whether the job's ranks share one node and get the plain mean of their gradients back, as
// OneNodeCore gives it. A traced job takes the general path, which records events.
bool IsMeanOfOneNode(const proto::JobRecord& record);

// A ring of one node, whose ranks have optimizers of their own: no other node adds to the sums, so
// each is written where the ranks read it, in one pass, with the bits of the general path.
//
// Threads: one.
class OneNodeCore final : public PeerlessCore {
 public:
  // `arenas` of `chunks` chunks outlive this.
  OneNodeCore(NodeArenas* arenas, uint32_t chunks) : arenas_(arenas), clocks_(chunks, 0) {}

  absl::Status Submit(ChunkId chunk, absl::Time, CoreActions*) override {
    return arenas_->MeanIntoWeights(chunk, clocks_[chunk.value()]++);
  }

 private:
  NodeArenas* const arenas_;
  std::vector<uint64_t> clocks_;  // by chunk: the next one
};

// A node's part in a ring whose members are ranks (exchange: NCCL), in a job that continues without
// nodes that die: stops them, gathers each one's progress, and tells them the next ring.
//
// Threads: one.
class RanksRing {
 public:
  // The joint answer of the node's ranks.
  struct Answer {
    StoppedRing ring;
    std::string nccl_id;  // from the first one; empty: it has left
  };

  // `node` is one in the job's `view`. The other two outlive it.
  RanksRing(const proto::View& view, NodeId node, NodeMemory* memory, RankGroup* ranks)
      : view_(view), node_(node), memory_(memory), ranks_(ranks) {}

  // Makes ranks stop for a ring with this number; a lower one than before changes nothing. Ranks
  // that have left know that all ranks of the job have made all steps.
  void Stop(uint32_t number);
  // Returns their progress; none: some have not stopped yet. Errors: FailedPrecondition: a rank
  // does not have the first weights.
  absl::StatusOr<std::optional<Answer>> Gather() const;
  // Tells it to ranks that have not left. Errors: InvalidArgument: the job does not have the ring's
  // nodes, or this one is not among them.
  absl::Status Form(const proto::FormRing& forming);

 private:
  const proto::View view_;
  const NodeId node_;
  NodeMemory* const memory_;
  RankGroup* const ranks_;
};

// The work of an aggregator from RunNode on: connects the ranks to the exchange, moves their chunks
// there and back, and releases the ranks once they have left and the final weights are there.
//
// Threads: one. Nothing blocks but MoveChunks.
class NodeTraining {
 public:
  // Its dependencies; all outlive it.
  struct Parts {
    const proto::Launch& launch;
    NodeMemory* memory;
    RankGroup* ranks;
    const EventFd* doorbell;
    int wake_fd;     // see Exchange::Poll
    RingPort* port;  // exchange: RING: the exchange takes over its endpoint; or null
    // By local rank, if the aggregator uses them.
    const std::vector<std::shared_ptr<device::Device>>& devices;
    const ClockInterface* clock;
    TraceLog* trace;                                  // null: not traced
    const std::shared_ptr<const NodeResume>& resume;  // see CoreOptions; not kept
    // See AggregatorOptions.
    std::optional<uint32_t> helpers;
    const std::function<std::unique_ptr<PeerlessCore>(NodeArenas* arenas)>& exchange;
  };

  // Starts the exchange. Errors: InvalidArgument (the record conflicts with what the ranks
  // registered), those of the arenas and the exchange.
  static absl::StatusOr<std::unique_ptr<NodeTraining>> Begin(const Parts& parts,
                                                             const proto::RunNode& run);

  // Moves chunks from the ranks to the exchange and back, waiting for either up to `timeout`.
  absl::Status MoveChunks(absl::Duration timeout);
  // Continues with the results of that, and with the ranks' messages.
  absl::Status Advance();
  // Handles a message of the worker daemon during training: shards' places and participants.
  absl::Status Hear(const proto::AgentMessage& message);
  // Returns the node's answers to that, for its worker daemon, since the last call.
  std::vector<proto::ChildMessage> TakeAnswers() { return std::exchange(answers_, {}); }

  // The first weights are there, and ranks compute with them.
  bool ranks_train() const { return phase_ >= Phase::kTraining; }
  // The final weights are there.
  bool ranks_may_go() const { return phase_ == Phase::kReleased; }

  Exchange* exchange() { return exchange_.get(); }

  // For the node's activity. REQUIRES, for both: ranks_train().
  uint64_t least_landed() const;
  RankWatch::Progress MeasureProgress(uint32_t local_rank, uint64_t least_landed) const;
  uint32_t chunks() const { return core_.chunks(); }
  // Adds the phase and the exchange's activity.
  void AddActivity(proto::NodeActivity* activity) const;
  // Returns the number of steps that each of its ranks has made, once they make no more.
  std::optional<uint64_t> steps_made() const { return core_.steps(); }
  size_t memory_bytes() const { return arenas_->buffer_bytes() + exchange_->memory_bytes(); }
  size_t device_bytes() const { return arenas_->device_bytes(); }

 private:
  // In this order.
  enum class Phase {
    kSeeding,    // the exchange settles the first weights
    kTraining,   // ranks publish
    kFinishing,  // all ranks have left; the exchange settles the final weights
    kReleased,   // ranks have been told that the final weights are there
  };

  NodeTraining(const Parts& parts, const ChunkMap& map, Views views);

  absl::Status JoinExchange(const proto::JobRecord& record, const ChunkMap& map);
  // The same for the rows of the job's tables.
  absl::Status JoinRows(const CoreOptions& options);
  // Takes what ranks ask about rows. Returns whether there was anything.
  absl::StatusOr<bool> LookAtRows();
  void GiveRows();
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
  // Stops the exchange, and reports the node's progress once it is known.
  absl::Status StopRing(uint32_t number);
  // Returns none while some ranks have not stopped yet.
  absl::StatusOr<std::optional<RanksRing::Answer>> StopExchange(uint32_t number);
  absl::Status FormRing(const proto::FormRing& forming);
  absl::Status CheckMembers(const proto::FormRing& forming) const;
  // Tells the ranks the change; they may then continue.
  absl::Status TakeChange(const proto::ViewChange& change);
  // Publishes to the ranks up to which step its ranks are known; returns the largest such step that
  // any rank has seen.
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
  std::optional<ChunkIntake> intake_;  // set together with the exchange
  RowsCore* rows_core_ = nullptr;      // of the exchange; null: the job has no tables
  std::optional<NodeRows> rows_;       // set together with it
  bool has_said_full_ = false;         // that rows had no room
  proto::Started started_;
  Phase phase_ = Phase::kSeeding;
  std::vector<bool> leave_taken_;  // by local rank
  BusyTime busy_;                  // with chunks under way
  ViewGate gate_;
  std::optional<uint32_t> proposed_;     // the number of a change that has not been answered yet
  std::optional<RanksRing> ranks_ring_;  // set if the ranks form a ring that may lose some
  uint32_t asked_ = 0;    // the number of the ring for which ranks have yet to stop; 0: none
  uint32_t stopped_ = 0;  // the number of the ring that is awaited; 0: none
  std::vector<proto::ChildMessage> answers_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_NODE_TRAINING_H_
