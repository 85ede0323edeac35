#ifndef STRATA_WORKER_EXCHANGE_CORE_LINK_DRIVER_H_
#define STRATA_WORKER_EXCHANGE_CORE_LINK_DRIVER_H_

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/job/trace_log.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/core/link_core.h"

namespace strata::worker {

// Feeds a LinkCore with an endpoint's events, and performs the core's actions.
//
// Threads: one.
class LinkDriver {
 public:
  // Performs the core's request to the node; may add to `actions`. Errors end the job.
  using OnNode = std::function<absl::Status(const NodeAction& action, CoreActions* actions)>;

  // The arguments outlive it. `trace` records frames sent for chunks; null: none.
  LinkDriver(LinkCore* core, transport::Endpoint* endpoint, const ClockInterface* clock,
             OnNode on_node, TraceLog* trace = nullptr);

  // Makes `call`, a call of the core with (absl::Time now, CoreActions*), and performs the core's
  // actions until there are none left, even after an error. Errors: the first of all these calls'.
  template <typename Call>
  absl::Status Run(Call call) {
    absl::Status status = call(clock_->Now(), &actions_);
    return Act(std::move(status));
  }
  // Waits up to `timeout` for something to happen. Errors: the core's.
  absl::Status Poll(absl::Duration timeout);
  // The frames that the endpoint has refused or could not read.
  transport::Refusals refusals() const;

 private:
  absl::Status Handle(const transport::Event& event);
  // Returns `status`, or if that is OK the first error of the performed actions.
  absl::Status Act(absl::Status status);
  absl::Status Do(const WireAction& action);
  absl::Status Send(const WireAction& action, absl::Time now);

  LinkCore* const core_;
  transport::Endpoint* const endpoint_;
  const ClockInterface* const clock_;
  const OnNode on_node_;
  TraceLog* const trace_;
  CoreActions actions_;
  std::vector<transport::Event> events_;
  uint64_t malformed_ = 0;  // besides frames with an invalid seal, which the endpoint counts
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CORE_LINK_DRIVER_H_
