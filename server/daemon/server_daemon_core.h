#ifndef STRATA_SERVER_DAEMON_SERVER_DAEMON_CORE_H_
#define STRATA_SERVER_DAEMON_SERVER_DAEMON_CORE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "common/os/limits.h"
#include "proto/control.pb.h"
#include "server/daemon/job_admission.h"
#include "server/shard/shard_core.h"
#include "server/shard/shard_report.h"

namespace strata::server {

// The actions of a ServerDaemonCore. The daemon's threads are numbered from 0, and each has a
// ShardCore. A call that names a thread does what that core's method does, and returns its errors.
// Additional errors: FailedPrecondition (the thread has stopped).
class ServerDaemonActions {
 public:
  virtual ~ServerDaemonActions() = default;

  // Tells the coordinator. May be called from any thread.
  virtual void Send(proto::DaemonMessage message) = 0;
  // Returns what a heartbeat says now.
  virtual proto::Heartbeat MakeHeartbeat() = 0;

  virtual absl::Status BeginInstall(size_t thread, const proto::JobRecord& record, ShardId shard,
                                    ShardCopy copy) = 0;
  // May be called from any thread.
  virtual absl::Status EndInstall(size_t thread, JobId job) = 0;
  // Gives the job's copies here, whose install has begun, the images of the checkpoint that it
  // resumes. Once that is done it calls EndInstall, and then TellInstalled with how all that went;
  // neither after RemoveJob.
  virtual void Load(const proto::InstallJob& install) = 0;
  virtual absl::Status MoveShard(size_t thread, const proto::MoveShard& move) = 0;
  virtual absl::Status FillNext(size_t thread, const proto::FillNext& fill) = 0;
  virtual absl::Status ChangeView(size_t thread, const proto::ViewChange& change) = 0;
  virtual absl::StatusOr<bool> RemoveShard(size_t thread, JobId job, ShardId shard,
                                           uint32_t generation) = 0;
  // Forgets the job on all threads, and what else is here of it.
  virtual void RemoveJob(JobId job) = 0;
};

// A copy of a job's shard that one of the daemon's threads is to hold.
struct OwnCopy {
  size_t thread = 0;
  ShardId shard;
  ShardCopy copy = ShardCopy::kPrimary;
};
// Returns the job's copies on this server, the primaries first.
std::vector<OwnCopy> CopiesOf(const proto::InstallJob& install);

// Returns what a heartbeat says of a shard's backup.
proto::BackupReport ReportOf(const BackupState& state, absl::Time now);

// The commands of the coordinator to a server: which of them still count, which thread does what,
// and the answers. A pure state machine: the simulator runs it, too.
//
// Threads: one, except where a method says otherwise.
class ServerDaemonCore {
 public:
  // `threads`: how many the daemon has. `actions` outlives the core.
  ServerDaemonCore(size_t threads, const ServerLimits& limits, ServerDaemonActions* actions)
      : threads_(threads), admission_(limits), actions_(actions) {}

  // Takes a command; others than those to servers are ignored.
  void OnMessage(const proto::CoordinatorMessage& message);

  // Lets nodes find the job here, once its install has begun and its images are there. May be
  // called from any thread. Errors: as ShardCore::EndInstall.
  absl::Status EndInstall(const proto::InstallJob& install);
  // Answers InstallJob. May be called from any thread.
  void TellInstalled(const proto::InstallJob& install, const absl::Status& status);

  // Returns whether the daemon has copies of the job's shards.
  bool Holds(JobId job) const { return attempts_.contains(job); }
  std::vector<uint32_t> RunningJobs() const;
  const JobAdmission& admission() const { return admission_; }

 private:
  void Install(const proto::InstallJob& install);
  // Admits the job if there is room for it. Errors: as JobAdmission::Admit.
  absl::Status Admit(const proto::InstallJob& install);
  void InstallBackup(const proto::InstallBackup& install);
  absl::Status TakeBackup(const proto::InstallBackup& install);
  void MoveShard(const proto::MoveShard& move);
  void FillNext(const proto::FillNext& fill);
  void RemoveShard(const proto::RemoveShard& remove);
  // Installs the change on all copies of the job's shards here, and reports the outcome.
  void ChangeView(const proto::ViewChange& change);

  // Returns whether this attempt of the job is here.
  bool IsHere(uint32_t job, uint32_t attempt) const;
  // Removes an earlier attempt of the job. Returns false if a later one is here.
  bool MakeWay(const proto::JobRecord& record);
  // Asks one thread after the other until one has the shard. Errors: of that one; NotFound.
  absl::Status AskHolder(absl::FunctionRef<absl::Status(size_t thread)> ask);
  // Drops copies of a shard that are older than the generation, and the job with its last copy.
  void Forget(JobId job, ShardId shard, uint32_t generation);
  void Remove(JobId job);

  const size_t threads_;
  std::map<JobId, uint32_t> attempts_;  // of the jobs that are here
  JobAdmission admission_;
  ServerDaemonActions* const actions_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_DAEMON_SERVER_DAEMON_CORE_H_
