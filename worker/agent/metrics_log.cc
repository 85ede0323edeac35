#include "worker/agent/metrics_log.h"

#include "worker/agent/metrics_line.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {

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
