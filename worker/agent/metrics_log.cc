#include "worker/agent/metrics_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/unique_fd.h"
#include "worker/agent/metrics_line.h"
#include "worker/agent/runs/run_directory.h"

namespace strata::worker {
namespace {

int64_t SizeOf(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 ? facts.st_size : 0;
}

}  // namespace

absl::Status MetricsLog::GoOn() {
  const absl::StatusOr<MetricsWritten> written = KeepMetricsUpTo(UINT64_MAX, path_);
  if (!written.ok()) return written.status();
  last_step_ = std::max(last_step_, written->step);
  last_measured_step_ = written->measured_step;
  final_written_ = written->final;
  if (events_) events_->Close();
  return absl::OkStatus();
}

absl::Status MetricsLog::Append(const proto::MetricsRecord& record) {
  const bool only_measured = record.final() && record.step() == last_step_;
  uint64_t& last_step = IsLateMeasurement(record) ? last_measured_step_ : last_step_;
  if (final_written_ || (record.step() <= last_step && !only_measured)) return absl::OkStatus();
  const uint64_t kept_step = last_step_;
  last_step = record.step();
  if (absl::Status status = Write(record, kept_step); !status.ok()) return status;
  final_written_ = record.final();
  return absl::OkStatus();
}

absl::Status MetricsLog::AppendAfterEnd(const proto::MetricsRecord& record) {
  return Write(record, std::nullopt);
}

absl::Status MetricsLog::Write(const proto::MetricsRecord& record,
                               std::optional<uint64_t> kept_step) {
  if (events_) {
    if (absl::Status status = events_->Append(record, kept_step); !status.ok()) return status;
  }
  return AppendLine(path_, MetricsLine(record));
}

absl::Status MetricsLog::AppendAmongOthers(const proto::MetricsRecord& record) {
  const std::string lock_path = path_ + ".lock";
  const UniqueFd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (lock.get() < 0 || flock(lock.get(), LOCK_EX) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", lock_path));
  }
  if (SizeOf(path_) != bytes_) {
    if (absl::Status status = GoOn(); !status.ok()) return status;
  }
  absl::Status status = Append(record);
  bytes_ = SizeOf(path_);
  return status;
}

}  // namespace strata::worker
