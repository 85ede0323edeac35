#ifndef STRATA_TESTS_SIM_SIM_WORKER_H_
#define STRATA_TESTS_SIM_SIM_WORKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "proto/control.pb.h"
#include "tests/sim/sim_node.h"

namespace strata::sim {

class World;

// A worker's daemon: starts and stops a node's processes, and, what the product's does not do yet,
// starts them over after a crash with the next incarnation.
class SimWorker {
 public:
  SimWorker(World* world, const std::string& name, uint32_t slots);

 private:
  struct Playing {
    uint32_t node = 0;
    uint32_t incarnation = 0;
    bool stopped = false;
    proto::JobRecord record;  // with placement, once it runs
    std::unique_ptr<SimNode> node_process;
  };

  void OnMessage(const proto::CoordinatorMessage& message);
  void SayReady(const proto::StartNode& start);
  void StartProcess(uint32_t job);
  void MaybeCrash(uint32_t job);
  void Bury(Playing* playing);
  void LeaveBehind(Playing* playing);

  World* const world_;
  const std::string name_;
  const uint32_t host_;
  std::map<uint32_t, Playing> playing_;  // by job
  std::vector<std::unique_ptr<SimNode>> left_behind_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_SIM_WORKER_H_
