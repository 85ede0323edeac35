#ifndef STRATA_COMPARE_CAMPAIGN_SWEEP_RESULT_H_
#define STRATA_COMPARE_CAMPAIGN_SWEEP_RESULT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compare/analysis.h"
#include "compare/campaign/sweep_plan.h"
#include "compare/run_record.pb.h"

namespace strata::compare {

// The runs of a rung that exist.
struct RungRuns {
  std::vector<size_t> points;             // of the plan, in order
  std::vector<proto::RunRecord> records;  // as RunsOfRung has them, seen by the metric
};

// Figures of one run.
struct PointRun {
  uint64_t seed = 0;
  std::string failure;  // then the rest has no meaning
  double accuracy = 0;  // of the final weights, 0 to 1, or the metric in its place
  double trained_s = 0;
  // For a run that continued one of the rung before: the steps that it did not make. If it should
  // have but did not: why.
  uint64_t resumed_step = 0;
  std::string began_anew;
};

// A point in the last rung that it was in.
struct PointResult {
  size_t point = 0;    // of the plan
  size_t rung = 0;     // from 0
  uint64_t steps = 0;  // of each rank, there
  std::vector<PointRun> runs;
  std::optional<Estimate> accuracy;  // none where a run has failed, as in what follows
  std::optional<Estimate> trained_s;
};

struct SweepResult {
  // Orders points: those with the most budget first, of these the most accurate, or the best by the
  // metric, of equals the earlier.
  std::vector<PointResult> ranking;
  uint64_t samples = 0;       // of all runs, each from where it began
  uint64_t grid_samples = 0;  // had every point had its whole budget
  // Runs of the rungs after the first, and those of them that went on from the rung before; steps
  // of each rank up to their ends, and of these those that they did not make.
  size_t later_runs = 0, resumed_runs = 0;
  uint64_t later_steps = 0, resumed_steps = 0;
};

// By the points' places in the rung: the mean over seeds; none where a run has failed, so that no
// point wins by the seeds that went well.
std::vector<std::optional<double>> MeanAccuracies(const RungRuns& rung);

// Returns a rung of which some records are missing without the points that lack one. `records`:
// as RunsOfRung has them.
RungRuns MadeOf(const std::vector<size_t>& points,
                const std::vector<std::optional<proto::RunRecord>>& records);

// Ranks the points by the rungs that were run, from the first; those that are in none are left out.
SweepResult RankResults(const SweepPlan& plan, const std::vector<RungRuns>& rungs,
                        bool less_is_better = false);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_SWEEP_RESULT_H_
