#ifndef STRATA_TESTS_SIM_CHECK_CONTROL_CHECKER_H_
#define STRATA_TESTS_SIM_CHECK_CONTROL_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "proto/control.pb.h"
#include "server/coordinator/jobs/stored_job.pb.h"

namespace strata::sim {

// Checks what the coordinator says against invariants that hold whatever happens to it and its
// daemons. Outlives the coordinator's process, as daemons and users do. A violation is one line
// that begins with the name of the invariant.
class ControlChecker {
 public:
  using Fail = std::function<void(const std::string& violation)>;

  explicit ControlChecker(Fail fail) : fail_(std::move(fail)) {}

  // The coordinator's process has ended.
  void OnRestart() { errors_.clear(); }
  // The coordinator receives a message of a daemon that registered as `daemon`.
  void OnWord(const proto::Register& daemon, const proto::DaemonMessage& message);
  // The coordinator sends a message to a daemon that registered as `daemon`.
  void OnCommand(const proto::Register& daemon, const proto::CoordinatorMessage& message);
  // The coordinator has saved the placement of the job's shards.
  void OnSaved(const proto::StoredJob& job);
  // Users see this state of a job. Returns true if it has just ended.
  bool OnState(uint32_t job, proto::JobState state);

 private:
  struct Job {
    proto::JobState state = proto::JOB_STATE_UNSPECIFIED;
    proto::View view;
    proto::Placement placement;
    std::string ring;                                           // serialized
    std::map<uint32_t, uint32_t> saved;                         // generations, by shard
    std::map<uint32_t, std::pair<uint32_t, std::string>> next;  // generation and place of the next
                                                                // backup
    std::map<std::pair<uint32_t, uint32_t>, std::string> told;  // places, by shard and generation
    uint64_t token = 0;
    std::map<uint32_t, std::string> nodes;        // their daemons
    std::map<uint32_t, std::string> holders;      // by shard of the job: its address
    std::set<std::string> to_install, installed;  // daemons
    bool has_ended() const { return state > proto::RUNNING; }
  };

  void Violate(const std::string& invariant, uint32_t job, const std::string& what);
  void CheckRecord(const proto::JobRecord& record);
  void CheckView(const proto::JobRecord& record);
  void CheckPlacement(const proto::JobRecord& record);
  // Returns what is wrong with a placement that follows `before`; "": nothing.
  static std::string Compare(const proto::Placement& before, const proto::Placement& now);
  void CheckMove(const proto::MoveShard& move);
  // A daemon is told to hold a backup from now on.
  void CheckNewBackup(const proto::Register& daemon, const proto::InstallBackup& install);
  // Returns true if this is the next backup, which is filled beside the shard's two copies.
  bool IsNext(const proto::InstallBackup& install) const;
  void CheckFillNext(const proto::FillNext& fill);
  void CheckRing(const proto::JobRecord& record);
  void TakeInstall(const proto::Register& daemon, const proto::InstallJob& install);
  void CheckReach(const proto::JobRecord& record);
  void CheckHolders(const proto::JobRecord& record);

  const Fail fail_;
  std::map<uint32_t, Job> jobs_;
  // By worker and address: why its newest attempt failed; empty: it did not.
  std::map<std::string, std::map<std::string, std::string>> errors_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CHECK_CONTROL_CHECKER_H_
