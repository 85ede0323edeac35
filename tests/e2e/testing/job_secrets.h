#ifndef STRATA_TESTS_E2E_TESTING_JOB_SECRETS_H_
#define STRATA_TESTS_E2E_TESTING_JOB_SECRETS_H_

#include <string>
#include <vector>

#include "proto/processes.pb.h"

namespace strata::tests {

// Returns the base64 lines of a key file, except those at the end of a block that are so short that
// they may occur elsewhere by chance. Fails the test if no line remains.
std::vector<std::string> PemLines(const std::string& path);

// Returns the launch message of an aggregator or a rank; an aggregator's contains the job's secret.
proto::Launch LaunchOf(int pid);

// Returns all ways in which these bytes may be written, the raw bytes first.
std::vector<std::string> Spellings(const std::string& bytes);
bool IsIn(const std::string& text, const std::vector<std::string>& spellings);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_JOB_SECRETS_H_
