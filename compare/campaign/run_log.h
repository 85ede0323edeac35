#ifndef STRATA_COMPARE_CAMPAIGN_RUN_LOG_H_
#define STRATA_COMPARE_CAMPAIGN_RUN_LOG_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "proto/control.pb.h"

namespace strata::compare {

// Returns the record of one whole run for a run that resumed from `earlier` at its `resumed_step`:
// the part of `earlier` up to that step, then `record`, whose times are shifted to follow it.
// Samples and updates of `record` already count from the start, like those of ReportLog. A window
// that the step cuts is omitted; bytes, staleness and waiting of the steps before it are assumed to
// be even. Pure.
proto::RunRecord Continued(const proto::RunRecord& earlier, proto::RunRecord record);

// Collects the reports of one run's ranks and makes its record. Each rank's clock starts with its
// first step; ranks start together, apart from the time it takes to wake them. A rank that resumes
// from a checkpoint says at which step: samples and updates count from the job's start, but time,
// bytes, windows and measurements from there. Pure.
class ReportLog {
 public:
  explicit ReportLog(const RunPlan& plan);

  // Adds a report, in the order in which a rank made them; repeated ones are ignored.
  void Add(const proto::RankReport& report);

  // Returns the result of a job that has finished or failed; `end` gives each node's ranks, and the
  // reason of a failure. Errors: DataLoss: reports are missing.
  absl::StatusOr<proto::RunRecord> MakeRecord(const proto::JobStatus& end) const;

  // Whether any rank has reported.
  bool has_begun() const { return has_begun_; }

 private:
  // A rank's step at a time since its start.
  struct Point {
    double trained_s = 0;
    double steps = 0, samples = 0;
  };
  struct Rank {
    Point start;                             // where it resumes
    std::vector<proto::RankReport> windows;  // without gaps
    std::vector<Point> points;               // ends of the windows, after the start
    proto::NodeCounters counters;            // the newest; of local rank 0
    bool missed = false;                     // a window is missing
    bool final = false;
  };

  static Point EndOf(const Rank& rank) {
    return rank.points.empty() ? rank.start : rank.points.back();
  }
  absl::Status CheckComplete(bool finished) const;
  // A program reports whatever it likes on whichever ranks it likes.
  bool IsOfProgram() const { return plan_.job.has_program(); }
  // The rank begins there.
  void StartAt(uint64_t step, Rank* rank) const;
  // Adds rank 0's measurement to earlier ones at that step.
  void AddMeasured(const proto::RankReport& report);
  // Ranks whose windows are known.
  size_t RanksHeard() const;
  // Samples of a rank in this number of its steps.
  double SamplesIn(const Rank& rank, double steps) const;
  // Interpolates linearly between reports.
  static Point At(const Rank& rank, double trained_s);
  // Updates of the weights once each rank has made these steps; `ended`: it will make no more.
  uint64_t UpdatesAfter(const std::vector<double>& steps, const proto::JobStatus& end,
                        bool ended) const;
  void AddTotals(const proto::JobStatus& end, proto::RunRecord* record) const;
  void AddWindows(proto::RunRecord* record) const;
  void AddMeasurements(const proto::JobStatus& end, proto::RunRecord* record) const;
  proto::Measurement MakeMeasurement(const proto::RankReport& report,
                                     const proto::JobStatus& end) const;

  RunPlan plan_;
  // whether all ranks are at the same clock at any time
  bool in_step_;
  std::vector<Rank> ranks_;
  bool has_begun_ = false;
  std::map<uint64_t, proto::RankReport> measured_;  // by rank 0's steps before it
};

// Collects the reports of one run's ranks over all attempts of its job, and makes the record of one
// whole run, including the part that it continues. Pure.
class RunLog {
 public:
  // `earlier`: the record that the run continues; null: it starts from the beginning.
  RunLog(const RunPlan& plan, std::shared_ptr<const proto::RunRecord> earlier)
      : plan_(plan), earlier_(std::move(earlier)), log_(plan) {}

  // The job's newest status.
  void Add(const proto::JobStatus& status) { newest_ = status; }
  // A report of a later attempt: the job has resumed by itself, from a checkpoint.
  void Add(const proto::RankReport& report);
  // Whether any rank has reported.
  bool has_begun() const { return attempt_ > 0 || log_->has_begun(); }

  // Returns the record so far, from which a run can resume. Errors: DataLoss.
  absl::StatusOr<proto::RunRecord> SoFar() const;
  // Returns the result of a job that has finished or failed. Errors: DataLoss: reports are missing,
  // or those of steps from which it resumed.
  absl::StatusOr<proto::RunRecord> MakeRecord(const proto::JobStatus& end) const;

 private:
  RunPlan plan_;
  std::shared_ptr<const proto::RunRecord> earlier_;  // null: there is none, or it is unknown
  std::optional<ReportLog> log_;                     // of this attempt
  uint32_t attempt_ = 0;
  proto::JobStatus newest_;
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_RUN_LOG_H_
