#ifndef STRATA_WORKER_EXCHANGE_SERVER_PARAMETER_SERVER_CORE_H_
#define STRATA_WORKER_EXCHANGE_SERVER_PARAMETER_SERVER_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/job/arena.h"
#include "kernels/kernels.h"
#include "proto/processes.pb.h"
#include "proto/record.pb.h"
#include "worker/exchange/core/exchange_core.h"
#include "worker/exchange/core/push_window.h"
#include "worker/exchange/server/push_encoder.h"
#include "worker/exchange/server/shard_link.h"

namespace strata::worker {

// One node's side of the parameter-server exchange: INIT of every chunk, then PUSHPULL as chunks
// become ready, finally RETIRE and CUT. Delivers exactly once per (chunk, clock) whatever
// connections lose, repeat or reorder.
//
// In a job that resumes from a checkpoint the shards report how many pushes of the node they have
// of each chunk. The node begins with the least of these clocks. In modes that apply pushes on
// arrival, other chunks may already contain some of its next pushes; these are repeated without
// effect.
//
// A process that replaces one that died begins with the least clock for which some chunk lacks the
// node's push, and with the weights with which this clock began, if the job's mode gives all nodes
// the same; otherwise with the newest. Repeated pushes count once. The first process of a node that
// joins the job does the same; shards count the pushes of earlier clocks as made.
//
// A pure state machine: events in, actions out; time comes with the events. Errors end the job and
// name the node, the server's address and the chunk.
class ParameterServerCore final : public ExchangeCore {
 public:
  // `kernels` outlives it. Errors: InvalidArgument naming the field of the placement.
  static absl::StatusOr<std::unique_ptr<ParameterServerCore>> Create(
      const CoreOptions& options, const kernels::Kernels& kernels);

  absl::Status OnLinkEvent(const LinkEvent& event, absl::Time now, CoreActions* actions) override;
  absl::Status Submit(ChunkId chunk, absl::Time now, CoreActions* actions) override;
  absl::Status Finish(uint64_t clocks, absl::Time now, CoreActions* actions) override;
  absl::Status OnPayload(const NodeAction& asked, Bytes payload, const StepFacts& step,
                         absl::Time now, CoreActions* actions) override;
  absl::Time deadline() const override;
  Phase phase() const override { return phase_; }
  uint64_t first_clock() const override { return first_clock_; }
  void AddToImage(ChunkId chunk, NodeChunkImage* image) override {
    if (encoder_->keeps_state()) image->push = encoder_->Image(chunk);
  }
  absl::Status Restore(ChunkId chunk, const NodeChunkImage& image) override {
    if (!encoder_->keeps_state()) {
      return image.push ? absl::InvalidArgumentError("what pushes have left out, but none are kept")
                        : absl::OkStatus();
    }
    if (!image.push) return absl::InvalidArgumentError("nothing of what pushes have left out");
    return encoder_->Restore(chunk, *image.push);
  }
  void OnShardMoved(const ShardMove& move, absl::Time now, CoreActions* actions) override;
  void LeaveAt(uint64_t clock) override { leaves_at_ = clock; }
  const ExchangeCounters& counters() const override { return counters_; }
  size_t memory_bytes() const override { return encoder_->memory_bytes(); }
  // Adds the servers that hold a chunk.
  void AddActivity(absl::Time now, proto::NodeActivity* activity) const override;
  const std::string& address(LinkId link) const override {
    return ShardBehind(link).links[0].address();
  }

 private:
  struct Chunk {
    uint32_t shard = 0;
    uint32_t link = 0;       // which of the shard's links
    uint64_t submitted = 0;  // clocks
    uint64_t answered = 0;   // clocks
    uint64_t version = 0;    // of the current weights
    uint64_t received = 0;   // pushes that the shard had of the node, including a previous
                             // process's
    uint64_t base = 0;       // with a quorum: the round of the last submitted step
    uint64_t copy = 0;       // number of answers in them, if answers are encoded
  };
  struct Shard {
    std::vector<ShardLink> links;  // one per connection
    std::vector<ChunkId> chunks;
    PushWindow window;
    uint32_t next = 0;       // in `chunks`: the next to INIT or CUT
    uint32_t confirmed = 0;  // in `chunks`: number with INIT or CUT answered
    bool retiring = false;
  };

  ParameterServerCore(const CoreOptions& options, ChunkMap map, const kernels::Kernels& kernels,
                      std::unique_ptr<PushEncoder> encoder);

