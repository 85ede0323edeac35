#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/process/owned_timers.h"
#include "common/transport/sim/sim_network.h"
#include "proto/control.pb.h"
#include "server/shard/frames/frame_backlog.h"
#include "server/shard/shard_core.h"
#include "tests/sim/cluster/sim_daemon.h"
#include "tests/sim/cluster/watched_endpoint.h"

namespace strata::sim {

class World;

// One shard: the loop of ShardThread around a ShardCore, and the frames that no node would send.
class SimShard {
 public:
  // `port` 0: a free one.
  SimShard(World* world, const std::string& name, const std::string& host_name, uint32_t host,
           int port);

  // Ends as a process that dies does: nothing is said.
  ~SimShard();
  SimShard(const SimShard&) = delete;
  SimShard& operator=(const SimShard&) = delete;

  int port() const { return port_; }
  void Install(const proto::JobRecord& record, uint32_t own_shard);
  void Remove(uint32_t job);

 private:
  void OnReady();
  void OnTime();
  // Calls OnReady when the core wants to be told the time.
  void WakeAtDeadline();
  void OnEvent(transport::Event event);
  void OnFrame(const transport::Event& event);
  // A connection is gone.
  void Forget(transport::ConnectionId connection);
  void RepeatHello(const transport::Event& event);
  void SendStrays(const transport::Event& event);
  // The core must refuse it and want nothing else.
  void Stray(const transport::Event& event, wire::Frame frame, wire::Op refusal, const char* what);
  void Execute();
  void Execute(const server::ShardAction& action);
  void Send(transport::ConnectionId connection, const wire::Frame& frame);

  World* const world_;
  const std::string name_;
  server::ShardCore core_;
  std::map<uint32_t, uint32_t> own_shard_;  // by job
  bool stopped_ = false;
  absl::Time wakes_at_ = absl::InfiniteFuture();
  std::set<transport::ConnectionId> open_;
  std::vector<transport::Event> events_;
  std::vector<server::ShardAction> actions_;
  std::unique_ptr<WatchedEndpoint> endpoint_;
  std::optional<server::FrameBacklog> backlog_;
  int port_ = 0;
  OwnedTimers<transport::SimNetwork> timers_;
};

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

  void Install(const proto::InstallJob& install);

  std::vector<int> ports_;  // of the last process
  std::vector<std::unique_ptr<SimShard>> shards_;
  std::set<uint32_t> jobs_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_SERVER_H_
