#ifndef STRATA_COMMON_CORES_H_
#define STRATA_COMMON_CORES_H_

#include <cstdint>
#include <string>

namespace strata {

// Returns the number of processors that this process may be scheduled on; at least 1.
uint32_t AllowedProcessors();

// Returns the number of cores that this process may use; at least 1. Like AllowedProcessors, or
// fewer if its control group (a container's) has a smaller quota.
uint32_t UsableCores();

// Returns the number of cores for a quota, rounded up; UINT32_MAX: no limit. `cpu_max` is the
// content of a control group's cpu.max: "150000 100000", "max 100000".
uint32_t CoresOfQuota(const std::string& cpu_max);

}  // namespace strata

#endif  // STRATA_COMMON_CORES_H_
