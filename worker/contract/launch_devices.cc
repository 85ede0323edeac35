#include "worker/contract/launch_devices.h"

#include <map>

#include "absl/strings/str_format.h"
#include "kernels/device/load_plugin.h"

namespace strata::worker {
namespace {

absl::StatusOr<uint32_t> IndexOf(const proto::Launch& launch, uint32_t local_rank) {
  const int rank = static_cast<int>(local_rank);
  if (rank < launch.devices_size()) return launch.devices(rank);
  return absl::InvalidArgumentError(
      absl::StrFormat("the launch names no device for local rank %d", local_rank));
}

// Of some local ranks, in their order.
absl::StatusOr<std::vector<std::shared_ptr<device::Device>>> Use(const proto::Launch& launch,
                                                                 uint32_t first, uint32_t end) {
  absl::StatusOr<std::shared_ptr<device::Devices>> devices =
      device::LoadPlugin(launch.device_plugin());
  if (!devices.ok()) return devices.status();
  std::map<uint32_t, std::shared_ptr<device::Device>> used;  // by index
  std::vector<std::shared_ptr<device::Device>> by_rank;
  for (uint32_t r = first; r < end; ++r) {
    const absl::StatusOr<uint32_t> index = IndexOf(launch, r);
    if (!index.ok()) return index.status();
    std::shared_ptr<device::Device>& device = used[*index];
    if (device == nullptr) {
      absl::StatusOr<std::shared_ptr<device::Device>> taken = (*devices)->Use(*index);
      if (!taken.ok()) return taken.status();
      device = *std::move(taken);
    }
    by_rank.push_back(device);
  }
  return by_rank;
}

}  // namespace

bool AggregatorUsesDevices(const proto::Job& job) {
  return job.device() == proto::Job::GPU && job.exchange() != proto::Job::NCCL;
}

bool RanksAddUp(const proto::Launch& launch) {
  return launch.record().job().node_sum() == proto::NodeSum::NCCL && launch.local_ranks() > 1;
}

absl::Status ExpectOwnDevices(const proto::Launch& launch, absl::string_view asks) {
  for (int r = 0; r < launch.devices_size(); ++r) {
    for (int other = 0; other < r; ++other) {
      if (launch.devices(r) != launch.devices(other)) continue;
      return absl::FailedPreconditionError(absl::StrFormat(
          "%s needs a GPU for each rank, but ranks %d and %d both have GPU %d of %s", asks,
          launch.first_rank() + other, launch.first_rank() + r, launch.devices(r),
          launch.node_name()));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<device::Device>> UseDevice(const proto::Launch& launch,
                                                          uint32_t local_rank) {
  auto used = Use(launch, local_rank, local_rank + 1);
  if (!used.ok()) return used.status();
  return used->front();
}

absl::StatusOr<std::vector<std::shared_ptr<device::Device>>> UseDevices(
    const proto::Launch& launch) {
  return Use(launch, 0, launch.local_ranks());
}

}  // namespace strata::worker
