#ifndef STRATA_TESTS_SIM_SIM_WORKER_H_
#define STRATA_TESTS_SIM_SIM_WORKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/sim_session.h"

namespace strata::sim {

class World;

// A worker's host: its daemon starts and stops nodes' processes and, what the product's does not do
// yet, starts them over after a crash with the next incarnation. All of them may die, and the
// daemon start anew.
class SimWorker {
 public:
  SimWorker(World* world, const std::string& name, uint32_t slots);

  const std::string& name() const { return name_; }
  // All processes die; another daemon starts after a while.
  void Lose();
  bool is_idle() const { return session_ != nullptr && playing_.empty(); }

 private:
  struct Playing {
    uint32_t node = 0, ranks = 0;
    uint32_t incarnation = 0;
    bool said_ready = false;
    proto::JobRecord record;  // with placement, once it runs
    std::unique_ptr<SimNode> node_process;
  };

  void Start();
  void End(absl::Duration noticed_after);
  void OnMessage(const proto::CoordinatorMessage& message);
  void StartNode(const proto::StartNode& start);
  void SayReady(uint32_t job);
  void RunNode(const proto::JobRecord& record);
  void TryPeers(proto::TryPeers peers);
  void StartProcess(uint32_t job);
  void MaybeCrash(uint32_t job);
  // The job is over here.
  void Forget(uint32_t job);
  void Bury(Playing* playing);
  void LeaveBehind(Playing* playing);
  // Later, if the daemon's process lives then.
  void After(absl::Duration delay, std::function<void()> what);

  World* const world_;
  const std::string name_;
  const uint32_t slots_;
  const uint32_t host_;
  uint64_t process_ = 0;
  std::unique_ptr<SimSession> session_;  // null: no process
  std::map<uint32_t, Playing> playing_;  // by job
  std::set<uint32_t> over_;              // jobs
  std::vector<std::unique_ptr<SimNode>> left_behind_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_SIM_WORKER_H_
