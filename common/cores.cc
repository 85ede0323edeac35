#include "common/cores.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <sstream>

namespace strata {
namespace {

constexpr uint32_t kUnlimited = std::numeric_limits<uint32_t>::max();

// Returns the smallest quota of this process's control group and its ancestors (version 2).
uint32_t QuotaOfGroup() {
  std::ifstream groups("/proc/self/cgroup");
  std::string line, group;
  while (std::getline(groups, line)) {
    if (line.compare(0, 3, "0::") == 0) group = line.substr(3);
  }
  uint32_t cores = kUnlimited;
  while (true) {
    std::ifstream file("/sys/fs/cgroup" + group + "/cpu.max");
    cores = std::min(cores, CoresOfQuota({std::istreambuf_iterator<char>(file), {}}));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return cores;
    group.resize(slash);
  }
}

}  // namespace

uint32_t AllowedProcessors() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return static_cast<uint32_t>(CPU_COUNT(&cores));
}

uint32_t UsableCores() { return std::min(AllowedProcessors(), QuotaOfGroup()); }

uint32_t CoresOfQuota(const std::string& cpu_max) {
  double quota = 0, period = 0;
  std::istringstream in(cpu_max);
  if (!(in >> quota >> period) || quota <= 0 || period <= 0) return kUnlimited;
  const double cores = std::ceil(quota / period);
  return cores < kUnlimited ? static_cast<uint32_t>(cores) : kUnlimited;
}

}  // namespace strata
