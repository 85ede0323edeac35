#ifndef STRATA_WORKER_AGGREGATOR_NODE_ENDPOINT_H_
#define STRATA_WORKER_AGGREGATOR_NODE_ENDPOINT_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/transport/endpoint.h"
#include "common/transport/region_memory.h"
#include "proto/processes.pb.h"
#include "proto/record.pb.h"
#include "worker/exchange/all_reduce/link_probe.h"
#include "worker/exchange/core/link_driver.h"

namespace strata::worker {

// Returns memory that peers on this host may read, if the job wants it; null: it does not, or the
// system has none, which is logged, and payloads go over TCP.
std::shared_ptr<transport::RegionMemory> MemoryForPeers(const proto::Job& job);

// Returns the endpoint of a node that connects to the servers of the record, which may also read
// `gradients` in place. Errors: ResourceExhausted (fewer file descriptors than its connections
// need).
absl::StatusOr<std::unique_ptr<transport::Endpoint>> ConnectingEndpoint(
    const proto::JobRecord& record, uint32_t local_ranks,
    std::shared_ptr<transport::SharedSegment> gradients);

// Returns the same endpoint, or, if the record says that the job's frames are sealed, one that
// seals them and accepts no others. `own_address`: where other nodes reach it; empty: they do not.
// Errors: InvalidArgument (the record).
absl::StatusOr<std::unique_ptr<transport::Endpoint>> Protected(
    const proto::JobRecord& record, const std::string& own_address,
    std::unique_ptr<transport::Endpoint> endpoint);

// Returns whether a node's only rank may lend its gradients to the exchange, see NodeArenasOptions.
// In an all-reduce, neighbours may ask for a repetition of frames that they have taken.
bool MayLendGradients(const proto::Job& job);

// Lets other nodes of an all-reduce find this one, from the start of its aggregator until the
// exchange takes over; meanwhile it measures the link to the next node.
//
// Threads: one. Nothing blocks but Poll.
class RingPort {
 public:
  // Listens at launch.listen. `clock` outlives it; Poll also returns when `wake_fd` is readable.
  // Errors, naming the address: AlreadyExists, InvalidArgument, ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RingPort>> Open(const proto::Launch& launch, int wake_fd,
                                                        const ClockInterface* clock);
  ~RingPort();

  // "tcp://host:port"
  const std::string& address() const { return address_; }

  // Starts to measure; once. Errors: InvalidArgument (the record).
  absl::Status Measure(const proto::JobRecord& record);
  // The result, once.
  std::optional<proto::LinkMeasured> TakeMeasured();
  // Errors: Unavailable (the next node is unreachable), naming it.
  absl::Status Poll(absl::Duration timeout);
  bool measuring() const { return probe_ != nullptr; }
  // The frames that the endpoint has refused, until Release.
  transport::Refusals refusals() const;

  // Returns the endpoint, which still listens. No calls may follow.
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

#endif  // STRATA_WORKER_AGGREGATOR_NODE_ENDPOINT_H_
