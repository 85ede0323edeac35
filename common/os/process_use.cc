#include "common/os/process_use.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace strata {
namespace {

// Returns the number that follows `key` at the beginning of a line of `path`; 0: none.
uint64_t NumberAfter(const std::string& path, const std::string& key) {
  std::ifstream in(path);
  std::string line;
  while (std::getline(in, line)) {
    if (!absl::StartsWith(line, key)) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(key.size()), absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t number = 0;
    return !words.empty() && absl::SimpleAtoi(words[0], &number) ? number : 0;
  }
  return 0;
}

// UINT64_MAX: no limit, or no control groups of version 2.
uint64_t ControlGroupLimit() {
  uint64_t least = UINT64_MAX;
  std::ifstream own("/proc/self/cgroup");
  std::string line;
  while (std::getline(own, line)) {
    if (!absl::StartsWith(line, "0::")) continue;
    // A limit of any ancestor group applies, too.
    for (std::filesystem::path group = line.substr(3); !group.empty();
         group = group.parent_path()) {
      least = std::min(least, [&] {
        std::ifstream in(absl::StrCat("/sys/fs/cgroup", group.string(), "/memory.max"));
        uint64_t bytes = 0;
        return in >> bytes ? bytes : UINT64_MAX;
      }());
      if (group == group.parent_path()) break;
    }
  }
  return least;
}

}  // namespace

ProcessUse MeasureUse(int pid) {
  const std::string base = pid == 0 ? "/proc/self" : absl::StrCat("/proc/", pid);
  ProcessUse use;
  std::error_code error;
  for (auto it = std::filesystem::directory_iterator(base + "/fd", error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    ++use.descriptors;
  }
  if (pid == 0 && use.descriptors > 0) --use.descriptors;  // the one that reads the folder
  use.descriptors_max = NumberAfter(base + "/limits", "Max open files");
  use.resident_bytes = NumberAfter(base + "/status", "VmRSS:") * 1024;
  use.threads = static_cast<uint32_t>(NumberAfter(base + "/status", "Threads:"));
  return use;
}

uint64_t MachineMemoryBytes() {
  return std::min(NumberAfter("/proc/meminfo", "MemTotal:") * 1024, ControlGroupLimit());
}

uint64_t DefaultMemoryLimitBytes() { return MachineMemoryBytes() / 2; }

}  // namespace strata
