#ifndef STRATA_WORKER_EXCHANGE_CORE_LINE_DRIVER_H_
#define STRATA_WORKER_EXCHANGE_CORE_LINE_DRIVER_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/trace/trace_log.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// Feeds a LineCore with an endpoint's events, and does what it wants.
//
// Threads: one.
class LineDriver {
 public:
  // What the core wants of the node; may add to `actions`. Errors are the core's.
  using OnNode = std::function<absl::Status(const NodeAction& action, CoreActions* actions)>;

  // All outlive it. `trace`: of what is sent for chunks; null: none.
  LineDriver(LineCore* core, transport::Endpoint* endpoint, const ClockInterface* clock,
             OnNode on_node, TraceLog* trace = nullptr);

  // Calls the core, and does what it wants until it wants nothing more. Its first error comes from
  // the next Poll.
  template <typename Call>
  void Run(Call call) {
    call(clock_->Now(), &actions_);
    Act();
  }
  // Waits up to `timeout` for something to happen. Errors: the core's.
  absl::Status Poll(absl::Duration timeout);

 private:
  void Handle(const transport::Event& event);
  void Act();
  void Do(const WireAction& action);
  void Send(const WireAction& action, absl::Time now);
  void Keep(const absl::Status& status);

  LineCore* const core_;
  transport::Endpoint* const endpoint_;
  const ClockInterface* const clock_;
  const OnNode on_node_;
  TraceLog* const trace_;
  absl::Status status_;  // the first error
  CoreActions actions_;
  std::vector<transport::Event> events_;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_LINE_DRIVER_H_
