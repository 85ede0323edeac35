#ifndef STRATA_WORKER_CLIENT_AGGREGATOR_LINK_H_
#define STRATA_WORKER_CLIENT_AGGREGATOR_LINK_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/event_fd.h"
#include "common/ids.h"
#include "common/job/arena.h"
#include "common/job/job.h"
#include "common/os/framed_channel.h"
#include "kernels/device/communicator.h"
#include "kernels/device/device.h"
#include "proto/job.pb.h"
#include "worker/client/device_publisher.h"
#include "worker/client/rank_link.h"
#include "worker/contract/node_memory.h"
#include "worker/contract/rank_protocol.pb.h"

namespace strata::client {

class AgentChannel;

// Calls that a NodeSum makes on a thread of its own.
struct NodeSumCalls {
  // This rank's gradients of one more chunk are complete.
  std::function<void(uint64_t step)> computed;
  // The chunk is in the node's sum, so its gradients may be overwritten; on the chunk's root, where
  // the sum is, only once it has been used. An error ends the NodeSum.
  std::function<absl::Status(ChunkId chunk, uint64_t step)> reduced;
  // False ends a wait for the others.
  device::StillWanted still_wanted;
  // The same for waits of the caller's thread only; null: no limit.
  device::StillWanted caller_waits;
};

// One rank's part in its node's sum; all have the same `map`.
struct NodeSumSetup {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Communicator> communicator;
  uint32_t local_rank = 0, local_ranks = 0;
  device::Memory gradients;  // this rank's arena, on `device`
  ChunkMap map;
  proto::Job job;  // may request a trace
  NodeSumCalls calls;
};

// One of a node's ranks that sum their gradients on their devices, for the node's aggregator
// (node_sum: NCCL). Whoever connects an AggregatorLink provides it.
//
// Threads: one calls.
class NodeSum {
 public:
  virtual ~NodeSum() = default;

  // The chunks' gradients are complete once the work queued in `stream` so far is done; null: they
  // are complete now. Does not block, except for a step's first call, like Drain.
  virtual absl::Status PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                                    uint64_t step) = 0;
  // Blocks until `reduced` was called for everything published.
  virtual absl::Status Drain() = 0;
  // The last call except SendTrace: all ranks of the node make it, after the same number of steps.
  virtual absl::Status Finish() = 0;
  // Sends the trace of the device's sums in traced steps, like RankLink::SendTrace.
  virtual void SendTrace(AgentChannel* agent, bool all) = 0;

  // Returns the memory that it has allocated on its device.
  virtual size_t device_bytes() const = 0;
};

using CreateNodeSum = absl::StatusOr<std::unique_ptr<NodeSum>> (*)(NodeSumSetup setup);

// A rank's link to its node: gradients go into shared memory, where the aggregator sums them, and
// weights come back into the arena that all ranks of the node read.
//
// Until Start every rank fills weights of its own, which are compared there; then the node's arena
// replaces them, at the same addresses and read-only.
class AggregatorLink final : public RankLink {
 public:
  // Waits for the aggregator to listen. Errors: Unavailable naming its socket. `create_node_sum`
  // creates the node's sum on devices; null if there is none. `answer_deadline` is for answers that
  // the aggregator gives at once, without waiting for others.
  // REQUIRES: `create_node_sum` if worker::RanksAddUp(launch).
  static absl::StatusOr<std::unique_ptr<AggregatorLink>> Connect(
      const proto::Launch& launch, CreateNodeSum create_node_sum,
      absl::Duration answer_deadline = absl::Seconds(30));

  void AskInWaits(device::StillWanted still_wanted) override {
    still_wanted_ = std::move(still_wanted);
  }
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override;
  absl::StatusOr<RunFacts> Start(const JobFacts& facts) override;

  // For exchange: NCCL, where the aggregator only connects the ranks. On rank 0, before Start:
  // offers the NCCL id. On all ranks, after it: returns rank 0's.
  void OfferNcclId(std::string id) { nccl_id_ = std::move(id); }
  const std::string& nccl_id() const { return nccl_id_; }
  // Shows this rank's progress, for diagnosis: it has published so many more of the job's chunks;
  // it has the chunk's weights that the step starts from.
  void ShowPublished(size_t published, uint32_t chunks, uint64_t step);
  void ShowLanded(ChunkId chunk, uint64_t step);
  // Device memory that the rank holds for the exchange.
  void ShowDeviceBytes(uint64_t bytes) { Self().device_bytes = bytes; }
  // With on_loss: DROP. The highest ring number for which the rank must stop; 0: none. Threads:
  // any.
  uint32_t ring_asked() const { return memory_->header().ring_asked.load(); }
  // Reports where it has stopped. Threads: any. Errors of the connection show in the calls that
  // wait.
  void SayStopped(const proto::RankStopped& stopped);
  // Blocks for the ring to continue in: of ring_asked's number or a higher one. Calls `wanted`
  // while it waits. Errors: those of LearnViews, and `wanted`'s.
  absl::StatusOr<proto::RankRing> AwaitRing(const device::StillWanted& wanted);
  // Ok while the job continues. Threads: any. Errors: Unavailable with the reason.
  absl::Status CheckAlive();
  // Ok while the program wants to wait (AskInWaits). Threads: the caller's. Errors: the program's.
  absl::Status AskProgram();
  // Both.
  absl::Status CheckWanted();

