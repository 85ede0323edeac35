#ifndef STRATA_TESTS_SIM_CLUSTER_SIM_DAEMON_H_
#define STRATA_TESTS_SIM_CLUSTER_SIM_DAEMON_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/control/outbox.h"
#include "common/os/event_loop.h"
#include "common/transport/sim/sim_network.h"
#include "proto/control.pb.h"
#include "server/coordinator/members/membership.h"
#include "tests/sim/check/scenario.h"

namespace strata::sim {

// One connection from a daemon's process to the coordinator's. Messages arrive in order, each way,
// until it breaks; what is on its way then is lost.
struct ControlStream {
  class Client {
   public:
    virtual ~Client() = default;
    virtual const std::string& name() const = 0;
    virtual bool is_registered() const = 0;
    virtual void OnMessage(const proto::CoordinatorMessage& message) = 0;
    virtual proto::Heartbeat MakeHeartbeat() = 0;
    // Nothing more comes.
    virtual void OnBroken() = 0;
  };

  server::SessionId session;
  uint64_t process = 0;  // of the coordinator
  std::string daemon;
  proto::Register registration;  // that went over it
  Client* client = nullptr;      // null: gone
  bool breaks_soon = false, broken = false;
  absl::Time up_until, down_until;  // the arrival of the last message each way
  absl::Time silent_until;          // what the daemon says arrives no sooner
};

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
  // The coordinator and the process do not reach each other for so long; it continues.
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
