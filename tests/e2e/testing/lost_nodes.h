#ifndef STRATA_TESTS_E2E_TESTING_LOST_NODES_H_
#define STRATA_TESTS_E2E_TESTING_LOST_NODES_H_

#include <signal.h>

#include <cstdint>
#include <set>
#include <string>

namespace strata::tests {

// Sends the signal to one of the test's ranks or aggregators (ListProcesses).
void KillProcess(const std::string& subcommand, int signal = SIGKILL);

// Expects one model by step of all `nodes` of a job with debug.hash_weights: those that are not
// `gone` have all steps and the final weights; what one that has died had written last may be cut
// short.
void ExpectOneModel(const std::string& run_dir, uint32_t nodes, uint64_t steps,
                    const std::set<uint32_t>& gone);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_LOST_NODES_H_
