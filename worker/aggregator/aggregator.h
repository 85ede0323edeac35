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
  // Threads that help to sum while ranks sleep; absent: as many as there are free cores.
  std::optional<uint32_t> helpers;
  // Overrides the job record's exchange; for measurements. Not with device: GPU.
  std::function<std::unique_ptr<PeerlessCore>(NodeArenas* arenas)> exchange;
  // Opens the job's checkpoints, if nodes write any. RunAggregatorProcess sets it.
  StoreOpener open_store;
  // Ends waits for the stores, once the job's end has waited long enough.
  std::stop_source stores;
};

// Runs one job's aggregator on one node: gathers the ranks in the launch, sends the worker daemon
// NodeReady, waits for RunNode, and then connects the ranks to the exchange until they have
// finished and left. Blocks for the whole job, on the caller's thread.
//
// Errors, which the daemon and the ranks are told as well, in one line that names who:
// InvalidArgument (ranks that differ, a gradient that is not finite), Unavailable (a rank, a server
// or the daemon is gone), Cancelled (stop_fd).
absl::Status RunAggregator(const proto::Launch& launch, const AggregatorOptions& options);

// RunAggregator as a process's main work: SIGTERM, SIGINT and SIGHUP end it. Call it from main
// before any thread has started.
absl::Status RunAggregatorProcess(const proto::Launch& launch, AggregatorOptions options = {});

// Checks that ranks with this offer can make the steps of a node that died; OK if the node's
// process is not a replacement. Errors: FailedPrecondition naming the node and what it lacks.
absl::Status CheckCanRejoin(const proto::Launch& launch, const proto::Offer& offer);

}  // namespace strata::worker

#endif  // STRATA_WORKER_AGGREGATOR_AGGREGATOR_H_
