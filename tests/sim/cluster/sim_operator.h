#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_OPERATOR_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_OPERATOR_H_

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/jobs/stored_job.pb.h"

namespace strata::sim {

class SimServer;
class SimWorker;
class World;

// Delay before it asks again if nobody answers.
inline constexpr absl::Duration kTryAgain = absl::Milliseconds(300);
// Maximum downtime of a process: longer than messages are kept.
inline constexpr absl::Duration kRestartMax = absl::Seconds(20);
// Maximum duration of a pause.
inline constexpr absl::Duration kPauseMax = absl::Seconds(12);

// What users and hosts do: submits the scenario's jobs, cancels some, ends and starts processes of
// daemons and of the coordinator, and cuts workers off from shards for a while.
class SimOperator {
 public:
  explicit SimOperator(World* world);

  // Call once, when the daemons exist.
  void Start();
  // The primary on a server begins to fill a new copy at this address, or is told that the copy is
  // complete.
  void OnFill(const std::string& primary, const std::string& address);
  void OnWhole(const std::string& primary, const std::string& address);
  // A change of a job's nodes has progressed.
  void OnChange(const proto::StoredJob& job);
  // An all-reduce that drops dead nodes, or one of its nodes, has progressed.
  void OnRing(uint32_t job);
  // A node of such a job has made a step; `is_last`: its last one.
  void OnStepMade(uint32_t job, bool is_last);
  // A node has finished its part of the job well.
  void OnNodeEnd(uint32_t job);
  // Returns true if the worker's connections to the server's shards fail now.
  bool IsKeptFrom(const std::string& worker, const std::string& server) const;

 private:
  // Draws the time to the next fault of a job whose nodes change.
  absl::Duration SoonAfterChange();
  void Submit(size_t job);
  void Cancel(uint32_t job);
  void KeepApart();
  // Causes faults of servers whose jobs have second copies.
  void DisturbServers();
  // After a delay, causes one of all possible faults of the two copies or of those that know of
  // them.
  void DisturbCopies(const std::string& primary, const std::string& address, absl::Duration later);
  void DisturbCopies(SimServer* primary, SimServer* backup);
  // Cuts two servers off from each other for a while.
  void PartServers(const SimServer& one, const SimServer& other);
  void LoseBoth();
  // Causes faults of workers of jobs whose nodes come and go.
  void DisturbWorkers();
  void DisturbNodes();
  void Drain();
  void Undrain(const std::string& worker);
  // Causes one of all possible faults of those that take part in a change.
  void DisturbChange(const proto::StoredJob& job);
  // The same for an all-reduce that drops dead nodes.
  void DisturbRing(uint32_t job);
  SimWorker& SomeWorker();
  SimWorker* FindWorker(const std::string& name);
  // Returns two different servers if there are two.
  std::pair<size_t, size_t> TwoServers();
  // Calls it this often, at times that are close together or far apart.
  void Repeat(uint32_t times, std::function<void()> what);
  absl::Duration SomeTime();

  World* const world_;
  std::set<std::pair<std::string, std::string>> kept_apart_;  // worker, server
  std::set<uint32_t> end_;                                    // jobs with a node that has finished
  bool disturbs_nodes_ = false;  // once the first job that drops dead nodes trains
};

class World;

// Drains servers and puts them back, as often as the scenario says: shards with second copies leave
// them by means of a third one. Call once, when the daemons exist.
void DrainServers(World* world);

// A copy will be filled on the last of these servers beside those on the others. One of them, or
// the coordinator, may have a fault meanwhile.
void DisturbMove(const std::vector<std::string>& servers, World* world);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_OPERATOR_H_
