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

// After how long it asks again, where nobody answers.
inline constexpr absl::Duration kTryAgain = absl::Milliseconds(300);
// How long a process is away: longer than messages are kept for.
inline constexpr absl::Duration kRestartMax = absl::Seconds(20);
// How long one stands still.
inline constexpr absl::Duration kPauseMax = absl::Seconds(12);

// What users and hosts do: submits the scenario's jobs, cancels some, ends and starts processes of
// daemons and of the coordinator, and keeps workers from shards for a while.
class SimOperator {
 public:
  explicit SimOperator(World* world);

  // Once, after the daemons are there.
  void Start();
  // The primary on a server begins to fill a new copy at this address; or hears that it counts.
  void OnFill(const std::string& primary, const std::string& address);
  void OnWhole(const std::string& primary, const std::string& address);
  // A change of a job's nodes has come a step further.
  void OnChange(const proto::StoredJob& job);
  // So has an all-reduce that drops nodes that die, or one of its nodes.
  void OnRing(uint32_t job);
  // A node of one has made a step; `is_last`: all of its steps.
  void OnStepMade(uint32_t job, bool is_last);
  // A node has ended its part of the job well.
  void OnNodeEnd(uint32_t job);
  // True if the worker's connections to the server's shards fail now.
  bool IsKeptFrom(const std::string& worker, const std::string& server) const;

 private:
  // Draws when the next thing befalls a job whose nodes change.
  absl::Duration SoonAfterChange();
  void Submit(size_t job);
  void Cancel(uint32_t job);
  void KeepApart();
  // What befalls servers whose jobs have second copies.
  void DisturbServers();
  // Does one of all that may happen to the two, and to who knows of them, so much later.
  void DisturbCopies(const std::string& primary, const std::string& address, absl::Duration later);
  void DisturbCopies(SimServer* primary, SimServer* backup);
  // Keeps two servers from each other for a while.
  void PartServers(const SimServer& one, const SimServer& other);
  void LoseBoth();
  // What befalls workers of jobs whose nodes come and go.
  void DisturbWorkers();
  void DisturbNodes();
  void Drain();
  void Undrain(const std::string& worker);
  // Does one of all that may happen to those who have a part in a change.
  void DisturbChange(const proto::StoredJob& job);
  // The same of an all-reduce that drops nodes that die.
  void DisturbRing(uint32_t job);
  SimWorker& SomeWorker();
  SimWorker* FindWorker(const std::string& name);
  // Two different ones, if there are two.
  std::pair<size_t, size_t> TwoServers();
  // Does it so often, at times that follow each other closely or not at all.
  void Repeat(uint32_t times, std::function<void()> what);
  absl::Duration SomeTime();

  World* const world_;
  std::set<std::pair<std::string, std::string>> kept_apart_;  // worker, server
  std::set<uint32_t> end_;                                    // jobs of which a node has
  bool disturbs_nodes_ = false;  // once the first job trains that drops who is lost
};

class World;

// A user takes servers out of service and puts them back, as often as the scenario says: shards
// with second copies leave them by a third one. Once, after the daemons are there.
void DrainServers(World* world);

// A copy is to be filled on the last of these servers, beside those on the others: perhaps
// something happens to one of them, or to the coordinator, meanwhile.
void DisturbMove(const std::vector<std::string>& servers, World* world);

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_OPERATOR_H_
