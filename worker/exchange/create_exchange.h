#ifndef STRATA_WORKER_EXCHANGE_CREATE_EXCHANGE_H_
#define STRATA_WORKER_EXCHANGE_CREATE_EXCHANGE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/transport/endpoint.h"
#include "worker/exchange/core/exchange.h"
#include "worker/exchange/core/exchange_core.h"

namespace strata::worker {

// Returns whether the job's exchange sends a node's sums unchanged but for the codec of `push`: a
// node may then encode them itself.
bool TakesPayloads(const proto::Job& job);

// Returns the core for the job's record, with the layers that its mode adds. Errors:
// InvalidArgument naming the field of the record.
absl::StatusOr<std::unique_ptr<ExchangeCore>> CreateExchangeCore(const CoreOptions& options);

// Returns the exchange for the job's record. `endpoint` is new, or, if the record names it as the
// node's own, it listens already. `node` and `clock` outlive the exchange; Poll also returns when
// `wake_fd` is readable (-1: none). Errors: InvalidArgument naming the field of the record.
absl::StatusOr<std::unique_ptr<Exchange>> CreateExchange(
    const CoreOptions& options, std::unique_ptr<transport::Endpoint> endpoint, int wake_fd,
    ExchangeNode* node, const ClockInterface* clock);

}  // namespace strata::worker

#endif  // STRATA_WORKER_EXCHANGE_CREATE_EXCHANGE_H_
