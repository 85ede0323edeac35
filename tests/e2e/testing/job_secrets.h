#ifndef STRATA_TESTS_E2E_TESTING_JOB_SECRETS_H_
#define STRATA_TESTS_E2E_TESTING_JOB_SECRETS_H_

#include <string>
#include <vector>

#include "proto/processes.pb.h"

namespace strata::tests {

// Returns the base64 lines of a key file, without those at a block's end that are so short that
// they may stand elsewhere by chance. A file without such lines fails the test.
std::vector<std::string> PemLines(const std::string& path);

// What an aggregator or a rank was started with; an aggregator's has the job's secret.
proto::Launch LaunchOf(int pid);

// All ways in which bytes are written down, themselves the first of them.
std::vector<std::string> Spellings(const std::string& bytes);
bool IsIn(const std::string& text, const std::vector<std::string>& spellings);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_JOB_SECRETS_H_
