#ifndef STRATA_SERVER_COORDINATOR_JOBS_VIEW_KEEPER_H_
#define STRATA_SERVER_COORDINATOR_JOBS_VIEW_KEEPER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_life.h"
#include "server/coordinator/jobs/job_queue.h"
#include "server/coordinator/jobs/node_replacer.h"
#include "server/coordinator/jobs/slot_use.h"
#include "server/coordinator/members/membership.h"
#include "server/coordinator/placement/reached_servers.h"

namespace strata::server {

// Changes the nodes of training jobs: nodes join as workers become free, leave draining workers
// (ranks_max, ranks_min), or are restarted elsewhere (replace). A joining node starts its processes
// first; once they are ready a change is agreed (ViewAgreement). Each step is saved before anybody
// is told. Owns the times of questions and restarts, by job; the pending change is the entry's.
class ViewKeeper {
 public:
  struct Options {
    // How long nodes may take to say at which clock a change can take effect.
    absl::Duration promise_patience = absl::Seconds(10);
    // Interval between questions to those that do not answer.
    absl::Duration ask_every = absl::Seconds(1);
    // Time between a change that was given up and the next one.
    absl::Duration change_pause = absl::Seconds(5);
    // Time between a node that could not join and the next one.
    absl::Duration joiner_pause = absl::Seconds(20);
  };
  // The arguments outlive this object.
  ViewKeeper(const Options& options, const Membership* membership, const ReachedServers* reached,
             const JobQueue* queue, DaemonCommands* commands, JobAnnouncer* announcer,
             JobLife* life, NodeReplacer* replacer)
      : options_(options),
        membership_(membership),
        reached_(reached),
        queue_(queue),
        commands_(commands),
        announcer_(announcer),
        life_(life),
        replacer_(replacer) {}

  // Returns why nodes of the job stay on a draining worker; empty: they do not.
  std::string WhyStays(const std::string& worker, const JobEntry& entry) const;
  void ForgetJob(JobId job) { jobs_.erase(job); }

  // Starts nodes that may join the job on workers that have room, within the rights of its owner.
  void AddNodes(UserSlots* slots, JobEntry* entry, absl::Time now);
  // Advances a change of the job's nodes by one step, or begins one.
  void Step(JobEntry* entry, absl::Time now);
  // Begins a change to move nodes off stand-ins.
  void LeaveStandIns(JobEntry* entry, absl::Time now);

  // The processes of a joining node are ready, or it cannot join for `reason`. REQUIRES:
  // node->joins().
  void OnJoinerReady(const proto::NodeReady& message, JobNode* node, JobEntry* entry,
                     absl::Time now);
  void OnJoinerLost(const std::string& reason, JobNode* node, JobEntry* entry, absl::Time now);
  void OnPromised(const proto::ViewPromised& message, const JobNode& node, JobEntry* entry,
                  absl::Time now);
  void OnInstalled(const std::string& daemon, const proto::ViewInstalled& message, JobEntry* entry,
                   absl::Time now);
  // The node has made its last step, and its processes have exited. REQUIRES: node->leaves_at().
  void OnLeft(JobNode* node, JobEntry* entry);
  // Repeats the changes to the worker of a node that is back.
  void TellAgain(const JobNode& node, const JobEntry& entry);

 private:
  struct OfJob {
    absl::Time asks_again_at = absl::InfinitePast();
    absl::Time next_change_at = absl::InfinitePast();
    absl::Time next_joiner_at = absl::InfinitePast();
    uint32_t attempt = 0;                      // the attempt that `keeps` is about
    std::map<std::string, std::string> keeps;  // by draining worker: why nodes stay
  };

  OfJob& Of(const JobEntry& entry);
  // Begins a change if nodes are to join or leave.
  void Begin(JobEntry* entry, absl::Time now);
  // Returns the nodes that leave; records why others that should leave stay.
  std::vector<uint32_t> ChooseLeavers(uint32_t ranks, JobEntry* entry);
  // Restarts on another worker one of the nodes that should leave but may not, if the job restarts
  // nodes that die; records why others stay.
  void MoveOne(JobEntry* entry, absl::Time now);
  // Asks nodes and servers that have not answered, when it is time.
  void Ask(JobEntry* entry, absl::Time now);
  // Returns why the proposed change is obsolete: a node that was to leave has no reason to any
  // more. Empty: it is not.
  std::string WhyVoid(const JobEntry& entry) const;
  void Decide(JobEntry* entry, absl::Time now);
  // All servers have installed the change: tells the nodes.
  void Tell(JobEntry* entry, absl::Time now);
  // Cancels the proposed change; the nodes' promises are void.
  void GiveUp(const std::string& why, JobEntry* entry, absl::Time now);

  const Options options_;
  const Membership* const membership_;
  const ReachedServers* const reached_;
  const JobQueue* const queue_;
  DaemonCommands* const commands_;
  JobAnnouncer* const announcer_;
  JobLife* const life_;
  NodeReplacer* const replacer_;
  std::map<JobId, OfJob> jobs_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_VIEW_KEEPER_H_
