#ifndef STRATA_SERVER_COORDINATOR_JOBS_JOB_STAGE_H_
#define STRATA_SERVER_COORDINATOR_JOBS_JOB_STAGE_H_

namespace strata::server {

// The stages of a job's life. It goes down this list, may leave out kMeasuring and kInstalling, and
// may end from anywhere. Users see kQueued as QUEUED, kEnded as FINISHED, FAILED or CANCELLED, and
// what lies between as RUNNING.
enum class JobStage {
  kQueued,      // waits for slots, nodes or servers
  kStarting,    // StartNode sent, waits for NodeReady of all nodes, then for servers
  kMeasuring,   // MeasureLink sent, waits for LinkMeasured of all nodes
  kInstalling,  // InstallJob sent, waits for JobInstalled of all servers
  kTraining,    // RunNode sent, waits for NodeFinished of all nodes
  kEnded,
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_JOBS_JOB_STAGE_H_
