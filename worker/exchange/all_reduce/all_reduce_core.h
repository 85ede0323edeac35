#ifndef STRATA_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_CORE_H_
#define STRATA_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/buffer_pool.h"
#include "common/bytes.h"
#include "common/ids.h"
#include "common/image/chunk_image.h"
#include "common/image/cut_collector.h"
#include "common/job/arena.h"
#include "common/job/optimizer.h"
#include "common/wire/frame.h"
#include "worker/exchange/all_reduce/chunk_reduction.h"
#include "worker/exchange/all_reduce/first_weights.h"
#include "worker/exchange/all_reduce/peer_link.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/push_window.h"

namespace strata::worker {

// One node's part of an all-reduce's checkpoints: the slices that it updates, with their optimizer
// state. A chunk is cut before the first clock after the checkpoint's, and after the job's last
// one.
//
// Threads: one.
class SliceCheckpoints {
 public:
  // `chunks` outlive it. Does nothing for a job without checkpoints.
  SliceCheckpoints(const proto::JobRecord& record, const std::vector<ChunkReduction>& chunks);

  // The chunk has not begun its clock. Cuts it if it has reached a checkpoint's clock.
  void CutIfDue(ChunkId chunk);

  // Bytes of weights and optimizer state in one cut. 0: there are no cuts.
  uint64_t CutBytes(OptimizerKind kind) const;
  std::vector<Cut<ChunkImage>> Take();
  void ReleaseCut(uint64_t clock) { cuts_.LetGo(clock); }
  uint64_t bytes() const { return cuts_.bytes(); }

 private:
  const std::vector<ChunkReduction>& chunks_;
  const uint64_t clocks_per_cut_, first_clock_;
  std::vector<std::optional<size_t>> index_;  // by chunk: index of the node's slices; none: the
                                              // node has none
  CutCollector<ChunkImage> cuts_;
  bool has_slices_ = false;
  std::vector<Cut<ChunkImage>> empty_;  // of a node that updates nothing, and reports that
};

// Restores a chunk from the slices of all nodes, and returns the nodes' weights of it. Errors:
// InvalidArgument, DataLoss: the slices are not those of the chunk, or not of the clock.
absl::StatusOr<Bytes> GoOnFrom(absl::Span<const ChunkImage> slices, uint64_t clock,
                               const ChunkMap& map, ChunkId id, ChunkReduction* chunk);

// A barrier that a node enters once it has made all of its clocks; it has passed when all nodes
// have entered. It is an all-reduce of a chunk of one element beyond the job's chunks, at the clock
// after the last one, so that it cannot be mistaken for a step.
//
// A pure state machine. Threads: one.
class RingBarrier {
 public:
  // `chunk`: one after the job's last one. REQUIRES: weights are means.
  RingBarrier(const ReductionRules& rules, ChunkId chunk);
  RingBarrier(const RingBarrier&) = delete;
  RingBarrier& operator=(const RingBarrier&) = delete;

  ChunkId chunk() const { return chunk_; }
  // Enters the barrier after `clocks` clocks; once. Errors: OnFrame's, for earlier frames.
  absl::Status Enter(uint64_t clocks, ReductionActions* actions);
  // Handles a frame of its chunk. Errors: InvalidArgument saying what is wrong with it.
  absl::Status OnFrame(uint32_t peer, const wire::Frame& frame, ReductionActions* actions);
  bool is_entered() const { return is_entered_; }
  bool is_passed() const { return is_passed_; }

 private:
  void StartAt(uint64_t clock);

  const ChunkId chunk_;
  const ReductionRules rules_;  // without a trace
  ChunkReduction word_;
  bool is_started_ = false;  // its clock is known
  bool is_entered_ = false, is_passed_ = false;
};

// The state that a ring takes over from its predecessor.
struct RingBegin {
  uint64_t clock = 0;      // that it makes first
  bool some_lack = false;  // some nodes lack the means of the previous clock, which are distributed
                           // first
  // The node's means, by chunk; empty: it lacks them, or no node does.
  std::vector<Bytes> means;
  std::shared_ptr<BufferPool> pool;  // of the previous ring
};

// One node's side of an all-reduce among the nodes of a job, without servers: of each chunk it sums
// and updates a slice and holds that slice's optimizer state. At most `window` chunks that this
// node has begun are in progress; one of them is the lowest incomplete chunk, by the argument of
// PushWindow.
//
// First all nodes agree on the first weights, see FirstWeights. At the end each tells its peers how
// many clocks it has made, and stays until they have acknowledged that. A node that fails tells its
// peers why, and these tell theirs: all fail with the first node's reason.
//
// If the job continues without lost nodes (DropsLost), the end has two parts, and this core stands
// for one of several rings, see ReformingCore. Before a node says that it is done it passes a
// barrier, so it knows that all nodes have made all steps.
//
// A pure state machine, see ExchangeCore.
class AllReduceCore final : public ExchangeCore {
 public:
  // `resume`: the state that the job resumes from, which is copied; may be null. Errors:
  // InvalidArgument naming the field of the record; those of GoOnFrom.
  static absl::StatusOr<std::unique_ptr<AllReduceCore>> Create(const CoreOptions& options,
                                                               const kernels::Kernels& kernels,
                                                               const NodeResume* resume = nullptr);

