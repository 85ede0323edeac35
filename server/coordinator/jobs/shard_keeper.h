#ifndef STRATA_SERVER_COORDINATOR_JOBS_SHARD_KEEPER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_SHARD_KEEPER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_life.h"
#include "server/coordinator/jobs/job_placer.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/placement/shard_homes.h"

namespace strata::server {

// Where the shards of running jobs lie: second copies that take over, are made again or do not
// follow, and servers that are drained. Each change is saved before anybody is told. Owns when
// copies may be made and where, by job; what is stored of a shard is the entry's.
class ShardKeeper {
 public:
  struct Options {
    // How long the backup of a shard may keep nodes waiting before the shard continues without it.
    absl::Duration backup_patience = absl::Seconds(3);
    // The same of one that is being filled, whose chunks may be large.
    absl::Duration fill_patience = absl::Seconds(10);
    // Between the loss of a copy and the next try to have another one.
    absl::Duration backup_pause = absl::Seconds(1);
    // For how long a server is not asked again for copies that it has refused or not followed.
    absl::Duration passed_over_for = absl::Seconds(30);
    // Copies that one server fills, or has filled, at once for a server that is being drained.
    uint32_t fills_per_server = 4;
  };
  // All outlive it.
  ShardKeeper(const Options& options, const Membership* membership, const JobPlacer* placer,
              DaemonCommands* commands, JobAnnouncer* announcer, JobLife* life)
      : options_(options),
        membership_(membership),
        placer_(placer),
        commands_(commands),
        announcer_(announcer),
        life_(life) {}

  // The servers of a job that runs after a restart of the coordinator are on their way back.
  void Restore(JobId job, absl::Time now) {
    jobs_[job].next_backup_at = now + options_.backup_pause;
  }
  // The server is a new process, and may be asked for copies again.
  void Forgive(const std::string& server, JobId job) { jobs_[job].passed_over.erase(server); }
  // Why shards of the job stay on a server that is drained; empty: they do not.
  std::string WhyStays(const std::string& server, JobId job) const;
  void ForgetJob(JobId job) { jobs_.erase(job); }

  // A server is gone for good, for `reason`, which names it: other copies of its shards take over.
  void OnServerLost(std::string name, const std::string& reason, JobEntry* entry, absl::Time now);
  // Says again to a daemon that is back where shards lie that have moved.
  void TellMovedAgain(const std::string& daemon, const JobEntry& entry);
  // Primaries, and servers that fill the next backup, report the copies that follow them.
  void OnBackups(const std::string& daemon, const proto::JobCounters& counters, JobEntry* entry,
                 absl::Time now);
  void OnBackupInstalled(const std::string& daemon, const proto::BackupInstalled& message,
                         JobEntry* entry, absl::Time now);
  void OnShardNotMoved(const std::string& daemon, const proto::ShardNotMoved& message,
                       JobEntry* entry, absl::Time now);

  // Has second copies made where they lack.
  void AddBackups(JobEntry* entry, absl::Time now);
  // Takes shards off the servers that are being drained, one step further.
  void LeaveServers(std::map<JobId, JobEntry>* jobs, absl::Time now);

 private:
  struct OfJob {
    absl::Time next_backup_at = absl::InfinitePast();  // when the next second copy may be made
    std::map<std::string, absl::Time> passed_over;     // by server: until when
    std::map<std::string, std::string> stays;          // by drained server: why shards stay
  };

  // The servers that are not to be asked for copies now.
  std::set<std::string> PassedOver(JobId job, absl::Time now) const;
  // A second copy, or the next one, does not follow, says who fills it in this generation.
  void LoseBackup(const std::string& primary, ShardId shard, uint32_t generation,
                  const std::string& why, JobEntry* entry, absl::Time now);
  void LoseNext(ShardId shard, const std::string& why, JobEntry* entry, absl::Time now);
  void OnNextReport(const std::string& daemon, const proto::BackupReport& report, JobEntry* entry,
                    absl::Time now);

  void LeaveServersOf(JobEntry* entry, FillsOfServers* fills, absl::Time now);
  void Do(ShardStep step, ShardId shard, JobEntry* entry, FillsOfServers* fills, absl::Time now);
  // Begins to fill another copy of the shard.
  void Fill(ShardStep step, ShardId shard, JobEntry* entry, FillsOfServers* fills, absl::Time now);
  // Drops what is no use to anybody.
  void DropNext(ShardId shard, JobEntry* entry, absl::Time now);
  // Another copy has taken the place of one.
  void HasLeft(const DroppedCopy& copy, JobEntry* entry, absl::Time now);

  // Saves the job with the new places of its shards, and tells those whom that concerns.
  void TellMoved(const std::vector<ShardId>& shards, JobEntry* entry, absl::Time now);
  // Has servers forget copies, and lets go of those that hold no other one.
  void Forget(const std::vector<DroppedCopy>& copies, JobEntry* entry);
  void LetGo(std::string server, JobEntry* entry);
  // It holds copies of the job from now on.
  static void AddServer(const ServerShards& server, JobEntry* entry);
  bool IsConnected(const std::string& server) const;
  void SayUnprotected(JobEntry* entry);

  const Options options_;
  const Membership* const membership_;
  const JobPlacer* const placer_;
  DaemonCommands* const commands_;
  JobAnnouncer* const announcer_;
  JobLife* const life_;
  std::map<JobId, OfJob> jobs_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_SHARD_KEEPER_H_
