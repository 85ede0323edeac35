#include "worker/agent/metrics_log.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/os/atomic_file.h"
#include "common/os/limits.h"
#include "common/unique_fd.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {

namespace {

// More than a coordinator or a daemon repeats.
constexpr size_t kMeasurementsKept = 2 * kQueuedMessagesMax;

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
  found_.clear();
  for (const std::string& line : written->measurements) ++found_[absl::HashOf(line)];
  for (const auto& [number, hash] : measured_) --found_[hash];
  if (events_) events_->Close();
  return absl::OkStatus();
}

absl::Status MetricsLog::Append(const proto::MetricsRecord& record) {
  if (record.number() > 0 && IsLateMeasurement(record)) return AppendMeasurement(record);
  const bool only_measured = record.final() && record.step() == last_step_;
  uint64_t& last_step = IsLateMeasurement(record) ? last_measured_step_ : last_step_;
  if (final_written_ || (record.step() <= last_step && !only_measured)) return absl::OkStatus();
  const uint64_t kept_step = last_step_;
  last_step = record.step();
  if (absl::Status status = Write(record, kept_step); !status.ok()) return status;
  final_written_ = record.final();
  return absl::OkStatus();
}

// One step may have several, and one of an earlier step may come later.
absl::Status MetricsLog::AppendMeasurement(const proto::MetricsRecord& record) {
  const Measurement measurement = {record.number(), absl::HashOf(MetricsLine(record))};
  if (final_written_ || measured_.contains(measurement)) return absl::OkStatus();
  if (const auto found = found_.find(measurement.second);
      found != found_.end() && found->second > 0) {
    --found->second;
  } else if (absl::Status status = Write(record, last_step_); !status.ok()) {
    return status;
  }
  NoteMeasurement(measurement);
  return absl::OkStatus();
}

void MetricsLog::NoteMeasurement(const Measurement& measurement) {
  measured_.insert(measurement);
  measured_order_.push_back(measurement);
  if (measured_order_.size() <= kMeasurementsKept) return;
  measured_.erase(measured_order_.front());
  measured_order_.pop_front();
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
  const absl::StatusOr<UniqueFd> lock = OpenRegularFileToWrite(lock_path, O_RDWR | O_CREAT);
  if (!lock.ok()) {
    return absl::Status(lock.status().code(),
                        absl::StrCat("cannot lock ", lock.status().message()));
  }
  if (flock(lock->get(), LOCK_EX) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot lock ", lock_path));
  }
  if (SizeOf(path_) != bytes_) {
    if (absl::Status status = GoOn(); !status.ok()) return status;
  }
  absl::Status status = Append(record);
  bytes_ = SizeOf(path_);
  return status;
}

namespace {

void AddMeasured(const proto::MetricsRecord& record, nlohmann::ordered_json* line) {
  if (record.has_test_accuracy()) (*line)["test_accuracy"] = record.test_accuracy();
  if (record.has_test_loss()) (*line)["test_loss"] = record.test_loss();
  if (record.values().empty()) return;
  // Sorted by name.
  (*line)["values"] = std::map<std::string, double>(record.values().begin(), record.values().end());
}

}  // namespace

bool HasMeasured(const proto::MetricsRecord& record) {
  return record.has_test_accuracy() || record.has_test_loss() || !record.values().empty();
}

bool IsLateMeasurement(const proto::MetricsRecord& record) {
  return record.samples() == 0 && HasMeasured(record) && !record.final();
}

std::string MetricsLine(const proto::MetricsRecord& record) {
  nlohmann::ordered_json line;
  line["step"] = record.step();
  if (IsLateMeasurement(record)) {
    AddMeasured(record, &line);
    line["elapsed_s"] = record.elapsed_s();
    return line.dump();
  }
  line["samples"] = record.samples();
  line["epoch"] = record.epoch();
  line["loss"] = record.loss();
  line["samples_per_s"] = record.samples_per_s();
  line["bytes_pushed"] = record.bytes_pushed();
  line["bytes_answered"] = record.bytes_answered();
  line["staleness"] = std::vector<uint64_t>(record.staleness().begin(), record.staleness().end());
  line["waiting_share"] = record.waiting_share();
  if (record.has_hidden_share()) line["hidden_share"] = record.hidden_share();
  AddMeasured(record, &line);
  line["elapsed_s"] = record.elapsed_s();
  line["pushes"] = record.pushes();
  line["pushes_during_backward"] = record.pushes_during_backward();
  line["lr"] = record.lr();
  if (record.final()) line["final"] = true;
  return line.dump();
}

}  // namespace strata::worker
