#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_DAEMON_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_DAEMON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "tests/sim/cluster/sim_session.h"
#include "tests/sim/scenario/scenario.h"

namespace strata::sim {

class World;

// A host and the daemon on it, whose process may die; the host starts another one then.
class SimDaemon {
 public:
  virtual ~SimDaemon() = default;
  SimDaemon(const SimDaemon&) = delete;
  SimDaemon& operator=(const SimDaemon&) = delete;

  const std::string& name() const { return name_; }
  uint32_t host() const { return host_; }
  // "worker w1", as reasons name it.
  std::string Describe() const;
  // The process dies now; another one starts after a while.
  void Lose();
  // The same, and no other one starts.
  void LoseForGood();
  // The process stands still for so long: it hears and says nothing meanwhile.
  void Stop(absl::Duration pause);
  // The coordinator and the process do not reach each other for so long; it goes on.
  void CutOff(absl::Duration pause);
  bool is_gone() const { return is_gone_; }
  bool is_there() const { return session_ != nullptr; }
  // It is there and holds no job, or is gone for good.
  bool is_idle() const { return is_gone_ || (session_ != nullptr && RunningJobs().empty()); }

 protected:
  SimDaemon(World* world, proto::Role role, const std::string& name);

  // Once, at the end of construction.
  void Start();
  // Later, if the same process lives then.
  void After(absl::Duration delay, std::function<void()> what);
  void Say(proto::DaemonMessage message) { session_->Say(std::move(message)); }

  // A process begins: what it registers with, but for role and name.
  virtual void Begin(proto::Register* registration) = 0;
  // It is gone, with all that it held.
  virtual void Clear() = 0;
  virtual void OnMessage(const proto::CoordinatorMessage& message) = 0;
  virtual std::vector<uint32_t> RunningJobs() const = 0;
  virtual proto::Heartbeat MakeHeartbeat() { return {}; }
  // All but its line to the coordinator; or no more.
  virtual void StandStill(bool /*stands*/) {}

  World* const world_;
  const uint32_t host_;

 private:
  // The process dies.
  void Die();
  // False: it is held already, or there is none.
  bool Hold();
  // `noticed_after`: by the coordinator; infinite: by silence only.
  void End(absl::Duration noticed_after);
  void OnRejected(const std::string& reason);

  const proto::Role role_;
  const std::string name_;
  uint64_t process_ = 0;
  bool is_gone_ = false;
  std::unique_ptr<SimSession> session_;  // null: no process
};

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_SIM_DAEMON_H_
