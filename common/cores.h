#ifndef STRATA_COMMON_CORES_H_
#define STRATA_COMMON_CORES_H_

#include <cstdint>
#include <string>

namespace strata {

// Returns the number of processors that this process may be scheduled on; at least 1.
uint32_t AllowedProcessors();

// Returns the number of cores that this process may use; at least 1. As AllowedProcessors, or fewer
// if the quota of its control group (a container's) is smaller.
uint32_t UsableCores();

// Returns the cores that a quota is worth, rounded up; UINT32_MAX: there is no limit. `cpu_max` is
// the content of a control group's cpu.max: "150000 100000", "max 100000".
uint32_t CoresOfQuota(const std::string& cpu_max);

}  // namespace strata

#endif  // STRATA_COMMON_CORES_H_
