#ifndef STRATA_COMMON_OS_PROCESS_USE_H_
#define STRATA_COMMON_OS_PROCESS_USE_H_

#include <cstdint>

namespace strata {

// A process's resources from /proc; all 0 if it cannot be read (the process is gone).
struct ProcessUse {
  uint64_t descriptors = 0;
  uint64_t descriptors_max = 0;  // `ulimit -n`
  uint64_t resident_bytes = 0;
  uint32_t threads = 0;
};
// `pid` 0: this process.
ProcessUse MeasureUse(int pid = 0);

// Returns the memory available to this process: the machine's, or its control group's limit if that
// is less.
uint64_t MachineMemoryBytes();

// A daemon's default memory limit for jobs: half of MachineMemoryBytes, since a host may run a
// server and a worker, and the ranks' own memory comes on top.
uint64_t DefaultMemoryLimitBytes();

}  // namespace strata

#endif  // STRATA_COMMON_OS_PROCESS_USE_H_
