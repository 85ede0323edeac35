#ifndef STRATA_TESTS_E2E_TESTING_LEFTOVERS_H_
#define STRATA_TESTS_E2E_TESTING_LEFTOVERS_H_

#include <signal.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace strata::tests {

// Processes of Strata with an open file under TestDir(): ranks, aggregators and daemons have their
// logs there. "PID: COMMAND LINE".
std::vector<std::string> Processes();
// Ids of those that run `strata rank` or `strata aggregator`.
std::vector<int> ListProcesses(const std::string& subcommand);

// TCP ports on which the process listens.
std::vector<int> ListeningPorts(int pid);

// Traces of these processes that could outlive them: names of Unix sockets, files in /dev/shm,
// temporary folders of `strata local`.
std::vector<std::string> Traces();
// Returns those of `traces` that still exist.
std::vector<std::string> Remaining(const std::vector<std::string>& traces);
// The same, once at most `sockets` of them are abstract sockets, or after 20 s. A killed process
// loses its command line, so that Processes() omits it, a moment before its sockets are closed.
std::vector<std::string> RemainingAtLast(const std::vector<std::string>& traces, int sockets = 0);

// Sends the signal to one of the test's ranks or aggregators (ListProcesses).
void KillProcess(const std::string& subcommand, int signal = SIGKILL);

// Expects the same model at every step on all `nodes` of a job with debug.hash_weights. Nodes that
// are not `gone` have all steps and the final weights; the last line of one that died may be cut
// short.
void ExpectOneModel(const std::string& run_dir, uint32_t nodes, uint64_t steps,
                    const std::set<uint32_t>& gone);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_LEFTOVERS_H_
