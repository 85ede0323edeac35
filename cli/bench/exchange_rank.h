#ifndef STRATA_CLI_BENCH_EXCHANGE_RANK_H_
#define STRATA_CLI_BENCH_EXCHANGE_RANK_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "worker/client/client.h"

namespace strata::cli {

struct ExchangeRankOptions {
  uint64_t elements = 0;
  uint64_t steps = 0;  // including warm-up
  std::string gate;    // HOST:PORT
  bool sums = false;   // the result is the sum itself, by worker/aggregator alone
};

// A rank that trains nothing: it publishes a gradient of FillGradient's values, waits for the
// resulting weights, and compares every element in every step with a computation of its own. A
// step's time is from the publication to the last weight, and is reported at the gate. The job's
// optimizer must be SGD with rate 1, or `sums` set; otherwise the values count as wrong. Errors:
// those of the client and the gate.
absl::Status RunExchangeRank(client::Client* client, const ExchangeRankOptions& options);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_EXCHANGE_RANK_H_
