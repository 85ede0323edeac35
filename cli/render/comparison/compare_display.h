#ifndef STRATA_CLI_RENDER_COMPARISON_COMPARE_DISPLAY_H_
#define STRATA_CLI_RENDER_COMPARISON_COMPARE_DISPLAY_H_

#include <cstdio>
#include <string>
#include <utility>

#include "cli/render/live_line.h"
#include "compare/campaign/course.h"
#include "compare/run_record.pb.h"
#include "compare/statistics/metric.h"
#include "proto/job.pb.h"

namespace strata::cli {

// "[5/21] async, seed 2: accuracy 0.8710 after 12.3 s", or why it failed.
std::string RunEndLine(const compare::CourseProgress& progress, const proto::RunRecord& record,
                       const compare::Metric& metric = {});
// "[5/21] async, seed 2  step 300/1000  loss 0.5200  campaign 23 %  ETA 3:12"; the time that is
// left is unknown until something of a run is made.
std::string CourseLine(const compare::CourseProgress& progress);

// "node 1 takes 4 times as long; node 2 stands still for 30 ms (10 ms more or less) a step"; empty:
// no node is slowed down.
std::string StragglerWords(const proto::Job& job);

// The course of a comparison: a line per run, and on a terminal a live one.
//
// Threads: one.
class CompareDisplay {
 public:
  // `columns` of the terminal that `out` is; 0: it is none.
  CompareDisplay(std::FILE* out, int columns, compare::Metric metric = {})
      : out_(out), line_(out, columns), metric_(std::move(metric)) {}

  void ShowProgress(const compare::CourseProgress& progress);
  void ShowEnd(const compare::CourseProgress& progress, const proto::RunRecord& record);
  // Takes the live line away: what is written next has a row of its own.
  void End() { line_.Clear(); }

 private:
  std::FILE* out_;
  LiveLine line_;
  const compare::Metric metric_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_RENDER_COMPARISON_COMPARE_DISPLAY_H_
