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
  size_t memory_bytes = size_t{4} << 30;  // of each
  size_t taken_bytes = 0;                 // of that, by others
  int driver = 13000;                     // its version; 0: no driver is installed
  uint32_t fails_at = 0;  // the so-manieth launch, from 1, ends in `error`; 0: none does
  int error = 719;        // cudaErrorLaunchFailure
  uint32_t delay_us = 0;  // that each copy and launch takes besides
  // A process may open what it shares itself, which CUDA refuses: for tests with threads for
  // processes.
  bool opens_own = false;
  // True if kernels of one device may get access to memory of another; copies always work.
  bool peers = true;
  // Faults of a communicator's ranks: the Nth collective of this rank, from 1, ends in an error (0:
  // none does); this rank never comes.
  uint32_t nccl_fails_rank = 0, nccl_fails_at = 0;
  uint32_t nccl_absent_rank = UINT32_MAX;
  uint32_t cudnn_fails_at = 0;  // as fails_at, of cuDNN's executions, which say so at once

  bool operator==(const Settings&) const = default;
};

// Forgets launches and failures, too. Not while streams work.
void Configure(const Settings& settings);
const Settings& CurrentSettings();

// Parses "devices=2,memory_mb=64 (or memory_kb),driver=0,fails_at=3,error=700,delay_us=50,
// opens_own=1,peers=0,nccl_fails_at=9,nccl_fails_rank=1,nccl_absent_rank=2,cudnn_fails_at=7". Where
// that changes nothing, nothing is forgotten. Errors: InvalidArgument.
absl::Status ConfigureFrom(const std::string& options);

// Bytes of devices that this process has allocated and not freed; memory of others that is open.
size_t AllocatedBytes();
size_t OpenedBytes();
// A bit for each device that it has begun to use: by choosing it, or by a call of a thread that had
// chosen none, which is device 0 then.
uint64_t UsedDevices();
// How many events with a time it has ever made.
uint64_t TimedEvents();

}  // namespace fake_cuda

#endif  // STRATA_KERNELS_FAKE_CUDA_CONTROL_H_
