#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_WORKER_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "proto/control.pb.h"
#include "tests/sim/cluster/sim_daemon.h"
#include "tests/sim/cluster/sim_node.h"

namespace strata::sim {

class World;

// A worker's host. Its daemon starts and stops nodes' processes and, unlike the product's so far,
// restarts them with the next incarnation after a crash. All of them may die, and the daemon may
// restart.
class SimWorker final : public SimDaemon {
 public:
  // `joins_after`: delay before it joins the cluster. `stands_in`: it only stands in.
  SimWorker(World* world, const std::string& name, uint32_t slots,
            absl::Duration joins_after = absl::ZeroDuration(), bool stands_in = false);

  // Returns true if it plays this node of the job.
  bool Plays(uint32_t job, uint32_t node) const;
  bool Plays(uint32_t job) const { return playing_.count(job) > 0; }
  // Ends the processes of those of its nodes that are restarted, or without which the others
  // continue.
  void KillNodes();
  // Pauses for a while the nodes without which the others continue.
  void FreezeNodes();
  // It announces its end, and ends once it is idle or after `notice`.
  void Leave(absl::Duration notice);

 private:
  struct Playing {
    uint32_t node = 0, ranks = 0;
    uint32_t incarnation = 0;
    uint32_t started = 0;  // the incarnation that it was told to start last
    bool said_ready = false;
    proto::JobRecord record;                     // with placement, once it runs
    std::map<uint32_t, proto::MoveShard> moves;  // since, by shard
    std::unique_ptr<SimNode> node_process;
  };

  void Begin(proto::Register* registration) override;
  void Clear() override;
  void OnMessage(const proto::CoordinatorMessage& message) override;
  std::vector<uint32_t> RunningJobs() const override;

  void StartNode(const proto::StartNode& start);
  void SayReady(uint32_t job);
  void RunNode(const proto::JobRecord& record);
  void Move(const proto::MoveShard& move);
  void MeasureLink(uint32_t job);
  void TryPeers(proto::TryPeers peers);
  void StartProcess(uint32_t job);
  void MaybeCrash(uint32_t job);
  void ProposeView(const proto::ProposeView& propose);
  void ChangeView(const proto::ViewChange& change);
  void StopRing(const proto::StopRing& stop);
  void FormRing(const proto::FormRing& forming);
  // A message about a ring arrives, now and perhaps again.
  void MaybeTwice(std::function<void()> word);
  void SayRingStopped(uint32_t job, uint32_t incarnation, proto::RingStopped stopped);
  void EndOnceIdle(absl::Time at_latest);
  // The job is over on this worker.
  void Forget(uint32_t job);
  void Bury(Playing* playing);
  void LeaveBehind(Playing* playing);

  const uint32_t slots_;
  const bool stands_in_;
  std::map<uint32_t, Playing> playing_;  // by job
  // Jobs; nodes and incarnations whose processes have ended here.
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> over_;
  std::vector<std::unique_ptr<SimNode>> left_behind_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_WORKER_H_
