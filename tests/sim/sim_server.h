#ifndef STRATA_TESTS_SIM_SIM_SERVER_H_
#define STRATA_TESTS_SIM_SIM_SERVER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/transport/sim/sim_endpoint.h"
#include "proto/control.pb.h"
#include "server/shard/frame_backlog.h"
#include "server/shard/shard_core.h"

namespace strata::sim {

class World;

// One shard: the loop of ShardThread around a ShardCore, and the frames that no node would send.
class SimShard {
 public:
  SimShard(World* world, const std::string& name, const std::string& host_name, uint32_t host);

  int port() const { return port_; }
  void Install(const proto::JobRecord& record, uint32_t own_shard);
  void Remove(uint32_t job);

 private:
  void OnReady();
  void OnEvent(transport::Event event);
  void OnFrame(const transport::Event& event);
  // A connection is gone.
  void Forget(transport::ConnectionId connection);
  void RepeatHello(const transport::Event& event);
  void SendStrays(const transport::Event& event);
  // The core must refuse it and want nothing else.
  void Stray(const transport::Event& event, wire::Frame frame, wire::Op refusal, const char* what);
  void Execute();
  void Send(transport::ConnectionId connection, const wire::Frame& frame);

  World* const world_;
  const std::string name_;
  server::ShardCore core_;
  std::map<uint32_t, uint32_t> own_shard_;  // by job
  bool stopped_ = false;
  std::set<transport::ConnectionId> open_;
  std::vector<transport::Event> events_;
  std::vector<server::ShardAction> actions_;
  std::unique_ptr<transport::SimEndpoint> endpoint_;
  std::optional<server::FrameBacklog> backlog_;
  int port_ = 0;
};

// A server's daemon: takes jobs in and out.
class SimServer {
 public:
  SimServer(World* world, const std::string& name, uint32_t shards);

 private:
  void OnMessage(const proto::CoordinatorMessage& message);

  World* const world_;
  const std::string name_;
  std::vector<std::unique_ptr<SimShard>> shards_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_SIM_SERVER_H_
