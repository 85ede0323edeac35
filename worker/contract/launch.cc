#include "worker/contract/launch.h"

#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/os/atomic_file.h"
#include "common/os/message_bounds.h"
#include "google/protobuf/text_format.h"
#include "kernels/device/load_plugin.h"

namespace strata::client {
namespace {

constexpr size_t kLaunchBytesMax = 16 << 20;
constexpr absl::string_view kOwnFiles = "/proc/self/fd/";

}  // namespace

absl::StatusOr<proto::Launch> ReadLaunch(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kLaunchBytesMax);
  proto::Launch launch;
  const bool is_launch = text.ok() && google::protobuf::TextFormat::ParseFromString(*text, &launch);
  // The rank has the file by descriptor number, which other programs do not inherit.
  if (!is_launch && absl::StartsWith(path, kOwnFiles)) {
    return absl::FailedPreconditionError(
        "this process was started by a rank, and is none: only the rank itself takes part in the "
        "job (without STRATA_LAUNCH in its environment it is a job of its own)");
  }
  if (!text.ok()) return text.status();
  if (!is_launch) return absl::InvalidArgumentError(absl::StrCat(path, " is not a launch file"));
  if (const absl::Status bounded = CheckBounds(launch); !bounded.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", bounded.message()));
  }
  if (launch.local_ranks() == 0 || launch.record().job().ranks() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": names no ranks"));
  }
  return launch;
}

}  // namespace strata::client

namespace strata::worker {
namespace {

absl::StatusOr<uint32_t> IndexOf(const proto::Launch& launch, uint32_t local_rank) {
  const int rank = static_cast<int>(local_rank);
  if (rank < launch.devices_size()) return launch.devices(rank);
  return absl::InvalidArgumentError(
      absl::StrFormat("the launch names no device for local rank %d", local_rank));
}

// Opens the devices of some local ranks, in their order.
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
