#include "worker/agent/metrics_log.h"

#include <algorithm>

#include "absl/status/statusor.h"
#include "worker/agent/metrics_line.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {

absl::Status MetricsLog::GoOn() {
  const absl::StatusOr<MetricsWritten> written = KeepMetricsUpTo(UINT64_MAX, path_);
  if (!written.ok()) return written.status();
  last_step_ = std::max(last_step_, written->step);
  last_measured_step_ = written->measured_step;
  final_written_ = written->final;
  return absl::OkStatus();
}

absl::Status MetricsLog::Append(const proto::MetricsRecord& record) {
  const bool only_measured = record.final() && record.step() == last_step_;
  uint64_t& last_step = IsLateMeasurement(record) ? last_measured_step_ : last_step_;
  if (final_written_ || (record.step() <= last_step && !only_measured)) return absl::OkStatus();
  last_step = record.step();
  if (absl::Status status = AppendLine(path_, MetricsLine(record)); !status.ok()) return status;
  final_written_ = record.final();
  return absl::OkStatus();
}

}  // namespace strata::worker
