#ifndef STRATA_WORKER_AGGREGATOR_RING_PORT_H_
#define STRATA_WORKER_AGGREGATOR_RING_PORT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/transport/endpoint.h"
#include "common/transport/endpoint_refusals.h"
#include "proto/processes.pb.h"
#include "worker/exchange/all_reduce/link_probe.h"
#include "worker/exchange/core/link_driver.h"

namespace strata::worker {

// Lets other nodes of an all-reduce find this one, from the start of its aggregator until the
// exchange takes it over; meanwhile it finds out what the way to the next node is like.
//
// Threads: one. Nothing blocks but Poll.
class RingPort {
 public:
  // Listens where launch.listen says. `clock` outlives it; Poll also returns when
  // `wake_fd` is readable. Errors: AlreadyExists, InvalidArgument, ResourceExhausted, naming the
  // address.
  static absl::StatusOr<std::unique_ptr<RingPort>> Open(const proto::Launch& launch, int wake_fd,
                                                        const ClockInterface* clock);
  ~RingPort();

  // "tcp://host:port"
  const std::string& address() const { return address_; }

  // Begins to measure; once. Errors: InvalidArgument (the record).
  absl::Status Measure(const proto::JobRecord& record);
  // What was found, once.
  std::optional<proto::LinkMeasured> TakeMeasured();
  // Errors: Unavailable (the next node cannot be reached), naming it.
  absl::Status Poll(absl::Duration timeout);
  bool measuring() const { return probe_ != nullptr; }
  // What the endpoint has refused, until Release.
  transport::Refusals refusals() const;

  // The endpoint, which goes on listening. Nothing may follow.
  std::unique_ptr<transport::Endpoint> Release();

 private:
  RingPort(const proto::Launch& launch, std::unique_ptr<transport::Endpoint> endpoint,
           std::string address, const ClockInterface* clock);

  const NodeId node_;
  const uint32_t incarnation_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  const std::string address_;
  const ClockInterface* const clock_;
  std::unique_ptr<LinkProbe> probe_;
  std::unique_ptr<LinkDriver> driver_;
  bool taken_ = false;
};

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_RING_PORT_H_
