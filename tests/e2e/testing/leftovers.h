#ifndef STRATA_TESTS_E2E_TESTING_LEFTOVERS_H_
#define STRATA_TESTS_E2E_TESTING_LEFTOVERS_H_

#include <signal.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace strata::tests {

// Processes of Strata that have a file under TestDir() open: ranks and aggregators by their logs,
// daemons by theirs. "PID: COMMAND LINE".
std::vector<std::string> Processes();
// The ids, of those, of `strata rank` or `strata aggregator`.
std::vector<int> ListProcesses(const std::string& subcommand);

// TCP ports on which the process listens.
std::vector<int> ListeningPorts(int pid);

// What the processes above have that could outlive them: names of Unix sockets, files in /dev/shm,
// temporary folders of `strata local`.
std::vector<std::string> Traces();
// Those of `traces` that are still there.
std::vector<std::string> Remaining(const std::vector<std::string>& traces);
// The same, once no more than `sockets` of them are abstract sockets, or after 20 s: a killed
// process has no command line any more, so that Processes() is without it, a moment before its
// sockets are closed.
std::vector<std::string> RemainingAtLast(const std::vector<std::string>& traces, int sockets = 0);

// Sends the signal to one of the test's ranks or aggregators (ListProcesses).
void KillProcess(const std::string& subcommand, int signal = SIGKILL);

// Expects one model by step of all `nodes` of a job with debug.hash_weights: those that are not
// `gone` have all steps and the final weights; what one that has died had written last may be cut
// short.
void ExpectOneModel(const std::string& run_dir, uint32_t nodes, uint64_t steps,
                    const std::set<uint32_t>& gone);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_LEFTOVERS_H_
