#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_LIFE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_LIFE_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/daemon_commands.h"
#include "server/coordinator/jobs/job_announcer.h"
#include "server/coordinator/jobs/job_entry.h"
#include "server/coordinator/jobs/job_placer.h"

namespace strata::server {

// The steps of one job from its start to its end. Each changes the entry's stage, saves it,
// commands the daemons and informs followers. Owns nothing; the stage is the entry's.
class JobLife {
 public:
  // The arguments outlive this object. `new_secret`: see JobTable::Options.
  JobLife(std::function<std::string()> new_secret, JobPlacer* placer, DaemonCommands* commands,
          JobAnnouncer* announcer)
      : new_secret_(std::move(new_secret)),
        placer_(placer),
        commands_(commands),
        announcer_(announcer) {}

  // Starts the ranks on the workers of `blocks`. REQUIRES: entry->queued().
  void Start(const std::vector<RankBlock>& blocks, JobEntry* entry, absl::Time now);
  // Places the job and installs it on its servers, or makes it wait for servers. REQUIRES:
  // kStarting, entry->all_ready().
  void Install(JobEntry* entry, absl::Time now);
  // Starts training on the nodes. REQUIRES: as JobEntry::BeginTraining.
  void Train(JobEntry* entry, absl::Time now);
  // Fails the job with a reason for the user, or puts it back into the queue if it asks to resume
  // by itself and may. `is_death`: a process or daemon was lost, so the failure does not show that
  // the job cannot start; even a job that has never trained may resume then. `has_diverged`: see
  // JobStatus. REQUIRES: !entry->ended().
  void Fail(const std::string& reason, JobEntry* entry, absl::Time now, bool is_death = false,
            bool has_diverged = false);
  // The checkpoint that the job resumed from is damaged; `damage` describes it. Puts the job back
  // into the queue to resume from the one before. REQUIRES: entry->running(), and that it resumed
  // from one.
  void GoOnFromEarlier(const std::string& damage, JobEntry* entry, absl::Time now);
  // The job waits to resume, but the checkpoint that it was to skip as damaged is whole. Tries
  // again if it may resume by itself, else fails it. REQUIRES: entry->queued().
  void FailWithoutCheckpoint(const std::string& reason, JobEntry* entry, absl::Time now);
  // Ends the job and makes its daemons release it. REQUIRES: as JobEntry::End.
  void End(proto::JobState state, const std::string& reason, JobEntry* entry, absl::Time now);

  // The daemon of an unfinished node is back. `holds`: it still runs the node. Messages may have
  // been lost with the connection, so the coordinator sends its commands again; the daemon repeats
  // its reports by itself.
  void OnNodeBack(bool holds, JobNode* node, JobEntry* entry, absl::Time now);

  // Saves a job before its daemons are commanded; returns false if that failed, and the job with
  // it.
  bool SaveOrFail(JobEntry* entry, absl::Time now);

 private:
  // Notes that the job failed and resumes from its newest checkpoint after a delay.
  void NoteRestart(const std::string& reason, JobEntry* entry, absl::Time now);
  // Puts the job back into the queue, and makes its daemons release it.
  void StartOver(const std::string& reason, JobEntry* entry, absl::Time now);
  void InstallOnServers(const PlacementChoice& choice, const std::vector<ServerShards>& others,
                        JobEntry* entry, absl::Time now);
  void InstallOnRing(JobEntry* entry, absl::Time now);
  // Announces the records of the ranks' remaining reports, complete or not.
  void FlushRecords(JobEntry* entry, absl::Time now);
  // Makes the daemons release the job.
  void TellToRelease(absl::Span<const JobNode> nodes, const std::vector<JobServer>& servers,
                     JobId job, const std::string& reason);
  const std::function<std::string()> new_secret_;
  JobPlacer* const placer_;
  DaemonCommands* const commands_;
  JobAnnouncer* const announcer_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_LIFE_H_
