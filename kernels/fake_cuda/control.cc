#include "kernels/fake_cuda/control.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/fake_cuda/memory.h"
#include "kernels/fake_cuda/streams.h"

namespace fake_cuda {
namespace {

Settings& Mutable() {
  static Settings settings;
  return settings;
}

}  // namespace

void Configure(const Settings& settings) {
  Mutable() = settings;
  ForgetFailures();
  ForgetExecutions();
}
const Settings& CurrentSettings() { return Mutable(); }

absl::Status ConfigureFrom(const std::string& options) {
  Settings settings;
  for (const auto option : absl::StrSplit(options, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(option, absl::MaxSplits('=', 1));
    uint32_t value = 0;
    if (!absl::SimpleAtoi(pair.second, &value)) {
      return absl::InvalidArgumentError(absl::StrCat(option, ": is not NAME=NUMBER"));
    }
    if (pair.first == "devices") {
      settings.devices = static_cast<int>(value);
    } else if (pair.first == "memory_mb") {
      settings.memory_bytes = size_t{value} << 20;
    } else if (pair.first == "memory_kb") {
      settings.memory_bytes = size_t{value} << 10;
    } else if (pair.first == "taken_mb") {
      settings.taken_bytes = size_t{value} << 20;
    } else if (pair.first == "driver") {
      settings.driver = static_cast<int>(value);
    } else if (pair.first == "fails_at") {
      settings.fails_at = value;
    } else if (pair.first == "error") {
      settings.error = static_cast<int>(value);
    } else if (pair.first == "cudnn_fails_at") {
      settings.cudnn_fails_at = value;
    } else if (pair.first == "delay_us") {
      settings.delay_us = value;
    } else if (pair.first == "opens_own") {
      settings.opens_own = value != 0;
    } else if (pair.first == "peers") {
      settings.peers = value != 0;
    } else if (pair.first == "nccl_fails_rank") {
      settings.nccl_fails_rank = value;
    } else if (pair.first == "nccl_fails_at") {
      settings.nccl_fails_at = value;
    } else if (pair.first == "nccl_absent_rank") {
      settings.nccl_absent_rank = value;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(option, ": is no option of the fake device"));
    }
  }
  if (!(settings == CurrentSettings())) Configure(settings);
  return absl::OkStatus();
}

size_t AllocatedBytes() { return DeviceMemory::Get().allocated(); }
size_t OpenedBytes() { return DeviceMemory::Get().opened(); }

}  // namespace fake_cuda
