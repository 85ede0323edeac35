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

// The steps of one job from its start to its end: each changes the entry's stage, saves it, tells
// the daemons what to do and followers what happened. Owns nothing; the stage is the entry's.
class JobLife {
 public:
  // All outlive it. `new_secret`: see JobTable::Options.
  JobLife(std::function<std::string()> new_secret, JobPlacer* placer, DaemonCommands* commands,
          JobAnnouncer* announcer)
      : new_secret_(std::move(new_secret)),
        placer_(placer),
        commands_(commands),
        announcer_(announcer) {}

  // Starts the ranks on the workers of `blocks`. REQUIRES: entry->queued().
  void Start(const std::vector<RankBlock>& blocks, JobEntry* entry, absl::Time now);
  // Places the job and installs it on its servers, or lets it wait for servers. REQUIRES:
  // kStarting, entry->all_ready().
  void Install(JobEntry* entry, absl::Time now);
  // Lets the nodes train. REQUIRES: as JobEntry::BeginTraining.
  void Train(JobEntry* entry, absl::Time now);
  // Fails the job with a reason for the user, or puts it back into the queue where it asks to
  // resume by itself and may. `is_death`: a process or a daemon of it was lost, so nothing says
  // that the job cannot be started: one that has never trained may resume, too. REQUIRES:
  // !entry->ended().
  void Fail(const std::string& reason, JobEntry* entry, absl::Time now, bool is_death = false);
  // The checkpoint that the job resumes from is damaged, in words: puts it back into the queue,
  // to resume from the one before. REQUIRES: entry->running(), and that it resumed from one.
  void GoOnFromEarlier(const std::string& damage, JobEntry* entry, absl::Time now);
  // The job waits to resume, but the checkpoint that it was to pass over as damaged is whole: tries
  // again where it may resume by itself, else fails it. REQUIRES: entry->queued().
  void FailWithoutCheckpoint(const std::string& reason, JobEntry* entry, absl::Time now);
  // Ends the job and has its daemons let go of it. REQUIRES: as JobEntry::End.
  void End(proto::JobState state, const std::string& reason, JobEntry* entry, absl::Time now);

  // The daemon of a node that has not finished is back. `holds`: it runs the node. What was on its
  // way when the line broke may be lost, and is said again; what the daemon said, it says again.
  void OnNodeBack(bool holds, JobNode* node, JobEntry* entry, absl::Time now);

  // Saves a job that must be saved before its daemons are told; false: it has failed instead.
  bool SaveOrFail(JobEntry* entry, absl::Time now);

 private:
  // Notes that the job has failed and resumes from its newest checkpoint, after a while.
  void NoteRestart(const std::string& reason, JobEntry* entry, absl::Time now);
  // Puts the job back into the queue, and has its daemons let go of it.
  void StartOver(const std::string& reason, JobEntry* entry, absl::Time now);
  void InstallOnServers(const PlacementChoice& choice, const std::vector<ServerShards>& others,
                        JobEntry* entry, absl::Time now);
  void InstallOnRing(JobEntry* entry, absl::Time now);
  // Tells the records of what the ranks have reported, complete or not.
  void FlushRecords(JobEntry* entry, absl::Time now);
  // Has the daemons let go of the job.
  void TellToRelease(absl::Span<const JobNode> nodes, const std::vector<JobServer>& servers,
                     JobId job, const std::string& reason);
  const std::function<std::string()> new_secret_;
  JobPlacer* const placer_;
  DaemonCommands* const commands_;
  JobAnnouncer* const announcer_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_LIFE_H_
