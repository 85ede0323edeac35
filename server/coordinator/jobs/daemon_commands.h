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

// Sends daemons commands about jobs. Daemons take each command any number of times, so that one
// that may be lost is said again. A daemon that is not connected is told nothing: it is told again
// once it is back. Owns nothing.
class DaemonCommands {
 public:
  // All outlive it. `jobs`: all there are.
  DaemonCommands(const std::map<JobId, JobEntry>* jobs, const Membership* membership,
                 JobActions* actions)
      : jobs_(jobs), membership_(membership), actions_(actions) {}

  void SendStart(const JobEntry& entry, const JobNode& node);
  void SendMeasure(const JobEntry& entry, const JobNode& node);
  void SendInstall(const JobEntry& entry, const JobServer& server);
  void SendRun(const JobEntry& entry, const JobNode& node);
  // Asks the node from which clock on the job can have other nodes, for the change of this number.
  void SendPropose(const JobEntry& entry, const JobNode& node, uint32_t number);
  // Tells a server or a worker of the job that its nodes change.
  void SendChange(const proto::ViewChange& change, const std::string& daemon);
  // Has the node stop its all-reduce and say how far it has come, for the ring of this number.
  void SendStopRing(const JobEntry& entry, const JobNode& node, uint32_t number);
  // Has a worker of the job continue in the ring that was decided upon.
  void SendFormRing(const proto::FormRing& forming, const std::string& daemon);
  // Tells a daemon of the job where the shard lies now.
  void SendMove(const JobEntry& entry, ShardId shard, const std::string& daemon);
  // Has the server that is to hold the shard's second copy take it in.
  void SendInstallBackup(const JobEntry& entry, ShardId shard);
  // The same of the server that is to hold it next.
  void SendInstallNext(const JobEntry& entry, ShardId shard);
  // Has a server fill the next backup; where there is none, stop filling.
  void SendFillNext(const JobEntry& entry, ShardId shard, const std::string& server);
  // Has the server stop filling the copy that it reported.
  void SendFillNothing(const JobEntry& entry, const proto::BackupReport& report,
                       const std::string& server);
  // The server holds no copy of the shard any more.
  void SendRemoveShard(const JobEntry& entry, const DroppedCopy& copy);
  // Sends a record of the job's metrics to the worker of the first node. Where that one is being
  // replaced, nobody is there to take it: it is sent again later. REQUIRES: the job has nodes.
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
