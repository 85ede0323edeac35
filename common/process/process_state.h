#ifndef STRATA_COMMON_PROCESS_PROCESS_STATE_H_
#define STRATA_COMMON_PROCESS_PROCESS_STATE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace strata {

inline constexpr char kProcessRunning[] = "running";

// What the kernel says that a process does now: kProcessRunning (also while it sleeps), "stopped by
// a signal", "stopped by a debugger", "waiting for the disk" or "gone".
std::string ProcessState(pid_t pid);
// Returns the CPU time in milliseconds that the process has used, with all its threads; 0 where
// that is not known.
uint64_t ProcessCpuMs(pid_t pid);

}  // namespace strata

#endif  // STRATA_COMMON_PROCESS_PROCESS_STATE_H_
