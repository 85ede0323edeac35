#ifndef STRATA_TESTS_SIM_CHECK_CHECKER_H_
#define STRATA_TESTS_SIM_CHECK_CHECKER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/job/arena.h"
#include "common/job/views.h"
#include "common/transport/endpoint.h"
#include "common/wire/frame.h"
#include "proto/record.pb.h"
#include "server/shard/shard_core.h"
#include "tests/sim/check/codec_model.h"
#include "tests/sim/check/layer_model.h"
#include "tests/sim/check/node_checker.h"
#include "tests/sim/check/payload.h"
#include "tests/sim/check/reference_chunk.h"
#include "tests/sim/check/scenario.h"
#include "tests/sim/check/shard_copies.h"

namespace strata::sim {

// The rules that follow from a job's plan and record, for JobChecker.
class JobRules {
 protected:
  JobRules(const JobPlan& plan, const proto::JobRecord& record)
      : plan_(plan), record_(record), consistency_(record.job().consistency()) {}
  ~JobRules() = default;

  bool gated() const { return !consistency_.has_async(); }
  bool has_quorum() const { return consistency_.lazy().has_quorum(); }
  bool per_clock() const {
    return gated() &&
           (!consistency_.has_lazy() || consistency_.lazy().apply() == proto::Lazy::PER_CLOCK);
  }
  uint64_t bound() const { return consistency_.has_lazy() ? consistency_.lazy().staleness() : 0; }
  // Returns true if the weights after each clock follow from its nodes.
  bool is_exact() const { return gated() && bound() == 0 && per_clock() && !has_quorum(); }
  // Returns true if a copy of a chunk may lack pushes of incomplete clocks.
  bool MayLeaveOpenClocksOut() const { return per_clock() && bound() == 0 && !has_quorum(); }
  bool keeps_past() const { return plan_.replicas > 0 || plan_.is_elastic(); }

  const JobPlan plan_;
  const proto::JobRecord record_;
  const proto::Consistency consistency_;
};

// The expected state of one chunk.
struct CheckedChunk {
  uint32_t elements = 0, shard = 0, ledger = 0;
  uint32_t line = 0;  // index of the node's connection to the shard that carries it
  std::unique_ptr<ReferenceChunk> reference;
  std::vector<uint64_t> received;        // by node
  std::vector<uint32_t> pushed_by;       // by node: incarnation of its last push
  std::vector<uint64_t> due;             // by node: pushes whose answers have become due
  std::vector<bool> retired;             // by node
  std::map<uint32_t, uint64_t> cuts;     // by node: clock of a pending CUT
  std::vector<uint64_t> version_told;    // by node
  std::vector<std::set<uint64_t>> told;  // by node and round: hashes of all answers
  uint64_t first_hash = 0;               // of the first weights
  std::vector<float> marks;              // expected value of each ledger element once it is applied
  uint64_t version = 0;
  const std::byte* checked = nullptr;  // weights of checked_version that were compared
  uint64_t checked_version = 0, checked_hash = 0;
  size_t held = 0;
  std::map<uint64_t, uint64_t> hash_of_clock;  // hash of the answer to each clock
  std::optional<uint64_t> final_hash;
  // Only in jobs with second copies:
  std::map<uint64_t, PastWeights> past;  // by version
  // Pushes of incomplete clocks, if a copy may lack them.
  std::deque<ShardCopies::Awaited> open;
  // By node: pushes that the primary has not received itself; it may not know their contents.
  std::vector<uint64_t> taken_over;
  bool is_followed = false;  // the model advances with the backup
  bool is_filled = false;    // the backup has it
  uint64_t copy_parts = 0;   // frames of its copy that the backup has yet to receive
};

// A shard's state for one of a node's connections of the job.
struct CheckedPeer {
  uint32_t incarnation = 0;  // newest
  // The connection of the last frame accepted from the node. HELLO does not count, because anybody
  // can repeat it.
  std::optional<transport::ConnectionId> speaks_on;
  // Its open connections, ordered by their last HELLO or new push.
  std::vector<transport::ConnectionId> open;

  void MoveToBack(transport::ConnectionId connection);
};

// The obligations of one process of a node.
struct CheckedProcess {
  uint32_t incarnation = 0;
  uint64_t first_clock = 0;
  std::vector<uint64_t> pushed, answered;  // by chunk
  std::vector<uint32_t> unanswered;        // by shard
  std::set<uint32_t> finals;
};

// Checks one job with servers against the promises of docs/semantics.md, with every frame that a
// shard accepts and everything that a node takes over. Counts itself what the shards have really
// received: no verdict depends on a client's claim or a core's state. A violation is one line that
// begins with the name of the invariant.
class JobChecker final : public NodeChecker, private JobRules {
 public:
  // `goes_on`: nobody has a wrong result yet, and the rest of the run tells more.
  using Fail = std::function<void(const std::string& violation, bool goes_on)>;

