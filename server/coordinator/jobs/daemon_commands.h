#ifndef STRATA_SERVER_COORDINATOR_JOBS_DAEMON_COMMANDS_H_
#define STRATA_SERVER_COORDINATOR_JOBS_DAEMON_COMMANDS_H_

#include <cstdint>
#include <map>
#include <string>

#include "common/ids.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/job_actions.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/placement/shard_homes.h"

namespace strata::server {

// Sends daemons commands about jobs. Commands are idempotent, so one that may have been lost is
// sent again. A daemon that is not connected gets its commands once it is back. Owns nothing.
class DaemonCommands {
 public:
  // The arguments outlive this object. `jobs`: all jobs.
  DaemonCommands(const std::map<JobId, JobEntry>* jobs, const Membership* membership,
                 JobActions* actions)
      : jobs_(jobs), membership_(membership), actions_(actions) {}

  void SendStart(const JobEntry& entry, const JobNode& node);
  void SendMeasure(const JobEntry& entry, const JobNode& node);
  void SendInstall(const JobEntry& entry, const JobServer& server);
  void SendRun(const JobEntry& entry, const JobNode& node);
  // Asks the node for the first clock at which the view change of this number can take effect.
  void SendPropose(const JobEntry& entry, const JobNode& node, uint32_t number);
  // Tells a server or worker of the job that its nodes change.
  void SendChange(const proto::ViewChange& change, const std::string& daemon);
  // Makes the node stop its all-reduce and report its progress, for the ring of this number.
  void SendStopRing(const JobEntry& entry, const JobNode& node, uint32_t number);
  // Makes a worker of the job continue in the ring that was decided.
  void SendFormRing(const proto::FormRing& forming, const std::string& daemon);
  // Tells a daemon of the job where the shard is now.
  void SendMove(const JobEntry& entry, ShardId shard, const std::string& daemon);
  // Makes the server that is to hold the shard's backup install it.
  void SendInstallBackup(const JobEntry& entry, ShardId shard);
  // Like SendInstallBackup, for the server of the shard's next backup.
  void SendInstallNext(const JobEntry& entry, ShardId shard);
  // Makes a server fill the next backup; if there is none, makes it stop filling.
  void SendFillNext(const JobEntry& entry, ShardId shard, const std::string& server);
  // Makes the server stop filling the copy that it reported.
  void SendFillNothing(const JobEntry& entry, const proto::BackupReport& report,
                       const std::string& server);
  // Makes the server drop its copy of the shard.
  void SendRemoveShard(const JobEntry& entry, const DroppedCopy& copy);
  // Sends a record of the job's metrics to the worker of the first node. Does nothing while that
  // node is being replaced: the record is sent again later. REQUIRES: the job has nodes.
  void SendMetrics(const JobEntry& entry, const proto::MetricsRecord& record);
  void SendStop(const std::string& daemon, JobId job, const std::string& reason);
  void SendRemove(const std::string& daemon, JobId job);

 private:
  // Returns how many ranks of running jobs are on the daemon's machine, which may have several
  // daemons.
  uint32_t RanksOnMachineOf(const std::string& daemon) const;
  void SendTo(const std::string& daemon, const proto::CoordinatorMessage& message);

  const std::map<JobId, JobEntry>* const jobs_;
  const Membership* const membership_;
  JobActions* const actions_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_DAEMON_COMMANDS_H_
