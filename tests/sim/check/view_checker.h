#ifndef STRATA_TESTS_SIM_CHECK_VIEW_CHECKER_H_
#define STRATA_TESTS_SIM_CHECK_VIEW_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "common/job/views.h"
#include "proto/control.pb.h"
#include "server/coordinator/jobs/stored_job.pb.h"

namespace strata::sim {

// Checks changes of jobs' nodes against the promises of docs/semantics.md: what the coordinator
// saves and sends, what servers install, and what nodes promise and begin. Outlives all their
// processes. A violation is one line that begins with the name of the invariant.
class ViewChecker {
 public:
  using Fail = std::function<void(const std::string& violation)>;

  explicit ViewChecker(Fail fail) : fail_(std::move(fail)) {}

  // The coordinator has saved the job.
  void OnSaved(const proto::StoredJob& stored);
  // The coordinator sends a message to the daemon with this registration.
  void OnCommand(const proto::Register& daemon, const proto::CoordinatorMessage& message);

  // A server holds copies of the job's shards that all have the changes up to this one. Below: its
  // process has ended.
  void OnInstalled(const std::string& server, uint32_t job, uint32_t number);
  void OnRemoved(const std::string& server, uint32_t job);
  void OnServerGone(const std::string& server);

  // A node's process begins to run, with this record.
  void OnRun(uint32_t node, uint32_t incarnation, const proto::JobRecord& record);
  // Returns true if no process of a later incarnation runs.
  bool IsNewest(uint32_t job, uint32_t node, uint32_t incarnation) const;
  void OnPromised(uint32_t job, uint32_t node, uint32_t number, uint64_t from_clock);
  // It reports that it has stopped its all-reduce.
  void OnRingStopped(uint32_t job, const proto::RingStopped& stopped);
  // It is told the outcome.
  void OnHeard(uint32_t job, uint32_t node, uint32_t number);
  // One of its ranks begins a step.
  void OnStep(uint32_t job, uint32_t node, uint64_t step);

 private:
  struct Process {
    uint32_t incarnation = 0;
    uint32_t promised = 0;  // the newest number; 0: none
    uint64_t from_clock = 0;
    bool is_bound = false;    // it has not been told the outcome
    uint64_t stopped_at = 0;  // in an all-reduce: steps it had made when it promised
  };
  struct Job {
    proto::StoredJob stored;  // as saved last
    Views views;
    uint32_t given_up = 0;                  // the highest number that nodes have been told is void
    std::map<uint32_t, Process> processes;  // the newest, by node
    // By server: the number of the installed change, and that in the record of the newest copy to
    // be made there.
    std::map<std::string, uint32_t> installed, in_record;
  };

  void Violate(const std::string& invariant, uint32_t job, const std::string& what);
  void CheckDecided(const Job& job, const proto::StoredJob& stored,
                    const proto::ViewChange& change);
  // The same for a ring of the remaining nodes.
  void CheckRingDecided(const Job& job, const proto::StoredJob& stored,
                        const proto::ViewChange& change);
  // Each dropped node gets a proposal with its own number.
  void CheckDropped(const Job& job, const proto::StoredJob& stored);
  void CheckRingAnnounced(const proto::Register& daemon, const proto::CoordinatorMessage& message);
  // Checks that all copies have the change that nodes may be told now.
  void CheckInstalled(const Job& job, const proto::StoredJob& stored);
  // A worker that only stands in is told to begin a node.
  void CheckStandIn(const proto::Register& daemon, const proto::StartNode& start);
  void CheckChangeAnnounced(const proto::Register& daemon, const proto::ViewChange& change);

  const Fail fail_;
  std::map<uint32_t, Job> jobs_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_VIEW_CHECKER_H_
