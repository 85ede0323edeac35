#ifndef STRATA_WORKER_EXCHANGE_CREATE_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_CREATE_EXCHANGE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// True if the job's exchange sends a node's sums as they are, but for the codec of `push`: a node
// may then encode them itself.
bool TakesPayloads(const proto::Job& job);

// The core that the job's record asks for, with the layers that its mode puts on top. Errors:
// InvalidArgument naming the field of the record.
absl::StatusOr<std::unique_ptr<ExchangeCore>> CreateExchangeCore(const CoreOptions& options);

// The exchange that the job's record asks for. `endpoint` is new, or where the record names it as
// the node's own it listens already. `node` and `clock` outlive the exchange; Poll also returns
// when `wake_fd` is readable (-1: none). Errors: InvalidArgument naming the field of the record.
absl::StatusOr<std::unique_ptr<Exchange>> CreateExchange(
    const CoreOptions& options, std::unique_ptr<transport::Endpoint> endpoint, int wake_fd,
    ExchangeNode* node, const ClockInterface* clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CREATE_EXCHANGE_H_
