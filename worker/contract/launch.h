#ifndef STRATA_WORKER_CONTRACT_LAUNCH_H_
#define STRATA_WORKER_CONTRACT_LAUNCH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/device/device.h"
#include "proto/processes.pb.h"

namespace strata::client {

// Reads the launch file with which a rank or an aggregator is started. Errors: NotFound,
// InvalidArgument, each naming the file.
absl::StatusOr<proto::Launch> ReadLaunch(const std::string& path);

}  // namespace strata::client

namespace strata::worker {

// Returns whether the aggregator of such a job has its ranks' arenas on their devices.
bool AggregatorUsesDevices(const proto::Job& job);

// Returns whether the node's ranks sum their gradients themselves, onto the first one's device
// (node_sum: NCCL, with more than one rank).
bool RanksAddUp(const proto::Launch& launch);

// Checks that each rank has a device of its own, as NCCL requires. `asks`: the field of the job
// that wants NCCL. Errors: FailedPrecondition, naming two ranks of the node, and their GPU.
absl::Status ExpectOwnDevices(const proto::Launch& launch, absl::string_view asks);

// Opens devices for a job with device: GPU, as its launch says. Errors: InvalidArgument (the launch
// names none for a rank), those of device::LoadPlugin and device::Devices::Use.

// Returns the device of one local rank.
absl::StatusOr<std::shared_ptr<device::Device>> UseDevice(const proto::Launch& launch,
                                                          uint32_t local_rank);
// Returns them by local rank; ranks that share a device get the same object.
absl::StatusOr<std::vector<std::shared_ptr<device::Device>>> UseDevices(
    const proto::Launch& launch);

}  // namespace strata::worker

#endif  // STRATA_WORKER_CONTRACT_LAUNCH_H_
