#ifndef STRATA_CLI_BENCH_BENCH_TRAIN_H_
#define STRATA_CLI_BENCH_BENCH_TRAIN_H_

#include "cli/program/invocation.h"

namespace strata::cli {

// `bench train`: a job's trainer with each exchange and with none.
void AddTrainBench(CLI::App* bench, Invocation* invocation);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_BENCH_TRAIN_H_
