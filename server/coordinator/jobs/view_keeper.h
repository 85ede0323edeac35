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

// Nodes that join jobs while they train, as there are workers for them, and leave those that are
// drained (ranks_max, ranks_min), or are begun again elsewhere (replace). A node that is to join
// begins its processes first; once they are ready a change is agreed upon (ViewAgreement). Each
// step is saved before anybody is told. Owns when it asks and begins again, by job; the change that
// is on its way is the entry's.
class ViewKeeper {
 public:
  struct Options {
    // How long nodes may take to say from which clock on a change can come.
    absl::Duration promise_patience = absl::Seconds(10);
    // Between two questions to those that do not answer.
    absl::Duration ask_every = absl::Seconds(1);
    // Between a change that was given up and the next one.
    absl::Duration change_pause = absl::Seconds(5);
    // Between a node that could not join and the next one.
    absl::Duration joiner_pause = absl::Seconds(20);
  };
  // All outlive it.
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

  // Why nodes of the job stay on a worker that is drained; empty: they do not.
  std::string WhyStays(const std::string& worker, const JobEntry& entry) const;
  void ForgetJob(JobId job) { jobs_.erase(job); }

  // Begins nodes that may join the job on workers that have room, within the rights of its owner.
  void AddNodes(UserSlots* slots, JobEntry* entry, absl::Time now);
  // Takes a change of the job's nodes one step further, or begins one.
  void Step(JobEntry* entry, absl::Time now);
  // Does so where a node plays on a worker that only stands in.
  void LeaveStandIns(JobEntry* entry, absl::Time now);

  // The processes of a node that is to join are ready, or it cannot join for `reason`. REQUIRES:
  // node->joins().
  void OnJoinerReady(const proto::NodeReady& message, JobNode* node, JobEntry* entry,
                     absl::Time now);
  void OnJoinerLost(const std::string& reason, JobNode* node, JobEntry* entry, absl::Time now);
  void OnPromised(const proto::ViewPromised& message, const JobNode& node, JobEntry* entry,
                  absl::Time now);
  void OnInstalled(const std::string& daemon, const proto::ViewInstalled& message, JobEntry* entry,
                   absl::Time now);
  // The node has made its last step, and its processes have ended. REQUIRES: node->leaves_at().
  void OnLeft(JobNode* node, JobEntry* entry);
  // Says again to the worker of a node, which is back, what changes there are.
  void TellAgain(const JobNode& node, const JobEntry& entry);

 private:
  struct OfJob {
    absl::Time asks_again_at = absl::InfinitePast();
    absl::Time next_change_at = absl::InfinitePast();
    absl::Time next_joiner_at = absl::InfinitePast();
    uint32_t attempt = 0;                      // that `keeps` is of
    std::map<std::string, std::string> keeps;  // by drained worker: why nodes stay
  };

  OfJob& Of(const JobEntry& entry);
  // Begins a change if nodes are to join or to leave.
  void Begin(JobEntry* entry, absl::Time now);
  // Returns the nodes that leave; says why others stay that are to.
  std::vector<uint32_t> ChooseLeavers(uint32_t ranks, JobEntry* entry);
  // Begins one of the nodes that are to leave, but may not, on another worker, where the job has
  // nodes that die begun again; says why others stay.
  void MoveOne(JobEntry* entry, absl::Time now);
  // Asks nodes, and servers, that have not answered, if it is time to.
  void Ask(JobEntry* entry, absl::Time now);
  // Why the change that nodes are asked about is not to come: a node that was to leave has no
  // reason to any more; empty: it is to.
  std::string WhyVoid(const JobEntry& entry) const;
  void Decide(JobEntry* entry, absl::Time now);
  // All servers have the change.
  void Tell(JobEntry* entry, absl::Time now);
  // The change that nodes are asked about does not come; what they have promised is void.
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
