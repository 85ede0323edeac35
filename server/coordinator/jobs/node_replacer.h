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

// Replaces a node that dies in a job that trains on without it (Job.replace): from the loss until
// processes of its next incarnation train in its place. If the job does not ask for that, or may
// not, it fails. Owns the text about nodes in the status's reason, by job; the state of a node is
// the entry's.
class NodeReplacer {
 public:
  struct Loss {
    std::string reason;  // names the node
    // Its processes exited by themselves. If that happens twice in one step, the job itself is at
    // fault.
    bool is_own_end = false;
    bool is_death = true;  // a signal ended one of them, or they were lost with their worker
    bool hangs = false;    // they have not exited: the worker is told to end them
  };

  // The arguments outlive this object.
  NodeReplacer(const Membership* membership, const ReachedServers* reached, const JobQueue* queue,
               DaemonCommands* commands, JobAnnouncer* announcer, JobLife* life)
      : membership_(membership),
        reached_(reached),
        queue_(queue),
        commands_(commands),
        announcer_(announcer),
        life_(life) {}

  // Restores what a previous coordinator said about nodes. REQUIRES: entry.running().
  void Restore(const JobEntry& entry);
  void ForgetJob(JobId job) { said_.erase(job); }

  // Restarts the node on a worker that has room for it, or else on a stand-in, or makes it wait for
  // one; otherwise fails the job. The daemon that had it is told to stop it. REQUIRES:
  // entry->running(), !node->finished().
  void OnLost(const Loss& loss, JobNode* node, JobEntry* entry, absl::Time now);
  // Returns why OnLost would fail the job; empty: it would restart the node.
  std::string WhyNot(const Loss& loss, const JobNode& node, const JobEntry& entry,
                     absl::Time now) const;
  // Calls OnLost for the node that hangs by the newest conclusion, if there is one.
  void ReplaceHung(JobEntry* entry, absl::Time now);
  // Restarts waiting nodes for which there is a worker now. Fails a job whose node has waited for
  // too long, unless `may_return`: daemons from before the coordinator's restart may still come
  // back. Returns whether later requests for slots must wait behind this job.
  bool PlaceWaiting(bool may_return, JobEntry* entry, absl::Time now);
  // The node's newest processes are ready: lets them train, as soon as no change of the nodes is
  // being installed. REQUIRES: the entry trains, !node->ready().
  void OnReady(const proto::NodeReady& message, JobNode* node, JobEntry* entry, absl::Time now);
  // Lets them train now. REQUIRES: as OnReady, and the node waits for that.
  void LetRun(JobNode* node, JobEntry* entry, absl::Time now);
  // Learn from which step the node continued. REQUIRES: the message is about its newest processes.
  void OnActivity(const proto::NodeActivity& activity, const JobNode& node, JobEntry* entry);
  void OnReport(const proto::RankReport& report, const JobNode& node, JobEntry* entry);

 private:
  struct Said {
    uint32_t attempt = 0;  // of the job
    std::string reason;    // about nodes that are being replaced; empty: none
  };

  // The result of a search for workers.
  struct Look {
    std::vector<const JobNode*> begun;
    bool waits_for_slots = false;
    std::string late;  // why a node has waited for too long; empty: none has
  };

  // Notes the step with which the node continues.
  void NoteStep(uint64_t step, const JobNode& node, JobEntry* entry);
  // Records that the node is lost and has no daemon.
  void NoteLoss(const Loss& loss, JobNode* node, JobEntry* entry, absl::Time now);
  Look LookForWorkers(JobEntry* entry, absl::Time now) const;
  void TellDaemons(const std::vector<const JobNode*>& begun, const JobEntry& entry);
  // Updates the status's reason with the nodes that do not train, and why. Returns whether it
  // changed.
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
