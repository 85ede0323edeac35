#ifndef STRATA_CLI_BENCH_EXCHANGE_RANK_H_
#define STRATA_CLI_BENCH_EXCHANGE_RANK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/client/client.h"

namespace strata::cli {

struct ExchangeRankOptions {
  uint64_t elements = 0;
  uint64_t steps = 0;  // warm-up included
  std::string gate;    // HOST:PORT
  bool sums = false;   // what comes back is the sum itself, by worker/aggregator alone
};

// A rank that trains nothing: it publishes a gradient of FillGradient's values and waits until the
// weights are those after it, which it compares with a computation of its own, every element and
// every step. A step's time is from the publication to the last weight, and is told at the gate.
// The job's optimizer is SGD with the rate 1, or `sums` is set; else the values are found wrong.
// Errors: those of the client and the gate.
absl::Status RunExchangeRank(client::Client* client, const ExchangeRankOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_EXCHANGE_RANK_H_
