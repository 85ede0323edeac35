#include "compare/live/run_log.h"

#include <utility>

#include "absl/status/status.h"
#include "compare/live/continued_record.h"

namespace strata::compare {

void RunLog::Add(const proto::RankReport& report) {
  if (report.attempt() < attempt_) return;  // it was on its way
  if (report.attempt() > attempt_) {
    absl::StatusOr<proto::RunRecord> before = SoFar();
    earlier_ = before.ok() ? std::make_shared<proto::RunRecord>(*std::move(before)) : nullptr;
    log_.emplace(plan_);
    attempt_ = report.attempt();
  }
  log_->Add(report);
}

absl::StatusOr<proto::RunRecord> RunLog::SoFar() const {
  proto::JobStatus now = newest_;
  now.set_state(proto::FAILED);
  absl::StatusOr<proto::RunRecord> record = MakeRecord(now);
  if (record.ok()) record->clear_failure();
  return record;
}

absl::StatusOr<proto::RunRecord> RunLog::MakeRecord(const proto::JobStatus& end) const {
  absl::StatusOr<proto::RunRecord> record = log_->MakeRecord(end);
  if (!record.ok() || record->resumed_step() == 0) return record;
  if (earlier_ == nullptr || record->resumed_step() > earlier_->steps()) {
    return absl::DataLossError("the reports of steps that the job went on from were not heard");
  }
  return Continued(*earlier_, *std::move(record));
}

}  // namespace strata::compare
