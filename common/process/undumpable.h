#ifndef STRATA_COMMON_PROCESS_UNDUMPABLE_H_
#define STRATA_COMMON_PROCESS_UNDUMPABLE_H_

#include "common/process/environment.h"

namespace strata {

// A variable for who debugs daemons: where it is set, MakeUndumpable does nothing.
inline constexpr char kDumpable[] = "STRATA_DUMPABLE";

// Keeps other processes of this user out of this one's memory and descriptors: they may not trace
// it, read its memory or open what is in /proc/PID but what all users see (stat, status, cmdline).
// It leaves no core file either. Root may all that. The next exec ends it, so programs that this
// process starts are as any others. To be called first: who was quicker keeps what it has got.
void MakeUndumpable(const Environment& environment);

}  // namespace strata

#endif  // STRATA_COMMON_PROCESS_UNDUMPABLE_H_
