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

// One connection from a daemon's process to the coordinator's. Messages of each direction arrive in
// order until it breaks; messages in flight are lost then.
struct ControlStream {
  class Client {
   public:
    virtual ~Client() = default;
    virtual const std::string& name() const = 0;
    virtual bool is_registered() const = 0;
    virtual void OnMessage(const proto::CoordinatorMessage& message) = 0;
    virtual proto::Heartbeat MakeHeartbeat() = 0;
    // No more messages arrive.
    virtual void OnBroken() = 0;
  };

  server::SessionId session;
  uint64_t process = 0;  // of the coordinator
  std::string daemon;
  proto::Register registration;  // sent over it
  Client* client = nullptr;      // null: gone
  bool breaks_soon = false, broken = false;
  absl::Time up_until, down_until;  // when the last message of each direction arrives
  absl::Time silent_until;          // the daemon's messages arrive no sooner
};

class World;

// A daemon's connection to the coordinator, as control::Session keeps it. It registers, again after
// each break with the jobs that the daemon holds, and sends its messages in order. Lives as long as
// the daemon's process.
class SimSession final : public ControlStream::Client {
 public:
  struct Callbacks {
    std::function<void(const proto::CoordinatorMessage& message)> on_message;
    std::function<std::vector<uint32_t>()> running_jobs;
    std::function<proto::Heartbeat()> heartbeat;
    // The registration was refused permanently; the process is about to exit. The callback may not
    // destroy the session.
    std::function<void(const std::string& reason)> on_rejected;
  };

  // `registration` lacks the fields that a session fills in.
  SimSession(World* world, proto::Register registration, Callbacks callbacks);
  // The coordinator notices this much later; infinite: only by silence.
  void Die(absl::Duration noticed_after);

  void Say(proto::DaemonMessage message);
  // Stops all messages in both directions until LetGo.
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
  bool registered_ = false;  // on the present connection
  bool rejected_ = false;
  bool held_ = false;
  std::vector<std::function<void()>> waiting_;  // until it is let go
  OwnedTimers<transport::SimNetwork> timers_;
};

class World;

// A host and the daemon on it. If the daemon's process dies, the host starts another one.
class SimDaemon {
 public:
  virtual ~SimDaemon() = default;
  SimDaemon(const SimDaemon&) = delete;
  SimDaemon& operator=(const SimDaemon&) = delete;

  const std::string& name() const { return name_; }
  uint32_t host() const { return host_; }
  // "worker w1", as in reasons.
  std::string Describe() const;
  // The process dies now; another one starts after a while.
  void Lose();
  // The same, but no other one starts.
  void LoseForGood();
  // The process is paused: it receives and sends nothing meanwhile.
  void Stop(absl::Duration pause);
  // The coordinator and the process cannot reach each other for a while; the process continues.
  void CutOff(absl::Duration pause);
  bool is_gone() const { return is_gone_; }
  bool is_there() const { return session_ != nullptr; }
  // Returns true if it is up and holds no job, or is gone for good.
  bool is_idle() const { return is_gone_ || (session_ != nullptr && RunningJobs().empty()); }

 protected:
  SimDaemon(World* world, proto::Role role, const std::string& name);

  // Call once, at the end of construction.
  void Start();
  // Calls `what` later, if the same process is alive then.
  void After(absl::Duration delay, std::function<void()> what);
  void Say(proto::DaemonMessage message) { session_->Say(std::move(message)); }

  // A process begins. Fills in its registration, except role and name.
  virtual void Begin(proto::Register* registration) = 0;
  // The process is gone, with everything that it held.
  virtual void Clear() = 0;
  virtual void OnMessage(const proto::CoordinatorMessage& message) = 0;
  // A connection to the coordinator begins.
  virtual void OnDial() {}
  virtual std::vector<uint32_t> RunningJobs() const = 0;
  virtual proto::Heartbeat MakeHeartbeat() { return {}; }
  // Pauses or resumes everything except the connection to the coordinator.
  virtual void StandStill(bool /*stands*/) {}

  World* const world_;
  const uint32_t host_;

 private:
  // The process dies.
  void Die();
  // Returns false if it is held already or does not exist.
  bool Hold();
  // `noticed_after`: when the coordinator notices; infinite: only by silence.
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
