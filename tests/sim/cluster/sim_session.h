#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_SESSION_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_SESSION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/control/outbox.h"
#include "common/process/owned_timers.h"
#include "common/transport/sim/sim_network.h"
#include "proto/control.pb.h"
#include "tests/sim/cluster/control_stream.h"

namespace strata::sim {

class World;

// A daemon's line to the coordinator, as control::Session keeps it: registers, again after each
// break with the jobs that the daemon holds, and says in order what it is given to say. Lives as
// long as the daemon's process.
class SimSession final : public ControlStream::Client {
 public:
  struct Callbacks {
    std::function<void(const proto::CoordinatorMessage& message)> on_message;
    std::function<std::vector<uint32_t>()> running_jobs;
    std::function<proto::Heartbeat()> heartbeat;
    // Refused for good; the process is about to exit. May not destroy the session.
    std::function<void(const std::string& reason)> on_rejected;
  };

  // `registration` without what a session fills in.
  SimSession(World* world, proto::Register registration, Callbacks callbacks);
  // The coordinator learns of it so much later; infinite: by silence only.
  void Die(absl::Duration noticed_after);

  void Say(proto::DaemonMessage message);
  // Nothing comes in or goes out until it is let go.
  void Hold() { held_ = true; }
  void LetGo();
  bool is_held() const { return held_; }

  const std::string& name() const override { return registration_.name(); }
  bool is_registered() const override { return registered_ && !held_; }
  void OnMessage(const proto::CoordinatorMessage& message) override;
  proto::Heartbeat MakeHeartbeat() override { return callbacks_.heartbeat(); }
  void OnBroken() override;

 private:
  void Dial();
  void Flush();

  World* const world_;
  const Callbacks callbacks_;
  proto::Register registration_;
  control::Outbox outbox_;
  std::shared_ptr<ControlStream> line_;
  bool registered_ = false;  // on the present line
  bool rejected_ = false;
  bool held_ = false;
  std::vector<std::function<void()>> waiting_;  // until it is let go
  OwnedTimers<transport::SimNetwork> timers_;
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_SESSION_H_
