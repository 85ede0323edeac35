#include "tests/e2e/testing/pem_lines.h"

#include <fstream>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace strata::tests {
namespace {

constexpr size_t kTooShort = 16;

}  // namespace

std::vector<std::string> PemLines(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.size() >= kTooShort && !absl::StartsWith(line, "-----")) lines.push_back(line);
  }
  EXPECT_GE(lines.size(), 5u) << path << ": a key and a certificate";
  return lines;
}

}  // namespace strata::tests
