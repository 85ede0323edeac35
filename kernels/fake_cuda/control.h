#ifndef STRATA_KERNELS_FAKE_CUDA_CONTROL_H_
#define STRATA_KERNELS_FAKE_CUDA_CONTROL_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace fake_cuda {

// The devices of this process and their faults.
struct Settings {
  int devices = 1;
  size_t memory_bytes = size_t{4} << 30;  // per device
  size_t taken_bytes = 0;                 // used by others
  int driver = 13000;                     // its version; 0: no driver is installed
  uint32_t fails_at = 0;                  // the Nth launch, from 1, ends in `error`; 0: none does
  int error = 719;                        // cudaErrorLaunchFailure
  uint32_t delay_us = 0;                  // additional time per copy and launch
  // A process may open memory that it shares itself, which CUDA refuses: for tests with threads
  // instead of processes.
  bool opens_own = false;
  // Whether kernels of one device may access memory of another; copies always work.
  bool peers = true;
  // Faults of a communicator's ranks: this rank's Nth collective, from 1, ends in an error (0: none
  // does); this rank never joins.
  uint32_t nccl_fails_rank = 0, nccl_fails_at = 0;
  uint32_t nccl_absent_rank = UINT32_MAX;
  uint32_t cudnn_fails_at = 0;  // like fails_at, for cuDNN's executions, which fail synchronously

  bool operator==(const Settings&) const = default;
};

// Also forgets launches and failures. Not while streams work.
void Configure(const Settings& settings);
const Settings& CurrentSettings();

// Parses "devices=2,memory_mb=64 (or memory_kb),driver=0,fails_at=3,error=700,delay_us=50,
// opens_own=1,peers=0,nccl_fails_at=9,nccl_fails_rank=1,nccl_absent_rank=2,cudnn_fails_at=7".
// Nothing is forgotten if the settings are unchanged. Errors: InvalidArgument.
absl::Status ConfigureFrom(const std::string& options);

// Bytes of device memory that this process has allocated and not freed; opened memory of others.
size_t AllocatedBytes();
size_t OpenedBytes();
// A bit for each device that it has opened: by choosing it, or by a call of a thread that had
// chosen none, which is device 0 then.
uint64_t UsedDevices();
// Number of timed events made so far.
uint64_t TimedEvents();

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_CONTROL_H_