  // `record` with layout and placement.
  JobChecker(const JobPlan& plan, const proto::JobRecord& record,
             worker::PushWindow::Reserve reserve, Fail fail);

  // A process holds a shard, or the second copy of one.
  void OnInstalled(const Copy& copy, bool is_backup);
  // A process holds an empty second copy, to be filled in this generation.
  void OnEmptyInstalled(const Copy& copy, uint32_t generation);
  // A shard's primary has been told the address of the copy that it must fill.
  void OnFill(const Copy& copy, uint32_t generation);
  // The primary has been told that its second copy is complete.
  void OnWhole(const Copy& copy);
  // A copy has been told to fill the next backup, or none any more, or that this is the backup now.
  void OnNext(const Copy& copy, uint32_t generation);
  void OnNextDropped(const Copy& copy);
  void OnNextTaken(const Copy& copy);
  bool IsNextWhole(const Copy& copy);
  // Returns true if the shard's second copy is complete.
  bool IsFilled(uint32_t shard) const;
  bool IsPrimary(const Copy& copy) const { return copies_[copy.shard].primary == copy.process; }
  // A copy has received the frame of a node of this job and requests `actions`. `held`: the number
  // of gradient sums that it now holds for the frame's chunk.
  void OnShardFrame(const Copy& copy, transport::ConnectionId connection, const wire::Frame& frame,
                    absl::Time now, const std::vector<server::ShardAction>& actions, size_t held);
  // It has been told the time, and requests `actions`, also for other jobs.
  void OnShardTime(const Copy& copy, absl::Time now,
                   const std::vector<server::ShardAction>& actions);
  // A copy has applied a change of the shard's primary.
  void OnChange(const Copy& copy, const wire::Frame& change, absl::Time now,
                const std::vector<server::ShardAction>& actions);
  // A change of the nodes that take part from a clock on has been decided.
  void OnChangeDecided(const proto::ViewChange& change);
  // It is the only copy from now on, and requests `actions`.
  void OnAlone(const Copy& copy, const std::vector<server::ShardAction>& actions);
  // It sends something.
  void OnSent(const Copy& copy, const server::ShardAction& said);
  // Returns true if this push is the newest one accepted here from this node and process.
  bool IsNewest(const wire::Header& push) const;
  // A copy has been told that a connection, of this job or another one, has ended.
  void OnDisconnected(const Copy& copy, transport::ConnectionId connection);
  // The job is about to leave a shard that has never moved.
  void OnRemove(const Copy& copy, const server::ShardCounters& counters);

  void OnNodeStart(uint32_t node, uint32_t incarnation) override;
  void OnFirstClock(uint32_t node, uint32_t incarnation, uint64_t clock) override;
  void OnBegin(uint32_t node, uint32_t incarnation, ChunkId chunk,
               const std::vector<float>& weights) override;
  void OnPush(uint32_t node, ChunkId chunk, uint64_t clock) override;
  void OnSum(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock, uint32_t samples,
             absl::Span<const float> sum) override;
  void OnTaken(uint32_t node, uint32_t incarnation, ChunkId chunk, uint64_t clock,
               absl::Span<const float> weights) override;
  void OnWeights(uint32_t node, ChunkId chunk, uint64_t clock,
                 absl::Span<const float> weights) override;
  void OnFinalWeights(uint32_t node, ChunkId chunk, const Bytes& weights) override;
  void OnFinished() override;
  uint64_t pushes() const override { return pushes_; }
  uint64_t ModelHash() const override;
  bool is_reproducible() const override;

