#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "proto/control.pb.h"
#include "proto/job.pb.h"
#include "proto/record.pb.h"
#include "server/coordinator/jobs/stored_job.pb.h"

namespace strata::server {

// The state of a node of a job. JobNode has the transitions.
enum class NodeState {
  kVacant,          // no daemon has it, and nobody waits for it
  kJoins,           // its processes start; no decided change includes it
  kReadyToJoin,     // its processes are ready; a change is to add it
  kStarts,          // participates; its processes start, or it waits for a worker to start them
  kWaitsForChange,  // its processes are ready, and run once a change of the nodes is installed
  kReady,           // its processes are ready; while the job trains: told to run
  kFinished,        // its processes have finished their part of the job
};

// One logical node of a job and the worker daemon that runs it. Its state changes only through the
// transitions below, each of which REQUIRES that it is legal.
class JobNode {
 public:
  // A node of a job that is about to start on `daemon`; empty: vacant.
  static JobNode Laid(uint32_t node, const proto::LogicalNode& logical, const std::string& daemon);
  // Restores a node after a restart of the coordinator; its daemon is not back yet. REQUIRES: the
  // job runs.
  static JobNode Restored(const proto::StoredJob& stored, int index);

  uint32_t node() const { return node_; }
  uint32_t first_rank() const { return first_rank_; }
  uint32_t ranks() const { return ranks_; }
  // Incremented each time its processes are started again.
  uint32_t incarnation() const { return incarnation_; }
  // Empty: vacant, or lost and waiting for another worker.
  const std::string& daemon() const { return daemon_; }
  const proto::NodeReady& info() const { return info_; }  // set once its processes are ready
  // Links of an all-reduce, once measured.
  const std::optional<proto::LinkMeasured>& link() const { return link_; }
  // The number of steps that its ranks made, once they have stopped; and the least number of steps
  // that its ranks have published.
  const std::optional<uint64_t>& steps_made() const { return steps_made_; }
  uint64_t steps() const { return steps_; }

  NodeState state() const { return state_; }
  bool absent() const { return state_ == NodeState::kVacant; }
  bool joins() const { return state_ == NodeState::kJoins || state_ == NodeState::kReadyToJoin; }
  // Returns whether it makes the job's steps, or will once it is restarted.
  bool takes_part() const { return !absent() && !joins(); }
  // While training: whether its newest incarnation has been told to run.
  bool ready() const { return state_ == NodeState::kReady || state_ == NodeState::kFinished; }
  bool waits_to_run() const {
    return state_ == NodeState::kReadyToJoin || state_ == NodeState::kWaitsForChange;
  }
  // Returns whether nobody waits for it any more; a vacant node counts as finished.
  bool finished() const { return absent() || state_ == NodeState::kFinished; }
  bool waits_for_worker() const { return daemon_.empty() && !absent(); }

  // Returns whether its processes replace others that died.
  bool replaced() const { return replaced_; }
  // The first step that it makes (0: present from the start), and the step before which it leaves.
  uint64_t joined_at() const { return joined_at_; }
  const std::optional<uint64_t>& leaves_at() const { return leaves_at_; }
  // The step in which its processes last exited by themselves.
  const std::optional<uint64_t>& died_at_step() const { return died_at_step_; }
  // Why an all-reduce continues without it, until a change of the nodes records that.
  const std::string& dropped() const { return dropped_; }
  // Workers to prefer and to avoid when it is restarted; empty: none.
  const std::string& takes_first() const { return takes_first_; }
  const std::string& takes_last() const { return takes_last_; }
  // Since when it waits for a worker, and why it has none.
  absl::Time waits_since() const { return waits_since_; }
  const std::string& waits_for() const { return waits_for_; }
  // False after a restart of the coordinator, until its daemon is back.
  bool present() const { return present_; }
  // Since when its daemon has been back without the job and without saying how the job ended there.
  absl::Time missing_since() const { return missing_since_; }

  // "worker w2 (node 1, ranks 2 to 3)"
  std::string Describe() const;
  // "node 1 (ranks 2 to 3)"
  std::string DescribeAlone() const;
  // Returns whether a message is about its newest processes. Older daemons send no incarnation,
  // which means the first.
  template <typename Message>
  bool IsMeant(const Message& message) const {
    return std::max(1u, message.incarnation()) == incarnation_;
  }
  bool HasRank(uint32_t rank) const { return rank >= first_rank_ && rank - first_rank_ < ranks_; }

