#ifndef STRATA_TESTS_SIM_CLUSTER_CONTROL_STREAM_H_
#define STRATA_TESTS_SIM_CLUSTER_CONTROL_STREAM_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "proto/control.pb.h"
#include "server/coordinator/members/membership.h"

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

}  // namespace strata::sim

#endif  // STRATA_TESTS_SIM_CLUSTER_CONTROL_STREAM_H_