  absl::Status Start(absl::Time now, CoreActions* actions);
  absl::Status OnFrame(transport::ConnectionId connection, const wire::Frame& frame, absl::Time now,
                       CoreActions* actions);
  absl::Status OnTime(absl::Time now, WireActions* actions);
  struct LinkOwner {
    Shard* shard = nullptr;
    ShardLink* link = nullptr;
  };
  // Link i of shard s is LinkId(i * shards + s).
  const Shard& ShardBehind(LinkId link) const { return shards_[link.value() % shards_.size()]; }
  ShardLink* LinkTo(LinkId link) {
    return &shards_[link.value() % shards_.size()].links[link.value() / shards_.size()];
  }
  ShardLink* LinkTo(const Chunk& chunk) { return &shards_[chunk.shard].links[chunk.link]; }
  // Returns null pointers if no link owns the connection.
  LinkOwner Find(transport::ConnectionId connection);
  // Offers first weights of the next chunks, or, if the node takes others, requests them.
  void Seed(Shard* shard, absl::Time now, CoreActions* actions);
  void OfferOrAsk(ChunkId chunk, absl::Time now, CoreActions* actions);
  // The same for a replacement process: it asks for its progress on the next chunks and, once it
  // knows the clock that it begins with, for their weights.
  void Pull(Shard* shard, absl::Time now, CoreActions* actions);
  void PullOf(ChunkId chunk, absl::Time now, CoreActions* actions);
  absl::Status OnPulled(Shard* shard, const wire::Header& asked, const wire::Frame& frame,
                        absl::Time now, CoreActions* actions);
  void OnAllPulled(absl::Time now, CoreActions* actions);
  void Push(Shard* shard, CoreActions* actions);
  void MaybeRetire(Shard* shard, absl::Time now, CoreActions* actions);
  void Cut(Shard* shard, absl::Time now, CoreActions* actions);
  // Returns whether an encoded answer adds to a copy of the weights that the node no longer has.
  bool IsForStaleCopy(const wire::Header& answer) const;
  absl::Status OnAnswer(Shard* shard, const wire::Header& asked, const wire::Frame& frame,
                        absl::Time now, CoreActions* actions);
  absl::Status OnInitOk(Shard* shard, const wire::Frame& frame, absl::Time now,
                        CoreActions* actions);
  // All shards have reported what they have. Errors: FindResumeClock's.
  absl::Status ResumeClocks();
  absl::Status OnPushAnswer(Shard* shard, const wire::Header& asked, const wire::Frame& frame,
                            absl::Time now, CoreActions* actions);
  void OnCutAnswer(Shard* shard, const wire::Frame& frame, absl::Time now, CoreActions* actions);
  // A shard has nothing more for the node. The last one ends the exchange.
  void OnShardDone(CoreActions* actions);
  // Returns the round of a quorum that the node's step belongs to, the same for all chunks: the
  // node's least version over its chunks. A step that the previous process has partly pushed
  // belongs to round 0, which is always too late.
  uint64_t JoinRound(uint64_t step);
  // Closes all connections.
  void Close(CoreActions* actions);
  void CountBytes();

  const CoreOptions options_;
  const ChunkMap map_;
  const kernels::Kernels& kernels_;
  const std::unique_ptr<PushEncoder> encoder_;
  const wire::Codec answer_codec_;
  const uint32_t window_;
  const bool has_quorum_;
  const bool takes_first_weights_;  // instead of its own
  const bool rejoins_;
  Phase phase_ = Phase::kSeeding;
  std::optional<uint64_t> rejoin_clock_;  // absent: not known yet
  uint64_t first_clock_ = 0;
  uint64_t clocks_ = 0;                // kFinishing: pushes of every chunk
  std::optional<uint64_t> leaves_at_;  // the clock before which it leaves; absent: it stays to the
                                       // job's end
  uint64_t steps_begun_ = 0, round_ = 0;
  uint32_t settled_ = 0;  // shards that are done with the phase
  std::vector<Chunk> chunks_;
  std::vector<Shard> shards_;
  ExchangeCounters counters_;
};

// Returns the clock with which a node begins in a job that resumes from a checkpoint: the least of
// those that its chunks resume from, or the checkpoint's if nodes or ranks keep state: pushes that
// a chunk already contains are repeated, and not applied. `received`: by chunk, the node's pushes
// in the checkpoint. They may differ if pushes are applied on arrival, or by a quorum. Errors:
// FailedPrecondition: they may not; names two chunks, their clocks and servers.
absl::StatusOr<uint64_t> FindResumeClock(const proto::JobRecord& record,
                                         absl::Span<const uint64_t> received);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_SERVER_PARAMETER_SERVER_CORE_H_
