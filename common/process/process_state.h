#ifndef STRATA_COMMON_PROCESS_PROCESS_STATE_H_
#define STRATA_COMMON_PROCESS_PROCESS_STATE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace strata {

inline constexpr char kProcessRunning[] = "running";  // also while it sleeps
inline constexpr char kProcessStopped[] = "stopped by a signal";
inline constexpr char kProcessDebugged[] = "stopped by a debugger";
inline constexpr char kProcessGone[] = "gone";

// What the kernel says that a process does now: one of the above, or "waiting for the disk".
std::string ProcessState(pid_t pid);
// Returns the CPU time in milliseconds that the process has used, with all its threads; 0 where
// that is not known.
uint64_t ProcessCpuMs(pid_t pid);

}  // namespace strata

#endif  // STRATA_COMMON_PROCESS_PROCESS_STATE_H_
