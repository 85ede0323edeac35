#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_COORDINATOR_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_COORDINATOR_H_

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/core/coordinator_core.h"
#include "tests/sim/check/causes.h"
#include "tests/sim/check/control_checker.h"
#include "tests/sim/check/scenario.h"
#include "tests/sim/cluster/sim_daemon.h"

namespace strata::sim {

class World;

// The coordinator's host: its process with the real core, which may pause, end and restart; its
// store, in memory; and the connections of the daemons that have reached it.
class SimCoordinator final : public server::CoordinatorActions {
 public:
  explicit SimCoordinator(World* world);

  // ---- daemons ----

  // Returns null if nobody listens. `client` must hang up before it is destroyed.
  std::shared_ptr<ControlStream> Connect(ControlStream::Client* client);
  void Say(const std::shared_ptr<ControlStream>& line, proto::DaemonMessage message);
  // The client has ended. The coordinator notices this much later; infinite: only by silence.
  void HangUp(std::shared_ptr<ControlStream> line, absl::Duration noticed_after);

  // ---- users ----

  // Errors besides the core's: Unavailable (nobody answers).
  absl::StatusOr<JobId> Submit(const proto::Job& job);
  absl::Status Cancel(uint32_t job);
  // The same. NotFound: unknown daemon.
  absl::Status Drain(const std::string& daemon, bool undo);

  // ---- what may happen to it ----

  // The process dies; another one begins after `down`.
  void Restart(absl::Duration down);
  // Pauses the process; messages wait.
  void StandStill(absl::Duration pause);
  // What the daemon sends on its present line arrives only after the pause. False: there is no such
  // line.
  bool Silence(const std::string& daemon, absl::Duration pause);

  // The daemon's line breaks.
  void BreakLine(const std::string& daemon);

  // Returns the job as it was saved last; null: it has been forgotten.
  const proto::StoredJob* FindStored(uint32_t job) const {
    const auto found = stored_.find(job);
    return found == stored_.end() ? nullptr : &found->second;
  }

  // Checks jobs that have ended. Call it once, at the end of the run.
  void Finish();

  void Send(server::SessionId session, const proto::CoordinatorMessage& message) override;
  void Close(server::SessionId session) override;
  absl::Status Persist(const proto::StoredJob& job) override;
  absl::Status PersistDraining(const std::vector<std::string>& daemons) override;
  absl::Status PersistSeen(const std::vector<server::SeenRegistrations::Entry>& seen) override;
  void Forget(JobId job) override;
  void Notify(JobId job, const proto::FollowEvent& event) override;
  void Warn(const std::string&) override {}
  // Jobs in this world write no checkpoints.
  void FindCheckpoint(const server::CheckpointQuery&) override { std::abort(); }
  void KeepCheckpoint(const server::CheckpointToKeep&) override { std::abort(); }

 private:
  using Line = std::shared_ptr<ControlStream>;

  void Start();
  void Beat();
  // A daemon's report of its state arrives, perhaps after a while.
  void TakeHeartbeat(const std::shared_ptr<ControlStream>& line,
                     const proto::DaemonMessage& message);
  // Records what users see of a job.
  void TakeStatus(uint32_t job, const proto::JobStatus& status);
  // The process may be about to end by this chance: nothing it still does leaves it.
  void MaybeDieAtSave(Rare rare);
  // Notes what has happened to a shard's next backup between two saves.
  void NoteNext(const Causes::Home& was, const Causes::Home& is);
  // Notes what has happened to the job's nodes between two saves.
  void NoteChanges(const proto::StoredJob& before, const proto::StoredJob& job);
  // The same for an all-reduce that drops dead nodes.
  void NoteLosses(const proto::StoredJob& before, const proto::StoredJob& job);
  // The present process calls `what`, once it is not paused.
  void Do(std::function<void()> what);
  // The present process receives a message.
  void Take(const Line& line, const proto::DaemonMessage& message);
  void MaybeBreak(const Line& line);
  void Break(const Line& line);
  void Notice(const Line& line, absl::Duration after);
  // A Register that was in flight earlier is replayed: now, and once more later.
  void RepeatRegister(const proto::Register& registration);
  void SayCopy(const proto::Register& registration);
  // Returns true if the present process can know it.
  bool IsSaved(const proto::Register& registration) const;
  absl::Duration InOrder(absl::Time* last);

  World* const world_;
  ControlChecker checker_;
  uint64_t process_ = 0;
  std::unique_ptr<server::CoordinatorCore> core_;  // null: no process
  bool stands_still_ = false;
  bool dies_ = false;  // now
  uint32_t deaths_at_save_ = 0;
  std::vector<std::function<void()>> waiting_;  // until the process continues
  uint64_t next_session_ = 1;
  std::map<server::SessionId, Line> lines_;            // known to the process
  std::map<std::string, absl::Time> break_no_sooner_;  // by daemon
  server::SessionId copy_;                             // of a replayed Register
  bool copy_rejected_ = false;
  // The store.
  std::map<uint32_t, proto::StoredJob> stored_;
  std::vector<server::SeenRegistrations::Entry> seen_;
  std::vector<std::string> draining_;
  uint32_t next_job_ = 1;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_COORDINATOR_H_
