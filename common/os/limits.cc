#include "common/os/limits.h"

#include "absl/strings/str_cat.h"

namespace strata {
namespace {

// A daemon with less cannot hold the smallest job besides its own buffers.
constexpr uint64_t kMemoryBytesMin = 1 << 20;
constexpr uint32_t kConnectionsTop = 60000;

absl::Status CheckRange(const char* option, uint64_t value, uint64_t min, uint64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, ": ", value, " is not in ", min, " to ", max));
}

absl::Status CheckMemory(uint64_t bytes) {
  if (bytes == 0 || bytes >= kMemoryBytesMin) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--memory-limit: ", bytes, " bytes are less than 1 MiB"));
}

}  // namespace

absl::Status CoordinatorLimits::Validate() const {
  absl::Status sessions = CheckRange("sessions", sessions_max, 1, kConnectionsTop);
  return sessions.ok() ? CheckRange("calls", calls_max, 1, kConnectionsTop) : sessions;
}

absl::Status ServerLimits::Validate() const {
  absl::Status connections = CheckRange("connections", connections_max, 1, kConnectionsTop);
  return connections.ok() ? CheckMemory(memory_bytes) : connections;
}

absl::Status WorkerLimits::Validate() const { return CheckMemory(memory_bytes); }

}  // namespace strata
