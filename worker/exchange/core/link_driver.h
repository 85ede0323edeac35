#ifndef STRATA_WORKER_EXCHANGE_CORE_LINK_DRIVER_H_
#define STRATA_WORKER_EXCHANGE_CORE_LINK_DRIVER_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/job/trace_log.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/core/link_core.h"

namespace strata::worker {

// Feeds a LinkCore with an endpoint's events, and performs the core's actions. Another core may use
// the same endpoint: it gets the events of connections that it has asked for.
//
// Threads: one.
class LinkDriver {
 public:
  // Performs the core's request to the node; may add to `actions`. Errors end the job.
  using OnNode = std::function<absl::Status(const NodeAction& action, CoreActions* actions)>;

  // The arguments outlive it. `trace` records frames sent for chunks; null: none.
  LinkDriver(LinkCore* core, transport::Endpoint* endpoint, const ClockInterface* clock,
             OnNode on_node, TraceLog* trace = nullptr);

  // Adds the other core, which makes no requests to the node.
  void Add(LinkCore* beside) { cores_.push_back({beside, {}}); }

  // Makes `call`, a call of the core with (absl::Time now, CoreActions*), and performs the cores'
  // actions until there are none left, even after an error. Errors: the first of all these calls'.
  template <typename Call>
  absl::Status Run(Call call) {
    absl::Status status = call(clock_->Now(), &cores_[0].actions);
    return Act(std::move(status));
  }
  // The same with the other core.
  template <typename Call>
  absl::Status RunBeside(Call call) {
    absl::Status status = call(clock_->Now(), &cores_[1].actions);
    return Act(std::move(status));
  }
  // Waits up to `timeout` for something to happen. Errors: the core's.
  absl::Status Poll(absl::Duration timeout);
  // The frames that the endpoint has refused or could not read.
  transport::Refusals refusals() const;

 private:
  struct Driven {
    LinkCore* core;
    CoreActions actions;  // that it has asked for
  };

  // The core that the connection's events are for.
  Driven& CoreOf(transport::ConnectionId connection);
  absl::Status Handle(const transport::Event& event);
  // Returns `status`, or if that is OK the first error of the performed actions.
  absl::Status Act(absl::Status status);
  absl::Status ActFor(Driven* driven, absl::Status status);
  absl::Status Do(const WireAction& action, Driven* driven);
  absl::Status Send(const WireAction& action, absl::Time now, Driven* driven);

  std::vector<Driven> cores_;                            // one or two
  absl::flat_hash_set<transport::ConnectionId> beside_;  // connections of the second
  transport::Endpoint* const endpoint_;
  const ClockInterface* const clock_;
  const OnNode on_node_;
  TraceLog* const trace_;
  std::vector<transport::Event> events_;
  uint64_t malformed_ = 0;  // besides frames with an invalid seal, which the endpoint counts
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_LINK_DRIVER_H_
