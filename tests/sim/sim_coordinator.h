#ifndef STRATA_TESTS_SIM_SIM_COORDINATOR_H_
#define STRATA_TESTS_SIM_SIM_COORDINATOR_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/coordinator_core.h"

namespace strata::sim {

class World;

// The coordinator's core with its store in memory and its sessions as delayed calls, in order.
class SimCoordinator final : public server::CoordinatorActions {
 public:
  using Receive = std::function<void(const proto::CoordinatorMessage& message)>;

  explicit SimCoordinator(World* world);

  // A daemon says Register and then beats as long as the world goes on. `receive` gets what the
  // coordinator says.
  void Join(proto::Register registration, Receive receive);
  // What a daemon says arrives a little later.
  void Say(const std::string& daemon, proto::DaemonMessage message);
  void Submit(const proto::Job& job);

  void Send(server::SessionId session, const proto::CoordinatorMessage& message) override;
  void Close(server::SessionId session) override;
  absl::Status Persist(const proto::StoredJob&) override { return absl::OkStatus(); }
  void Forget(JobId) override {}
  void Notify(JobId job, const proto::FollowEvent& event) override;

 private:
  struct Daemon {
    server::SessionId session;
    Receive receive;
    absl::Time up_until, down_until;  // the arrival of the last message each way
  };
  void Beat();
  absl::Duration InOrder(absl::Time* last);

  World* const world_;
  server::CoordinatorCore core_;
  std::map<std::string, Daemon> daemons_;
  std::map<server::SessionId, std::string> names_;
  std::set<uint32_t> ended_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_SIM_COORDINATOR_H_
