#ifndef STRATA_COMPARE_LIVE_RUN_LOG_H_
#define STRATA_COMPARE_LIVE_RUN_LOG_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "compare/live/report_log.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "proto/control.pb.h"

namespace strata::compare {

// What the ranks of one run said, in all attempts of its job and in what the run goes on from, and
// the record that it makes: as of one whole run. Pure.
class RunLog {
 public:
  // `earlier`: the record of what the run goes on from; null: it begins anew.
  RunLog(const RunPlan& plan, std::shared_ptr<const proto::RunRecord> earlier)
      : plan_(plan), earlier_(std::move(earlier)), log_(plan) {}

  // The job's newest status.
  void Add(const proto::JobStatus& status) { newest_ = status; }
  // A report of a later attempt than before: the job went on by itself, from a checkpoint.
  void Add(const proto::RankReport& report);
  // Whether a rank has said anything.
  bool has_begun() const { return attempt_ > 0 || log_->has_begun(); }

  // Returns the record of what was done up to now, which a run can go on from. Errors: DataLoss.
  absl::StatusOr<proto::RunRecord> SoFar() const;
  // Returns the result of a job that has finished or failed. Errors: DataLoss: not all reports were
  // heard, or not those of steps that it went on from.
  absl::StatusOr<proto::RunRecord> MakeRecord(const proto::JobStatus& end) const;

 private:
  RunPlan plan_;
  std::shared_ptr<const proto::RunRecord> earlier_;  // null: there is none, or it is not known
  std::optional<ReportLog> log_;                     // of this attempt
  uint32_t attempt_ = 0;
  proto::JobStatus newest_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_LIVE_RUN_LOG_H_
