#include "cli/cluster/lab_hosts.h"

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata::cli {

absl::StatusOr<std::vector<LabHost>> ReadLabHosts(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  std::vector<LabHost> hosts;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty()) continue;
    if (words.size() < 3) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": is not NAME ADDRESS COMMAND..."));
    }
    hosts.push_back({words[0], words[1], {words.begin() + 2, words.end()}});
  }
  return hosts;
}

}  // namespace strata::cli
