#include "tests/e2e/testing/lost_nodes.h"

#include <map>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "tests/e2e/testing/jobs.h"
#include "tests/e2e/testing/leftovers.h"

namespace strata::tests {

void KillProcess(const std::string& subcommand, int signal) {
  const std::vector<int> processes = ListProcesses(subcommand);
  ASSERT_FALSE(processes.empty()) << subcommand;
  kill(processes.back(), signal);
}

void ExpectOneModel(const std::string& run_dir, uint32_t nodes, uint64_t steps,
                    const std::set<uint32_t>& gone) {
  std::map<std::string, std::string> hashes;
  for (uint32_t node = 0; node < nodes; ++node) {
    const std::vector<std::string> lines = Hashes(run_dir, static_cast<int>(node));
    const bool is_left = !gone.contains(node);
    if (is_left) {
      EXPECT_EQ(lines.size(), steps + 1) << "node " << node;
    }
    for (size_t i = 0; i < lines.size(); ++i) {
      if (!is_left && i + 1 == lines.size()) break;
      const std::vector<std::string> parts = absl::StrSplit(lines[i], ' ');
      ASSERT_EQ(parts.size(), 2) << lines[i];
      const auto [known, is_new] = hashes.try_emplace(parts[0], parts[1]);
      EXPECT_EQ(known->second, parts[1]) << "node " << node << ", step " << parts[0];
    }
  }
  EXPECT_EQ(hashes.size(), steps + 1);
  EXPECT_TRUE(hashes.contains("final"));
}

}  // namespace strata::tests
