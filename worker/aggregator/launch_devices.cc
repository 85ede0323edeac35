#include "worker/aggregator/launch_devices.h"

#include <map>

#include "absl/strings/str_format.h"
#include "kernels/device/load_plugin.h"

namespace strata::worker {
namespace {

absl::Status CheckNamed(const proto::Launch& launch, uint32_t local_rank) {
  if (local_rank < static_cast<uint32_t>(launch.devices_size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("the launch names no device for local rank %d", local_rank));
}

}  // namespace

bool AggregatorUsesDevices(const proto::Job& job) {
  return job.device() == proto::Job::GPU && job.exchange() != proto::Job::NCCL;
}

absl::StatusOr<std::shared_ptr<device::Device>> DeviceOf(const proto::Launch& launch,
                                                         uint32_t local_rank) {
  if (absl::Status status = CheckNamed(launch, local_rank); !status.ok()) return status;
  absl::StatusOr<std::shared_ptr<device::Devices>> devices =
      device::LoadPlugin(launch.device_plugin());
  if (!devices.ok()) return devices.status();
  return (*devices)->Use(launch.devices(static_cast<int>(local_rank)));
}

absl::StatusOr<std::vector<std::shared_ptr<device::Device>>> DevicesOf(
    const proto::Launch& launch) {
  absl::StatusOr<std::shared_ptr<device::Devices>> devices =
      device::LoadPlugin(launch.device_plugin());
  if (!devices.ok()) return devices.status();
  std::map<uint32_t, std::shared_ptr<device::Device>> used;  // by index
  std::vector<std::shared_ptr<device::Device>> by_rank;
  for (uint32_t r = 0; r < launch.local_ranks(); ++r) {
    if (absl::Status status = CheckNamed(launch, r); !status.ok()) return status;
    std::shared_ptr<device::Device>& device = used[launch.devices(static_cast<int>(r))];
    if (device == nullptr) {
      absl::StatusOr<std::shared_ptr<device::Device>> taken =
          (*devices)->Use(launch.devices(static_cast<int>(r)));
      if (!taken.ok()) return taken.status();
      device = *std::move(taken);
    }
    by_rank.push_back(device);
  }
  return by_rank;
}

}  // namespace strata::worker
