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
  // They are in the node's sum and may be written to again, on the chunk's root once the sum, which
  // lies there, has been used. Its error ends the NodeSum.
  std::function<absl::Status(ChunkId chunk, uint64_t step)> reduced;
  // False ends a wait for the others.
  device::StillWanted still_wanted;
  // The same where the caller's thread waits, and nowhere else; null: as long as it takes.
  device::StillWanted caller_waits;
};

// One rank's part in its node's sum; all have the same `map`.
struct NodeSumSetup {
  std::shared_ptr<device::Device> device;
  std::unique_ptr<device::Communicator> communicator;
  uint32_t local_rank = 0, local_ranks = 0;
  device::Memory gradients;  // this rank's arena, on `device`
  ChunkMap map;
  proto::Job job;  // may ask for a trace
  NodeSumCalls calls;
};

// One of a node's ranks that add up their gradients on their devices, for the node's aggregator to
// use the sums (node_sum: NCCL). An AggregatorLink is given one by whoever connects it.
//
// Threads: one calls.
class NodeSum {
 public:
  virtual ~NodeSum() = default;

  // The chunks' gradients are complete once what `stream` has been given until now is done; null:
  // they are. Does not block, but for a step's first call, as Drain does.
  virtual absl::Status PublishAfter(device::Stream* stream, absl::Span<const ChunkId> chunks,
                                    uint64_t step) = 0;
  // Blocks until `reduced` was called for all that is published.
  virtual absl::Status Drain() = 0;
  // The last call but SendTrace: all ranks of the node make theirs, after as many steps.
  virtual absl::Status Finish() = 0;
  // Hands on what the device did of sums in traced steps, as RankLink::SendTrace.
  virtual void SendTrace(AgentChannel* agent, bool all) = 0;

  // Returns what it has asked for on its device.
  virtual size_t device_bytes() const = 0;
};

using CreateNodeSum = absl::StatusOr<std::unique_ptr<NodeSum>> (*)(NodeSumSetup setup);

// A rank as one of its node's: gradients go into shared memory, where the aggregator sums them, and
// weights come back into the arena that all ranks of the node read.
//
// Until Start every rank fills weights of its own, which are compared there; then the node's arena
// takes their place, at the same addresses and read only.
class AggregatorLink final : public RankLink {
 public:
  // Waits for the aggregator to listen. Errors: Unavailable naming its socket.
  // `create_node_sum` makes what the node's ranks add up with; null where they do not.
  // `answer_deadline` is for what the aggregator owes at once, without waiting for anybody else.
  // REQUIRES: `create_node_sum` if worker::RanksAddUp(launch).
  static absl::StatusOr<std::unique_ptr<AggregatorLink>> Connect(
      const proto::Launch& launch, CreateNodeSum create_node_sum,
      absl::Duration answer_deadline = absl::Seconds(30));

  void AskInWaits(device::StillWanted still_wanted) override {
    still_wanted_ = std::move(still_wanted);
  }
  absl::StatusOr<ArenaView> Allocate(const proto::Layout& layout) override;
  absl::StatusOr<RunFacts> Start(const JobFacts& facts) override;

  // For exchange: NCCL, of which the aggregator only joins the ranks.
  // Before Start, on rank 0: what all of them are to meet by. What rank 0 said, after it.
  void OfferNcclId(std::string id) { nccl_id_ = std::move(id); }
  const std::string& nccl_id() const { return nccl_id_; }
  // How far this rank is, for those who ask who holds a job up: it has published so many chunks
  // more of the job's; has the chunk's weights that the step starts from.
  void ShowPublished(size_t published, uint32_t chunks, uint64_t step);
  void ShowLanded(ChunkId chunk, uint64_t step);
  // Device memory that the rank holds for the exchange.
  void ShowDeviceBytes(uint64_t bytes) { Self().device_bytes = bytes; }
  // With on_loss: DROP. The highest number of a ring that the rank must stop for; 0: none. Threads:
  // any.
  uint32_t ring_asked() const { return memory_->header().ring_asked.load(); }
  // Says where it has stopped. Threads: any. Its loss is found by the calls that wait.
  void SayStopped(const proto::RankStopped& stopped);
  // Blocks for the ring to continue in: of ring_asked's number or a higher one. `wanted` is asked
  // while it waits. Errors: those of LearnViews, and what `wanted` says.
  absl::StatusOr<proto::RankRing> AwaitRing(const device::StillWanted& wanted);
  // Ok while the job continues. Threads: any. Errors: Unavailable, saying why not.
  absl::Status CheckAlive();
  // Ok while the program wants to wait (AskInWaits). Threads: the caller's. Errors: what it says.
  absl::Status AskProgram();
  // Both.
  absl::Status CheckWanted();

  void ComputeIn(device::Stream* stream) override;
  // A chunk's gradient memory is free once AwaitWeights has returned for it. Blocks only with
  // ComputeIn or node_sum: NCCL, until the step before is published by this rank or, in the second
  // case, by all of the node's.
  absl::Status BeginStep(uint64_t step, uint32_t samples, float rate) override;
  absl::Status AwaitWeights(ChunkId chunk, uint64_t step) override;
  absl::Status Publish(absl::Span<const ChunkId> chunks, uint64_t step) override;
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
  // Between looks at whether the job still continues, and the program still waits.
  static constexpr int kSleepMs = 100;
  static constexpr int kRingPollMs = 10;  // others wait for each rank's answer

  AggregatorLink(const proto::Launch& launch, CreateNodeSum create_node_sum, UniqueFd socket,
                 absl::Duration answer_deadline);

  // Opens the arenas that the aggregator has on this rank's device.
  absl::Status OpenArenas(const proto::Started& started, RunFacts* facts);
  // Meets, with node_sum: NCCL, the other ranks of the node, to add up with them.
  absl::Status JoinRanks(const RunFacts& facts);
  // Blocks until what was given to a thread to publish is published.
  absl::Status Drain();
  // The chunk's gradients may be used, alone or in the node's sum. Whether they are complete on the
  // node then.
  absl::StatusOr<bool> Hand(ChunkId chunk, uint64_t step);
  void Ring();
  // Their gradients are complete now. On the publisher's thread, if there is one; uses nothing that
  // AwaitWeights changes.
  absl::Status PublishNow(absl::Span<const ChunkId> chunks, uint64_t step);
  absl::Status Say(const proto::RankMessage& message);
  // Blocks for the aggregator's next message. Errors: Unavailable (it is gone, the job stops, or
  // nothing came within `timeout`); AskInWaits'.
  absl::StatusOr<proto::AggregatorMessage> Hear(absl::Duration timeout);
  // Keeps what the message says of the job's nodes for who asks next. False: it says something
  // else.
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
  uint32_t published_ = 0;                 // chunks, in the step in hand
  std::deque<proto::ViewChange> changes_;  // heard while something else was waited for
  std::optional<proto::RankRing> ring_;    // likewise: the newest
  std::vector<proto::ViewChange> late_changes_;
  std::string nccl_id_;
  // With device: GPU, unless ranks exchange among themselves.
  std::shared_ptr<device::Device> device_;
  device::Stream* stream_ = nullptr;  // that gradients are computed in, or null
  std::unique_ptr<DevicePublisher> publisher_;
  std::unique_ptr<NodeSum> node_sum_;  // with node_sum: NCCL, in the publisher's place
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_AGGREGATOR_LINK_H_
