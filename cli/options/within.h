#ifndef STRATA_CLI_OPTIONS_WITHIN_H_
#define STRATA_CLI_OPTIONS_WITHIN_H_

#include <CLI/CLI.hpp>

namespace strata::cli {

// CLI::Range for numbers with a fraction, which NaN does not pass.
CLI::Validator Within(double low, double high);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_WITHIN_H_
