#ifndef STRATA_CLI_BENCH_BENCH_AGGREGATE_H_
#define STRATA_CLI_BENCH_BENCH_AGGREGATE_H_

#include "cli/program/invocation.h"

namespace strata::cli {

// `bench aggregate`: the node level, and the hidden command that is its aggregator.
void AddAggregateBench(CLI::App* bench, Invocation* invocation);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_BENCH_AGGREGATE_H_