  // ---- transitions ----

  void BeginToJoin(const std::string& daemon);    // kVacant -> kJoins
  void BeReadyToJoin();                           // kJoins -> kReadyToJoin
  void Join(uint64_t at);                         // kReadyToJoin -> kWaitsForChange
  void BeReady(const proto::NodeReady& message);  // kStarts -> kReady, before the job trains
  void WaitForChange();                           // kStarts -> kWaitsForChange
  void Run();                                     // kStarts, kWaitsForChange -> kReady
  void Finish();                                  // kReady -> kFinished
  // Its processes are lost; the next incarnation waits for a worker. From any participating state
  // but kFinished -> kStarts.
  void Lose(absl::Time now);
  // Nobody takes its place. Any but kFinished -> kVacant.
  void Vacate();

  // ---- other facts ----

  // A worker starts the processes of the node. REQUIRES: waits_for_worker().
  void BeginOn(const std::string& daemon);
  void WaitFor(const std::string& why) { waits_for_ = why; }
  void SetInfo(const proto::NodeReady& message) { info_ = message; }
  void SetLink(const proto::LinkMeasured& measured) { link_ = measured; }
  void SetStepsMade(uint64_t steps) { steps_made_ = steps; }
  void ObserveStep(uint64_t step) { steps_ = std::max(steps_, step); }
  void SetJoinedAt(uint64_t step) { joined_at_ = step; }
  void LeaveAt(uint64_t step) { leaves_at_ = step; }
  void SetDiedAt(uint64_t step) { died_at_step_ = step; }
  void SetDropped(const std::string& why) { dropped_ = why; }
  void Prefer(const std::string& worker) { takes_first_ = worker; }
  void Avoid(const std::string& worker) { takes_last_ = worker; }
  // Its daemon is back. missing_since: InfiniteFuture if it holds the job.
  void ComeBack(absl::Time missing_since);
  // See Membership::Excuse.
  void Excuse(absl::Duration gap, absl::Time now);

 private:
  // REQUIRES: the transition is legal.
  void Go(NodeState to);

  uint32_t node_ = 0;
  uint32_t first_rank_ = 0;
  uint32_t ranks_ = 0;
  uint32_t incarnation_ = 1;
  NodeState state_ = NodeState::kStarts;
  std::string daemon_;
  bool replaced_ = false;
  bool present_ = true;
  proto::NodeReady info_;
  std::optional<proto::LinkMeasured> link_;
  std::optional<uint64_t> steps_made_;
  uint64_t steps_ = 0;
  uint64_t joined_at_ = 0;
  std::optional<uint64_t> leaves_at_;
  std::optional<uint64_t> died_at_step_;
  std::string dropped_;
  std::string takes_first_, takes_last_;
  absl::Time waits_since_ = absl::InfiniteFuture();
  std::string waits_for_;
  absl::Time missing_since_ = absl::InfiniteFuture();
};

// Checks that nodes make the same number of steps, as far as is known. Ignores nodes that leave
// before the last step or would only join after it. Errors: InvalidArgument: a node that has
// finished made a different number of steps than another, or another continues; names a rank of
// each.
absl::Status CheckEqualSteps(absl::Span<const JobNode> nodes);

// A server of a job.
struct JobServer {
  std::string daemon;
  std::vector<uint32_t> job_shards;  // the job's index of each of its shards; kNoShard: unused
  std::vector<proto::OwnBackup> backups;
  bool installed = false;
  bool present = true;
};

// Checks that the nodes' answers describe the same training. REQUIRES: nodes, all ready. Errors:
// InvalidArgument naming the nodes that differ, the tensor and the field.
absl::Status CheckNodesAgree(absl::Span<const JobNode> nodes);

// Checks that a replacement node is about to train the same as the job's other nodes.
// `total_steps`: see StoredJob. REQUIRES: it is ready. Errors: InvalidArgument naming the node, the
// tensor and the field.
absl::Status CheckTakesPlace(const proto::JobRecord& record, uint64_t total_steps,
                             const JobNode& node);

// Checks that the nodes' answers fit the job's settings, which its program has completed. Errors:
// InvalidArgument naming the tensor and the field, or what the job's schedule lacks.
absl::Status CheckFitsJob(const proto::Job& job, const JobNode& node);

// Checks the NCCL unique id, which the first node supplies. Errors: InvalidArgument.
absl::Status CheckNcclId(const JobNode& node, const std::string& id);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_NODE_H_
