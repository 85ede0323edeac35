#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/control.pb.h"
#include "tests/sim/cluster/sim_daemon.h"
#include "tests/sim/cluster/sim_shard.h"

namespace strata::sim {

class World;

// A server's host: its daemon takes jobs in and out, and may die and start anew.
class SimServer final : public SimDaemon {
 public:
  SimServer(World* world, const std::string& name, uint32_t shards);

  bool Listens(const std::string& address) const;

 private:
  void Begin(proto::Register* registration) override;
  void Clear() override;
  void OnMessage(const proto::CoordinatorMessage& message) override;
  std::vector<uint32_t> RunningJobs() const override { return {jobs_.begin(), jobs_.end()}; }
  proto::Heartbeat MakeHeartbeat() override;
  void StandStill(bool stands) override;

  void Move(const proto::MoveShard& move);
  void FillNext(const proto::FillNext& fill);
  // The answer to a MoveShard or FillNext that it cannot do.
  template <typename Message>
  void SayNotMoved(const Message& asked, const absl::Status& why);
  void Install(const proto::InstallJob& install);
  void InstallBackup(const proto::InstallBackup& install);
  // Errors: there is no room for it.
  absl::Status TakeBackup(const proto::InstallBackup& install);
  void ChangeView(const proto::ViewChange& change);
  // All copies here have the changes of the record.
  void NoteViews(const proto::JobRecord& record);
  void RemoveShard(const proto::RemoveShard& remove);
  // A copy of a shard that is older is not here any more, nor is the job, if that was all of it.
  void Forget(uint32_t job, uint32_t shard, uint32_t generation);
  void RemoveJob(uint32_t job);
  void Check(const SimShard& here, const server::BackupState& state,
             const proto::BackupReport& report);

  std::vector<int> ports_;  // of the last process
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::set<uint32_t> jobs_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_
