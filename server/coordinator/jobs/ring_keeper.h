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

// All-reduces that continue without nodes that die (Job.on_loss: DROP): the others are asked to
// stop theirs, and once all have said how far they have come, they form a ring of those that are
// left (RingAgreement). Where nodes die meanwhile, all are asked again. Each step is saved before
// anybody is told. Owns when it asks again, by job; what is known of a ring is the entry's.
class RingKeeper {
 public:
  struct Options {
    // How long nodes may take to say how far they have come; others are lost, too.
    absl::Duration ring_patience = absl::Seconds(30);
    // Between two questions to those that do not answer.
    absl::Duration ring_ask_every = absl::Seconds(1);
  };
  // All outlive it.
  RingKeeper(const Options& options, DaemonCommands* commands, JobAnnouncer* announcer,
             JobLife* life)
      : options_(options), commands_(commands), announcer_(announcer), life_(life) {}

  // A node has died, for a reason that names it: starts a ring without it, where the job may
  // continue without it, or fails the job. The daemon that had it is told to stop it. REQUIRES:
  // entry->drops_lost(), entry->running(), !node->finished().
  void OnLost(const std::string& reason, JobNode* node, JobEntry* entry, absl::Time now);
  void OnStopped(const proto::RingStopped& message, const JobNode& node, JobEntry* entry,
                 absl::Time now);
  // The node has ended its part of the job well, and others have not.
  void OnFinished(const JobNode& node, JobEntry* entry, absl::Time now);
  // Asks those that have not answered again, or continues without them.
  void Step(JobEntry* entry, absl::Time now);
  // Tells the worker of a node, which is back, the current ring and the next one again.
  void TellAgain(const JobNode& node, JobEntry* entry, absl::Time now);
  void ForgetJob(JobId job) { asks_again_at_.erase(job); }

 private:
  struct Loss {
    JobNode* node = nullptr;
    std::string reason;
  };

  // REQUIRES: the entry trains, and no node stands there twice.
  void Drop(const std::vector<Loss>& losses, JobEntry* entry, absl::Time now);
  // The same of a job that has enough nodes without them.
  void GoOnWithout(const std::vector<Loss>& losses, JobEntry* entry, absl::Time now);
  // Asks all that are left about the next ring.
  void Begin(JobEntry* entry, absl::Time now);
  // Asks nodes that have not answered, if it is time to.
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
