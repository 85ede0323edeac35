#ifndef STRATA_SERVER_COORDINATOR_JOBS_RING_KEEPER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_RING_KEEPER_H_

#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/processes.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_life.h"

namespace strata::server {

// Continues all-reduces without nodes that die (Job.on_loss: DROP). The others are asked to stop,
// and once all have reported their progress, they form a ring of the remaining nodes
// (RingAgreement). If nodes die meanwhile, all are asked again. Each step is saved before anybody
// is told. Owns the times of repeated questions, by job; the state of a ring is the entry's.
class RingKeeper {
 public:
  struct Options {
    // How long nodes may take to report their progress; slower ones count as lost, too.
    absl::Duration ring_patience = absl::Seconds(30);
    // Interval between questions to nodes that do not answer.
    absl::Duration ring_ask_every = absl::Seconds(1);
  };
  // The arguments outlive this object.
  RingKeeper(const Options& options, DaemonCommands* commands, JobAnnouncer* announcer,
             JobLife* life)
      : options_(options), commands_(commands), announcer_(announcer), life_(life) {}

  // A node has died; `reason` names it. Starts a ring without it, if the job may continue without
  // it, or else fails the job. The daemon that had it is told to stop it. REQUIRES:
  // entry->drops_lost(), entry->running(), !node->finished().
  void OnLost(const std::string& reason, JobNode* node, JobEntry* entry, absl::Time now);
  void OnStopped(const proto::RingStopped& message, const JobNode& node, JobEntry* entry,
                 absl::Time now);
  // The node has finished its part of the job; others have not.
  void OnFinished(const JobNode& node, JobEntry* entry, absl::Time now);
  // Asks unresponsive nodes again, or continues without them.
  void Step(JobEntry* entry, absl::Time now);
  // Repeats the current and the next ring to the worker of a node that is back.
  void TellAgain(const JobNode& node, JobEntry* entry, absl::Time now);
  void ForgetJob(JobId job) { asks_again_at_.erase(job); }

 private:
  struct Loss {
    JobNode* node = nullptr;
    std::string reason;
  };

  // REQUIRES: the entry trains, and `losses` names no node twice.
  void Drop(const std::vector<Loss>& losses, JobEntry* entry, absl::Time now);
  // Like Drop, for a job that has enough nodes left.
  void GoOnWithout(const std::vector<Loss>& losses, JobEntry* entry, absl::Time now);
  // Asks all remaining nodes about the next ring.
  void Begin(JobEntry* entry, absl::Time now);
  // Asks nodes that have not answered, when it is time.
  void Ask(JobEntry* entry, absl::Time now);
  void Decide(JobEntry* entry, absl::Time now);

  const Options options_;
  DaemonCommands* const commands_;
  JobAnnouncer* const announcer_;
  JobLife* const life_;
  std::map<JobId, absl::Time> asks_again_at_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_RING_KEEPER_H_
