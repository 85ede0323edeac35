#ifndef STRATA_KERNELS_CUDA_NCCL_COMMUNICATOR_H_
#define STRATA_KERNELS_CUDA_NCCL_COMMUNICATOR_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "kernels/device/communicator.h"

namespace strata::cuda {

// Contracts: device::Device, by NCCL, which the first call loads. Further errors: Unimplemented
// (built without NCCL's header), NotFound (the library).
absl::StatusOr<std::string> NewCommunicatorId();
absl::StatusOr<std::unique_ptr<device::Communicator>> NewCommunicator(
    int device, const std::string& id, uint32_t ranks, uint32_t rank,
    const device::StillWanted& still_wanted);

}  // namespace strata::cuda

#endif  // STRATA_KERNELS_CUDA_NCCL_COMMUNICATOR_H_
