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

// Reads the launch file that a rank or an aggregator is started with. Errors: NotFound,
// InvalidArgument, each naming the file.
absl::StatusOr<proto::Launch> ReadLaunch(const std::string& path);

}  // namespace strata::client

namespace strata::worker {

// True if the aggregator of such a job has its ranks' arenas on their devices.
bool AggregatorUsesDevices(const proto::Job& job);

// True if the node's ranks add up their gradients themselves, onto the first one's device
// (node_sum: NCCL, where there is more than one).
bool RanksAddUp(const proto::Launch& launch);

// NCCL has no more than one rank on a device. `asks`: the field of the job that wants it. Errors:
// FailedPrecondition, naming two ranks of the node, and their GPU.
absl::Status ExpectOwnDevices(const proto::Launch& launch, absl::string_view asks);

// Devices of a job with device: GPU, as its launch says; taken into use by this process. Errors:
// InvalidArgument (the launch names none for a rank), those of device::LoadPlugin and
// device::Devices::Use.

// The one that the local rank computes on.
absl::StatusOr<std::shared_ptr<device::Device>> UseDevice(const proto::Launch& launch,
                                                          uint32_t local_rank);
// By local rank; ranks that share a device have the same one.
absl::StatusOr<std::vector<std::shared_ptr<device::Device>>> UseDevices(
    const proto::Launch& launch);

}  // namespace strata::worker

#endif  // STRATA_WORKER_CONTRACT_LAUNCH_H_
