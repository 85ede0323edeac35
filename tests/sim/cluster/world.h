#ifndef STRATA_TESTS_SIM_CLUSTER_WORLD_H_
#define STRATA_TESTS_SIM_CLUSTER_WORLD_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/transport/sim/sim_network.h"
#include "common/wire/frame.h"
#include "tests/sim/check/causes.h"
#include "tests/sim/check/checker.h"
#include "tests/sim/check/scenario.h"
#include "tests/sim/check/view_checker.h"
#include "tests/sim/cluster/outcome.h"

namespace strata::sim {

// Finds pushes that reach a shard again before an answer could have arrived: the node has repeated
// them, over the same connection, before the first copy had arrived. A push that the network itself
// has doubled, lost or delayed does not count.
class EarlyResends {
 public:
  // Call it with every frame. Returns true if this is one.
  bool See(transport::SimNote note, transport::ConnectionId receiver, const wire::Header& header) {
    using transport::SimNote;
    if (header.op != wire::Op::kPushPull) return false;
    Push& push = pushes_[{receiver, header.chunk, header.clock}];
    switch (note) {
      case SimNote::kSent:
        push.is_early = push.is_early || (push.sent == 1 && push.delivered == 0);
        ++push.sent;
        return false;
      case SimNote::kDelivered:
        return ++push.delivered == 2 && push.is_early && !push.is_disturbed;
      default:  // doubled, dropped, late
        push.is_disturbed = true;
        return false;
    }
  }

 private:
  struct Push {
    uint32_t sent = 0, delivered = 0;
    bool is_early = false, is_disturbed = false;
  };
  std::map<std::tuple<transport::ConnectionId, uint32_t, uint64_t>, Push> pushes_;
};

class Eavesdropper;
class RingChecker;
class SimCoordinator;
class SimOperator;
class SimServer;
class SimWorker;

// A whole cluster in one thread: the real cores of coordinator, server daemons, shards, aggregators
// and the nodes' exchange, on a simulated network and in virtual time. What a process of the
// product does besides (sockets, shared memory, child processes) is played by SimCoordinator,
// SimServer and SimWorker.
class World {
 public:
  World(const Scenario& scenario, EventLog* log);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Runs until all jobs have ended, or until the first violation.
  Outcome Run();

  // For those that play parts in it.
  const Scenario& scenario() const { return scenario_; }
  transport::SimNetwork& network() { return network_; }
  transport::SimRandom& random() { return random_; }
  const ClockInterface& clock() const { return network_.clock(); }
  SimCoordinator& coordinator() { return *coordinator_; }
  SimOperator& operators() { return *operator_; }
  Eavesdropper* eavesdropper() { return eavesdropper_.get(); }  // null: the jobs are not sealed
  const std::vector<std::unique_ptr<SimServer>>& servers() const { return servers_; }
  const std::vector<std::unique_ptr<SimWorker>>& workers() const { return workers_; }
  Causes& causes() { return causes_; }
  ViewChecker& views() { return views_; }
  // Draws whether this rare branch is taken now; counts it.
  bool Takes(Rare rare);
  void Count(Rare rare) { ++outcome_.rare[static_cast<size_t>(rare)]; }
  // The first violation ends the run.
  void Fail(const std::string& violation);
  // The run continues, to show the consequences; then it has failed.
  void FailInTheEnd(const std::string& violation);
  // Something has happened that the whole run works towards.
  void Progress() { progress_at_ = network_.Now(); }
  // Jobs are identified by their ids, which count from 1 in the order of the plans.
  const JobPlan& plan(uint32_t job) const { return scenario_.jobs[job - 1]; }
  bool has_ended(uint32_t job) const { return ended_.count(job) > 0; }
  // True also if it was cancelled.
  bool has_failed(uint32_t job) const { return failed_.count(job) > 0; }
  // Null until the job has a placement; of its shards also where it has none.
  NodeChecker* checker(uint32_t job);
  JobChecker* shard_checker(uint32_t job);
  RingChecker* ring_checker(uint32_t job);  // null: it is no all-reduce
  void OnPlaced(const proto::JobRecord& record);
  void OnTrained(uint32_t job, uint32_t node);
  // A node gives up. Returns true if a fault explains it.
  bool OnNodeError(uint32_t job, const std::string& reason);
  void OnEnded(uint32_t job, proto::JobState state, const std::string& reason);
  // Each daemon has its own host.
  uint32_t NextHost() { return next_host_++; }
  // Each process of a daemon has its own.
  uint64_t NextDaemonId() { return next_daemon_id_++; }
  // Each thread of a server's process has its own.
  uint64_t NextShardProcess() { return next_shard_process_++; }
  void Keep(std::shared_ptr<void> until_the_event_ends) {
    graveyard_.push_back(std::move(until_the_event_ends));
  }
  template <typename Text>
  void Log(uint64_t what, Text text) {
    log_->Add(network_.Now(), what, text);
  }

 private:
  void Observe();
  void WatchProgress();
  void Partition();
  // Returns the first daemon that holds a job; "": none.
  std::string WhoIsBusy() const;
  void Finish();

  const Scenario scenario_;
  EventLog* const log_;
  transport::SimNetwork network_;
  transport::SimRandom random_;
  Outcome outcome_;
  uint32_t next_host_ = 0;
  uint64_t next_daemon_id_ = 1, next_shard_process_ = 1;
  EarlyResends early_resends_;
  absl::Time progress_at_ = absl::UnixEpoch();
  std::map<uint32_t, std::unique_ptr<NodeChecker>> checkers_;
  Causes causes_;
  ViewChecker views_{[this](const std::string& v) { Fail(v); }};
  std::set<uint32_t> ended_, failed_;
  std::string late_violation_;
  std::unique_ptr<Eavesdropper> eavesdropper_;  // destroyed last: ending endpoints report to it
  std::unique_ptr<SimCoordinator> coordinator_;
  std::vector<std::unique_ptr<SimServer>> servers_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
  std::unique_ptr<SimOperator> operator_;
  // Objects that may not be destroyed while their own code runs.
  std::vector<std::shared_ptr<void>> graveyard_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_WORLD_H_
