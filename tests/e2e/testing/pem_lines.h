#ifndef STRATA_TESTS_E2E_TESTING_PEM_LINES_H_
#define STRATA_TESTS_E2E_TESTING_PEM_LINES_H_

#include <string>
#include <vector>

namespace strata::tests {

// What a key file consists of: its lines of base64, but for those at a block's end that are so
// short that they may stand elsewhere by chance. A file without such lines fails the test.
std::vector<std::string> PemLines(const std::string& path);

}  // namespace strata::tests

#endif  // STRATA_TESTS_E2E_TESTING_PEM_LINES_H_
