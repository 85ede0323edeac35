#ifndef STRATA_COMPARE_CAMPAIGN_SWEEP_PLAN_H_
#define STRATA_COMPARE_CAMPAIGN_SWEEP_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/campaign/campaign.pb.h"
#include "compare/run_record.pb.h"
#include "compare/runner.h"
#include "proto/job.pb.h"

namespace strata::compare {

// The most points of a sweep.
inline constexpr size_t kPointsMax = 1024;

// Parses lists such as "schedule.base_lr=0.01,0.03" each; a comma in brackets or quotes belongs to
// its value. Errors: InvalidArgument, one line: not FIELD=V1,V2,...; no or an empty value; a value
// or field twice; more than kPointsMax points.
absl::StatusOr<std::vector<proto::Variation>> ParseVariations(
    const std::vector<std::string>& texts);

// One choice of values.
struct GridPoint {
  std::string name;                   // "schedule.base_lr=0.01+push.codec=FP16"
  std::vector<std::string> values;    // of the fields, in their order
  std::vector<std::string> settings;  // "schedule.base_lr=0.01"
};

// All choices, the last field's values changing fastest.
std::vector<GridPoint> MakeGrid(const std::vector<proto::Variation>& variations);

// One round of a sweep: its number of points, each with its steps / divisor.
struct Rung {
  size_t points = 0;
  uint64_t divisor = 1;
};

// Successive halving (Jamieson and Talwalkar, "Non-stochastic best arm identification and
// hyperparameter optimization", 2016): as many rungs as leave at least one point for the last,
// which has the whole budget; of each rung 1 / eta go on, rounded down, with eta times the steps.
// `eta` 0: one rung of all. REQUIRES: points >= 1, eta 0 or >= 2.
std::vector<Rung> PlanRungs(size_t points, uint32_t eta);

// Returns those of the points, in their order, that go on: the `count` with the greatest accuracy,
// or, of another metric, the least, the earlier of equals. A point without one comes after those
// that have it.
std::vector<size_t> BestPoints(const std::vector<std::optional<double>>& accuracies, size_t count,
                               bool less_is_better = false);

struct SweepRequest {
  proto::Job job;  // defaults not filled in
  std::vector<std::string> vary;
  uint32_t seeds = 1;
  uint32_t halving = 0;  // 0: none
  std::string cluster;   // in words
  std::string version;
};

// Errors: InvalidArgument: of ParseVariations, nothing to vary.
absl::StatusOr<proto::Campaign> DescribeSweep(const SweepRequest& request);

// A point as a job: with the first seed and its whole budget.
struct SweepPoint {
  GridPoint point;
  RunPlan plan;
  uint64_t steps = 0;  // of each rank; 0 of a program
};

struct SweepPlan {
  std::vector<proto::Variation> vary;
  std::vector<SweepPoint> points;
  std::vector<Rung> rungs;
  uint32_t seeds = 1;
};

// Errors: InvalidArgument naming the point or field: a job that cannot be, or that is another
// point's; fewer points or steps than halving needs; the data cannot be counted.
absl::StatusOr<SweepPlan> PlanSweep(const proto::Campaign& campaign);

// The runs of a rung, of those points, seed by seed. A run that has not the whole budget is named
// by it: "ranks=2+max_steps=100".
std::vector<RunPlan> RunsOfRung(const SweepPlan& plan, const Rung& rung,
                                const std::vector<size_t>& points);

// Samples that all ranks train on in a rung of these points, over all seeds.
uint64_t SamplesOfRung(const SweepPlan& plan, const Rung& rung, const std::vector<size_t>& points);

// Where runs keep their last checkpoints, for the next rung to continue from. A job with
// `checkpoint` keeps it where that says.
struct EndsIn {
  bool is_live = false;  // else in virtual time, which has no checkpoints
  std::string dir;       // of the sweep, the same folder on all hosts; empty: there is none
};

// The last of `steps` steps at which the job can write a checkpoint: its end; with local steps the
// end of a round; with `significance` one before the job's end. 0: there is none. The job's
// defaults are filled in.
uint64_t LastKeptStep(const proto::Job& job, uint64_t steps);

using RecordPointer = std::shared_ptr<const proto::RunRecord>;

// RunsOfRung of that rung, with what they are to go on from and what they are to keep. `earlier`:
// the records of the same points and seeds in the rung before, in the same order; of the first rung
// there are none.
std::vector<RunPlan> ChainedRuns(const SweepPlan& plan, size_t rung,
                                 const std::vector<size_t>& points, const EndsIn& ends,
                                 const std::vector<RecordPointer>& earlier);

// Which points start again in each rung, and why: "2 of 4 points start again in each rung: ...", a
// sentence for each reason. None where there is one rung, or in virtual time.
std::vector<std::string> StartsAgainWords(const SweepPlan& plan, const EndsIn& ends);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_CAMPAIGN_SWEEP_PLAN_H_