 private:
  using Chunk = CheckedChunk;
  using Peer = CheckedPeer;
  using Process = CheckedProcess;
  static constexpr uint64_t kAllRetired = UINT64_MAX;
  size_t TellingOf(uint32_t node, uint64_t clock) const { return node * layers_.rounds() + clock; }
  static uint64_t Hash(const Bytes& bytes);
  static uint64_t Hash(absl::Span<const float> floats);
  void CheckPlacement();
  void Violate(const std::string& invariant, const std::string& what, bool goes_on = false);
  void CheckSender(uint32_t shard, transport::ConnectionId connection, const wire::Frame& frame);
  // Returns the peer at the connection that carries the chunk.
  Peer& PeerOf(uint32_t node, uint32_t chunk) {
    return peers_[chunks_[chunk].shard][node][chunks_[chunk].line];
  }
  bool IsOwed(const Peer& peer) const;
  void CheckSent(wire::Op op, uint32_t node, uint32_t chunk, uint64_t clock,
                 const std::vector<server::ShardAction>& actions);
  void CheckReceiver(const server::ShardAction& answer,
                     const std::vector<server::ShardAction>& actions);
  void TakeInit(const wire::Frame& frame, bool refused);
  bool TakePush(const wire::Frame& frame, bool refused, absl::Time now,
                const std::vector<server::ShardAction>& actions);
  void TakeAgain(const wire::Header& push, const std::vector<server::ShardAction>& actions);
  void TakeCut(const wire::Header& cut, const std::vector<server::ShardAction>& actions);
  // For the chunks of the shard that the backup follows, or for the others.
  void TakeRetire(uint32_t shard, const wire::Frame& frame, absl::Time now,
                  const std::vector<server::ShardAction>& actions, bool followed);
  void Mark(Chunk* chunk, const wire::Header& push);
  // Checks the rate that a push carries, and returns it.
  float CheckedRate(const wire::Header& push);
  void TakeTime(uint32_t chunk, absl::Time now, const std::vector<server::ShardAction>& actions);
  // Queues what a primary has received until its backup has it, or there is no backup any more.
  void AwaitBackup(uint32_t shard, transport::ConnectionId connection, const wire::Frame& frame,
                   bool refused, absl::Time now, size_t held);
  void AwaitBackup(uint32_t shard, absl::Time now);
  bool IsFollowed(const Chunk& chunk) const {
    return chunk.is_followed && copies_[chunk.shard].has_backup;
  }
  void TakeChange(uint32_t shard, const wire::Frame& change, absl::Time at);
  // The backup has confirmed this many changes.
  void OnConfirmed(uint32_t shard, uint64_t received);
  void TakeConfirmed(uint32_t shard);
  void BecomePrimary(const Copy& copy);
  std::optional<NextCopy>* NextOf(const Copy& copy);
  // Makes the copy that the primary, or the backup that replaces it, also fills the backup: the
  // coordinator has told the copy, and the one that fills it hears so later, or never.
  void BecomeBackup(const Copy& copy);
  bool SaysNextCopy(const Copy& copy, const wire::Frame& head);
  void OnNextChange(uint32_t shard, const wire::Frame& change, std::optional<NextCopy>& next);
  // The next backup replaces the backup, or the backup replaces the primary and is replaced itself.
  void GoOnWith(uint32_t shard, NextCopy* filled);
  void TakeOverWith(const Copy& copy, NextCopy* filled);
  // Drops what is queued for a backup: nobody follows any more.
  void EndFollowing(uint32_t shard);
  // The primary has sent the first part of a copy of the chunk.
  void OnCopySent(const wire::Frame& head);
  void TakeCopied(const wire::Frame& part);
  // Removes a node's pushes from this clock on from the model: they wait for the backup.
  void TakeBack(Chunk* chunk, uint32_t node, uint64_t clock);
  void TakeAwaited(uint32_t shard);
  void TakeUnanswered(uint32_t shard, const wire::Frame& frame, absl::Time at);
  void Remember(uint32_t shard);
  void Remember(Chunk* chunk);
  // Checks the initial state given to a process that joins the job or replaces another one.
  void CheckPulled(const wire::Frame& pulled);
  void CheckTakesPart(const wire::Header& push);
  void CheckEndOfElastic();
  void CheckPlainSum(uint32_t chunk);
  bool IsOfOpenClock(const wire::Header& answer, const PastWeights& past) const;
  void CheckReported(const wire::Frame& answer, bool is_primary);
  void CheckDue(uint32_t chunk, const std::vector<ReferenceChunk::Due>& due,
                const wire::Header& cause, const std::vector<server::ShardAction>& actions);
  void CheckAnswers(const std::vector<server::ShardAction>& actions);
  void CheckAnswer(const wire::Frame& answer);
  void CheckBound(const Chunk& chunk, const wire::Header& answer);
  void CheckWeights(Chunk* chunk, const wire::Frame& answer);
  void CheckEncoded(Chunk* chunk, const wire::Frame& answer);
  void CheckHeld(uint32_t shard, Chunk* chunk, size_t held);
  void CheckLedger(const Chunk& chunk, const wire::Frame& answer);
  // Returns the least number of pushes of nodes that have not retired there; kAllRetired if all
  // have.
  uint64_t Gate(const Chunk& chunk) const;

  const Payload payload_;
  LayerModel layers_;
  CodecModel codecs_;
  const worker::PushWindow::Reserve reserve_;
  const Fail fail_;
  const uint32_t nodes_;  // places
  Views views_;           // as they are decided
  std::vector<Chunk> chunks_;
  std::vector<std::vector<bool>> retired_;  // by shard and node, as nodes may be told
  std::vector<ShardCopies> copies_;         // by shard
  bool nobody_is_answered_ = false;         // where a backup does what its primary has done
  // By shard, node and connection.
  std::vector<std::vector<std::vector<Peer>>> peers_;
  std::vector<size_t> held_, chunks_on_;  // by shard
  std::vector<Process> processes_;        // by node
  uint32_t restarts_ = 0;
  uint64_t pushes_ = 0;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_CHECKER_H_