  void ComputeIn(device::Stream* stream) override;
  // A chunk's gradient memory is free once AwaitWeights has returned for it. Blocks only with
  // ComputeIn or node_sum: NCCL, until the previous step is published by this rank or, with the
  // latter, by all of the node's.
  absl::Status BeginStep(uint64_t step, uint32_t samples, float rate) override;
  absl::Status AwaitWeights(ChunkId chunk, uint64_t step) override;
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) override;
  absl::Status LookUpRows(uint32_t table, uint32_t columns, absl::Span<const uint64_t> ids,
                          bool of_step, float* to) override;
  absl::Status WantRows(uint32_t table, uint32_t columns, absl::Span<const uint64_t> ids) override;
  uint32_t row_lookahead() const override { return RowsLookahead(launch_.record().job()); }
  absl::Status AddRows(uint32_t table, uint32_t columns, float rate, absl::Span<const uint64_t> ids,
                       const float* gradients) override;
  absl::Status EndRows(uint64_t step, uint32_t samples) override;
  absl::StatusOr<bool> LearnViews(uint64_t step, bool waits, Views* views) override;
  absl::Status Finish(uint64_t steps) override;
  std::vector<proto::ViewChange> TakeLateChanges() override {
    return std::exchange(late_changes_, {});
  }
  absl::Status KeepWeights() override {
    return device_ == nullptr ? memory_->KeepWeights() : WeightsLieOnDevice();
  }
  void SendTrace(AgentChannel* agent, bool all) override;
  proto::NodeCounters Counters() const override;

 private:
  // Interval of checks whether the job still continues, and the program still waits.
  static constexpr int kSleepMs = 100;
  static constexpr int kRingPollMs = 10;  // others wait for each rank's answer

  AggregatorLink(const proto::Launch& launch, CreateNodeSum create_node_sum, UniqueFd socket,
                 absl::Duration answer_deadline);

  // Opens the aggregator's arenas on this rank's device.
  absl::Status OpenArenas(const proto::Started& started, RunFacts* facts);
  // With node_sum: NCCL, connects to the other ranks of the node for the sums.
  absl::Status JoinRanks(const RunFacts& facts);
  // Blocks until everything handed to a publishing thread is published.
  absl::Status Drain();
  // The chunk's gradients may be used, alone or in the node's sum. Returns whether they are
  // complete on the node.
  absl::StatusOr<bool> Hand(ChunkId chunk, uint64_t step);
  void Ring();
  // Their gradients are complete now. On the publisher's thread, if there is one; uses nothing that
  // AwaitWeights changes.
  absl::Status PublishNow(absl::Span<const ChunkId> chunks, uint64_t step);
  absl::Status Say(const proto::RankMessage& message);
  // Blocks for the aggregator's next message. Errors: Unavailable (it is gone, the job stops, or
  // nothing came within `timeout`); AskInWaits'.
  absl::StatusOr<proto::AggregatorMessage> Hear(absl::Duration timeout);
  // Blocks until the aggregator has answered this rank's last request for rows.
  absl::Status AwaitRows();
  // Hands over the request in the rank's slot.
  void AskForRows();
  // Writes the ids to the rank's slot, as many at a time as it has room for, and each time calls
  // `ask` with the slot and the number of values of these rows.
  template <typename Ask>
  absl::Status AskInParts(uint32_t table, uint32_t columns, absl::Span<const uint64_t> ids,
                          const Ask& ask);
  // Keeps a message about the job's nodes for a later call. Returns false for other messages.
  bool Keep(const proto::AggregatorMessage& message);
  absl::Status Gone() const;
  worker::RankBlock& Self() const { return memory_->rank(launch_.local_rank()); }
  bool Landed(ChunkId chunk, uint64_t step) const;
  bool CompleteOnNode(ChunkId chunk, uint64_t step) const;

  const proto::Launch launch_;
  const CreateNodeSum create_node_sum_;
  FramedChannel channel_;
  const absl::Duration answer_deadline_;
  const bool may_spin_;
  device::StillWanted still_wanted_;  // null: always
  std::unique_ptr<worker::NodeMemory> memory_;
  std::unique_ptr<EventFd> doorbell_;
  uint32_t chunks_ = 0;
  uint32_t published_ = 0;                 // chunks, in the current step
  std::deque<proto::ViewChange> changes_;  // received while waiting for other messages
  std::optional<proto::RankRing> ring_;    // likewise: the newest
  std::vector<proto::ViewChange> late_changes_;
  std::string nccl_id_;
  // With device: GPU, unless ranks exchange among themselves.
  std::shared_ptr<device::Device> device_;
  device::Stream* stream_ = nullptr;  // where gradients are computed, or null
  std::unique_ptr<DevicePublisher> publisher_;
  std::unique_ptr<NodeSum> node_sum_;  // with node_sum: NCCL, instead of the publisher
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_AGGREGATOR_LINK_H_
