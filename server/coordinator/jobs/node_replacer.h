#ifndef STRATA_SERVER_COORDINATOR_JOBS_NODE_REPLACER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_NODE_REPLACER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/processes.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_life.h"
#include "server/coordinator/jobs/job_queue.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/placement/reached_servers.h"

namespace strata::server {

// The steps of a node that dies in a job that trains on without it (Job.replace): from its loss
// until processes of its next incarnation train in its place. Where the job does not ask for that,
// or may not, it fails. Owns what it has said of nodes in the status's reason, by job; what is
// known of the node is the entry's.
class NodeReplacer {
 public:
  struct Loss {
    std::string reason;  // names the node
    // Its processes have ended by themselves: where they do that twice at one step, it is the job
    // that is wrong.
    bool is_own_end = false;
    bool is_death = true;  // a signal ended one of them, or they are gone with their worker
    bool hangs = false;    // they have not ended: its worker is told to end them
  };

  // All outlive it.
  NodeReplacer(const Membership* membership, const ReachedServers* reached, const JobQueue* queue,
               DaemonCommands* commands, JobAnnouncer* announcer, JobLife* life)
      : membership_(membership),
        reached_(reached),
        queue_(queue),
        commands_(commands),
        announcer_(announcer),
        life_(life) {}

  // Takes in what a coordinator before this one has said of nodes. REQUIRES: entry.running().
  void Restore(const JobEntry& entry);
  void ForgetJob(JobId job) { said_.erase(job); }

  // Begins the node again on a worker that has room for it, or else stands in, or lets it wait for
  // one; else fails the job. The daemon that had it is told to stop it. REQUIRES: entry->running(),
  // !node->finished().
  void OnLost(const Loss& loss, JobNode* node, JobEntry* entry, absl::Time now);
  // Why that would fail the job, in words; empty: the node is begun again.
  std::string WhyNot(const Loss& loss, const JobNode& node, const JobEntry& entry,
                     absl::Time now) const;
  // Does so with the node that hangs, by the newest conclusion, if there is one.
  void ReplaceHung(JobEntry* entry, absl::Time now);
  // Begins nodes again that wait for a worker, where there is one now. Fails the job whose node has
  // waited for too long, unless `may_return`: daemons of before the coordinator's restart may still
  // come back. Returns whether whoever asks for slots is to wait behind the job.
  bool PlaceWaiting(bool may_return, JobEntry* entry, absl::Time now);
  // The newest processes of the node are ready: lets them train, once no change of the nodes is
  // being installed. REQUIRES: the entry trains, !node->ready().
  void OnReady(const proto::NodeReady& message, JobNode* node, JobEntry* entry, absl::Time now);
  // Does so now. REQUIRES: the same, and that it waits for that.
  void LetRun(JobNode* node, JobEntry* entry, absl::Time now);
  // Take in from which step the node went on. REQUIRES: it speaks of its newest processes.
  void OnActivity(const proto::NodeActivity& activity, const JobNode& node, JobEntry* entry);
  void OnReport(const proto::RankReport& report, const JobNode& node, JobEntry* entry);

 private:
  struct Said {
    uint32_t attempt = 0;  // of the job
    std::string reason;    // of nodes that are being replaced; empty: nothing
  };

  // The result of a look for workers.
  struct Look {
    std::vector<const JobNode*> begun;
    bool waits_for_slots = false;
    std::string late;  // why a node has waited for too long; empty: none has
  };

  // Notes the step with which the node continues.
  void NoteStep(uint64_t step, const JobNode& node, JobEntry* entry);
  // Writes down that the node is lost, and that nobody plays it.
  void NoteLoss(const Loss& loss, JobNode* node, JobEntry* entry, absl::Time now);
  Look LookForWorkers(JobEntry* entry, absl::Time now) const;
  void TellDaemons(const std::vector<const JobNode*>& begun, const JobEntry& entry);
  // Has the status's reason say which nodes do not train, and why. Returns whether it has changed.
  bool UpdateReason(JobEntry* entry);

  const Membership* const membership_;
  const ReachedServers* const reached_;
  const JobQueue* const queue_;
  DaemonCommands* const commands_;
  JobAnnouncer* const announcer_;
  JobLife* const life_;
  std::map<JobId, Said> said_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_NODE_REPLACER_H_
