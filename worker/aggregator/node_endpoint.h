#ifndef STRATA_WORKER_AGGREGATOR_NODE_ENDPOINT_H_
#define STRATA_WORKER_AGGREGATOR_NODE_ENDPOINT_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/transport/endpoint.h"
#include "common/transport/region/region_memory.h"
#include "proto/record.pb.h"

namespace strata::worker {

// Memory that peers of this host may read, as the job wants it; null: it does not, or the system
// has none, which is logged, and payloads go over TCP.
std::shared_ptr<transport::RegionMemory> MemoryForPeers(const proto::Job& job);

// The endpoint of a node that connects to the servers of the record, which may read `gradients`,
// too, where they lie. Errors: ResourceExhausted (fewer file descriptors than its connections
// need).
absl::StatusOr<std::unique_ptr<transport::Endpoint>> ConnectingEndpoint(
    const proto::JobRecord& record, uint32_t local_ranks,
    std::shared_ptr<transport::SharedSegment> gradients);

// The same endpoint, or, where the record says that the job's frames are sealed, one that seals
// them and takes no others. `own_address`: under which other nodes reach it; empty: they do not.
// Errors: InvalidArgument (the record).
absl::StatusOr<std::unique_ptr<transport::Endpoint>> Protected(
    const proto::JobRecord& record, const std::string& own_address,
    std::unique_ptr<transport::Endpoint> endpoint);

// Whether a node's only rank may lend its gradients to the exchange, see NodeArenasOptions. In an
// all-reduce, neighbours may ask for a repetition of what they have taken.
bool MayLendGradients(const proto::Job& job);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_NODE_ENDPOINT_H_