  // Continues from another ring. Errors: InvalidArgument naming the field of the record. REQUIRES:
  // the job's weights are means (SharedOptimizer).
  static absl::StatusOr<std::unique_ptr<AllReduceCore>> CreateAfter(const CoreOptions& options,
                                                                    const kernels::Kernels& kernels,
                                                                    RingBegin begin);

  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override;
  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override;
  absl::Time deadline() const override;
  Phase phase() const override { return phase_; }
  const ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override {
    size_t bytes = pool_->allocated_bytes() + checkpoints_.bytes();
    for (const ChunkReduction& chunk : chunks_) bytes += chunk.copy_bytes();
    return bytes;
  }
  void AddActivity(absl::Time now, proto::NodeActivity* activity) const override;
  uint64_t first_clock() const override { return options_.record.resume().clock(); }
  NodeCuts TakeCuts() override { return {.slices = checkpoints_.Take()}; }
  void ReleaseCut(NodeCuts::Kind kind, uint64_t clock) override { checkpoints_.ReleaseCut(clock); }
  const std::string& address(LinkId link) const override {
    return peers_[link.value()].link.options().address;
  }

  // Closes all connections; no calls may follow.
  void Close(WireActions* actions);
  // Number of LinkIds, counted from 0.
  size_t links() const { return peers_.size(); }
  // If the job continues without lost nodes: whether all nodes have made all steps.
  bool is_over() const { return barrier_ && barrier_->is_passed(); }
  const std::shared_ptr<BufferPool>& pool() const { return pool_; }

 private:
  // Another node, on one of the connections to it. Each chunk uses one connection; all other
  // messages are sent on every connection, so on each they are in order with the chunks.
  struct Peer {
    uint32_t position = 0;
    PeerLink link;
    std::optional<uint64_t> made;  // the number of clocks, once it has said that it makes no more
    bool retired = false;
  };

  // Errors: InvalidArgument naming the field of the record.
  static absl::StatusOr<std::unique_ptr<AllReduceCore>> CreateWith(
      const CoreOptions& options, const kernels::Kernels& kernels,
      std::shared_ptr<BufferPool> pool);
  AllReduceCore(const CoreOptions& options, ChunkMap map, const kernels::Kernels& kernels,
                uint32_t position, std::shared_ptr<BufferPool> pool);

  absl::Status Start(absl::Time now, CoreActions* actions);
  absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       CoreActions* actions);
  absl::Status OnTime(absl::Time now, WireActions* actions);
  // Restores the state that the job resumes from.
  absl::Status GoOn(const NodeResume& resume);
  Peer* Find(transport::ConnectionId connection);
  // REQUIRES: the plan has it as a peer.
  Peer* At(uint32_t position, ChunkId chunk);
  // Tells the peers the error, which ends the job.
  absl::Status Fail(const absl::Status& status, bool by_peer, WireActions* actions);
  absl::Status OnStranger(transport::ConnectionId connection, const wire::Frame& frame,
                          absl::Time now, CoreActions* actions);
  absl::Status Take(Peer* peer, const wire::Frame& frame, absl::Time now, CoreActions* actions);
  static absl::Status NamedBy(const Peer& peer, const absl::Status& status);
  absl::Status OnRetire(Peer* peer, uint64_t clocks);
  absl::Status OnBarrier(Peer* peer, const wire::Frame& frame, absl::Time now,
                         CoreActions* actions);
  // Errors: the peer and this node have made different numbers of clocks.
  absl::Status HasFinished(const Peer& peer) const;
  absl::Status CheckMade(const Peer& peer) const;
  void StartAfter(absl::Time now, CoreActions* actions);
  // Sets the chunk's first weights, the node's own or those of the peer `from` (null: none), and
  // announces or forwards them to the others.
  void AddFirst(ChunkId chunk, const Bytes& weights, const Peer* from, absl::Time now,
                CoreActions* actions);
  void MaybeTrain();
  void Push(CoreActions* actions);
  void Send(ChunkId chunk, const ReductionActions& what, absl::Time now, CoreActions* actions);
  absl::Status Do(ChunkId chunk, const ReductionActions& what, absl::Time now,
                  CoreActions* actions);
  absl::Status MaybeRetire(absl::Time now, CoreActions* actions);
  void Retire(absl::Time now, CoreActions* actions);
  // When this node need not wait for the peer any more, or for any of them, by present knowledge.
  absl::Time FreeFrom(const Peer& peer) const;
  absl::Time finished_at() const;
  void MaybeFinish(absl::Time now);
  void CountBytes();

  const CoreOptions options_;
  const ChunkMap map_;
  const std::shared_ptr<BufferPool> pool_;
  const ReductionRules rules_;
  Phase phase_ = Phase::kSeeding;
  bool failed_ = false;
  const uint32_t connections_;
  std::vector<Peer> peers_;  // by LinkId
  std::vector<ChunkReduction> chunks_;
  SliceCheckpoints checkpoints_;
  const std::shared_ptr<void> cut_memory_;  // kept from one cut to the next
  std::vector<Bytes> resumed_;  // by chunk: the weights that the job resumes with, until Start
  PushWindow window_;
  std::optional<RingBegin> begin_;     // if this ring follows another
  std::optional<FirstWeights> first_;  // set by Start
  std::optional<RingBarrier> barrier_;
  uint64_t makes_ = 0;   // clocks, at least
  uint64_t clocks_ = 0;  // kFinishing: of every chunk
  absl::Time retired_at_ = absl::InfiniteFuture();
  uint64_t refused_ = 0;
  ExchangeCounters counters_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_ALL_REDUCE_ALL_REDUCE_CORE_H_
