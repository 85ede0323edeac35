#ifndef STRATA_COMMON_CORES_H_
#define STRATA_COMMON_CORES_H_

#include <sched.h>

#include <cstdint>

namespace strata {

// How many cores this process may run on; at least 1.
inline uint32_t UsableCores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return static_cast<uint32_t>(CPU_COUNT(&cores));
}

}  // namespace strata

#endif  // STRATA_COMMON_CORES_H_
