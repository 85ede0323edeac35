#ifndef STRATA_WORKER_AGGREGATOR_AGGREGATOR_H_
#define STRATA_WORKER_AGGREGATOR_AGGREGATOR_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "common/checkpoint/store.h"
#include "proto/processes.pb.h"
#include "worker/aggregator/core/node_arenas.h"
#include "worker/contract/rank_protocol.pb.h"
#include "worker/exchange/core/peerless_core.h"

namespace strata::worker {

struct AggregatorOptions {
  // Ends the run when readable; -1: none.
  int stop_fd = -1;
  // Threads that help to add while ranks sleep; absent: as many as there are cores for.
  std::optional<uint32_t> helpers;
  // Overrides the exchange that the job's record names; for measurements. Not with device: GPU.
  std::function<std::unique_ptr<PeerlessCore>(NodeArenas* arenas)> exchange;
  // Opens the job's checkpoints, where nodes write some. RunAggregatorProcess fills it in.
  StoreOpener open_store;
  // Ends what waits for these, once the job's end has waited for long enough.
  std::stop_source stores;
};

// One job's aggregator on one node: gathers the ranks that the launch names, tells the worker
// daemon NodeReady, waits for RunNode, and then joins the ranks to the exchange until they have
// finished and gone. Blocks for the whole job, on the caller's thread.
//
// Errors, of which the daemon and the ranks are told as well: InvalidArgument (ranks that differ, a
// gradient that is not finite), Unavailable (a rank, a server or the daemon is gone), Cancelled
// (stop_fd), each one line that names who.
absl::Status RunAggregator(const proto::Launch& launch, const AggregatorOptions& options);

// Does so as a process's whole work: SIGTERM, SIGINT and SIGHUP end it. Call it from main before
// any thread has started.
absl::Status RunAggregatorProcess(const proto::Launch& launch, AggregatorOptions options = {});

// Checks that ranks that offer this can make the steps of a node that died; OK if the node's
// process replaces no other one. Errors: FailedPrecondition naming the node and what it lacks.
absl::Status CheckCanRejoin(const proto::Launch& launch, const proto::Offer& offer);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_AGGREGATOR_H_
