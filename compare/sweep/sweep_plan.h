#ifndef STRATA_COMPARE_SWEEP_SWEEP_PLAN_H_
#define STRATA_COMPARE_SWEEP_SWEEP_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compare/campaign/campaign.pb.h"
#include "compare/runner.h"
#include "compare/sweep/grid.h"
#include "compare/sweep/halving.h"
#include "proto/job.pb.h"

namespace strata::compare {

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

// What all ranks train on in a rung of those points, all seeds.
uint64_t SamplesOfRung(const SweepPlan& plan, const Rung& rung, const std::vector<size_t>& points);

}  // namespace strata::compare

#endif  // STRATA_COMPARE_SWEEP_SWEEP_PLAN_H_
