#ifndef STRATA_CLI_BENCH_BENCH_KERNELS_H_
#define STRATA_CLI_BENCH_BENCH_KERNELS_H_

#include "cli/program/invocation.h"

namespace strata::cli {

// `bench kernels`: runs the program strata-kernels, which lies beside this one.
void AddKernelsBench(CLI::App* bench, Invocation* invocation);

}  // namespace strata::cli

#endif  // STRATA_CLI_BENCH_BENCH_KERNELS_H_
