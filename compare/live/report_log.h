#ifndef STRATA_COMPARE_LIVE_REPORT_LOG_H_
#define STRATA_COMPARE_LIVE_REPORT_LOG_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "proto/control.pb.h"

namespace strata::compare {

// What the ranks of one run said, and the record that it makes. Each rank's clock starts with its
// first step; ranks start together, but for what it takes to wake them. A rank that goes on from a
// checkpoint says with which step: samples and updates count from the job's start, but time, bytes,
// windows and measurements from there. Pure.
class ReportLog {
 public:
  explicit ReportLog(const RunPlan& plan);

  // Takes a report, in the order in which a rank made them; one that was taken in before is
  // ignored.
  void Add(const proto::RankReport& report);

  // The result of a job that has finished or failed; `end` says which ranks each node had, and why
  // it failed. Errors: DataLoss: not all reports were heard.
  absl::StatusOr<proto::RunRecord> MakeRecord(const proto::JobStatus& end) const;

  // Whether a rank has said anything.
  bool has_begun() const { return has_begun_; }

 private:
  // The step of a rank at a time, from its start.
  struct Point {
    double trained_s = 0;
    double steps = 0, samples = 0;
  };
  struct Rank {
    Point start;                             // where it goes on
    std::vector<proto::RankReport> windows;  // without gaps
    std::vector<Point> points;               // their ends, after the start
    proto::NodeCounters counters;            // newest; of local rank 0
    bool missed = false;                     // a window
    bool final = false;
  };

  static Point EndOf(const Rank& rank) {
    return rank.points.empty() ? rank.start : rank.points.back();
  }
  absl::Status CheckComplete(bool finished) const;
  // A program reports what it likes of which ranks it likes.
  bool IsOfProgram() const { return plan_.job.has_program(); }
  // The rank begins there.
  void StartAt(uint64_t step, Rank* rank) const;
  // Adds what rank 0 measured to what it measured at that step before.
  void AddMeasured(const proto::RankReport& report);
  // Ranks whose windows are known.
  size_t RanksHeard() const;
  // Samples of a rank in so many of its steps.
  double SamplesIn(const Rank& rank, double steps) const;
  // Linear between reports.
  static Point At(const Rank& rank, double trained_s);
  // Updates of the weights once each rank has made so many steps; `ended`: all that there will be.
  uint64_t UpdatesAfter(const std::vector<double>& steps, const proto::JobStatus& end,
                        bool ended) const;
  void AddTotals(const proto::JobStatus& end, proto::RunRecord* record) const;
  void AddWindows(proto::RunRecord* record) const;
  void AddMeasurements(const proto::JobStatus& end, proto::RunRecord* record) const;
  proto::Measurement MakeMeasurement(const proto::RankReport& report,
                                     const proto::JobStatus& end) const;

  RunPlan plan_;
  // Whether all ranks are at the same clock when one is.
  bool in_step_;
  std::vector<Rank> ranks_;
  bool has_begun_ = false;
  std::map<uint64_t, proto::RankReport> measured_;  // by steps of rank 0 before it
};

}  // namespace strata::compare

#endif  // STRATA_COMPARE_LIVE_REPORT_LOG_H_
