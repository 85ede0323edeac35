#include "compare/sweep/going_on.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/counted.h"
#include "common/job/consistency.h"
#include "common/job/job.h"

namespace strata::compare {
namespace {

uint64_t StepsIn(const SweepPlan& plan, size_t rung, size_t point) {
  return plan.points[point].steps / plan.rungs[rung].divisor;
}

proto::Checkpoint CheckpointIn(const std::string& dir, uint64_t every_steps) {
  proto::Checkpoint checkpoint;
  checkpoint.set_dir(dir);
  checkpoint.set_every_steps(every_steps);
  checkpoint.set_keep(1);
  return checkpoint;
}

// Why no run of the point goes on from another, if that is so.
absl::Status CheckGoesOn(const SweepPlan& plan, size_t point, const EndsIn& ends) {
  proto::Job job = plan.points[point].plan.job;
  if (job.has_checkpoint()) return absl::OkStatus();
  if (ends.dir.empty()) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "the job has no checkpoint; with --set 'checkpoint={dir: \"/FOLDER\" every_steps: %d}', "
        "where all hosts see that folder, they go on",
        StepsIn(plan, 0, point)));
  }
  *job.mutable_checkpoint() = CheckpointIn(ends.dir, 1);
  return ValidateJob(job);
}

}  // namespace

uint64_t LastKeptStep(const proto::Job& job, uint64_t steps) {
  const uint64_t round = StepsPerClock(job);
  const bool has_rest = job.consistency().lazy().has_significance() && steps % round == 0;
  const uint64_t rounds = steps / round;
  return rounds == 0 ? 0 : (has_rest ? rounds - 1 : rounds) * round;
}

std::vector<RunPlan> ChainedRuns(const SweepPlan& plan, size_t rung,
                                 const std::vector<size_t>& points, const EndsIn& ends,
                                 const std::vector<RecordPointer>& earlier) {
  std::vector<RunPlan> runs = RunsOfRung(plan, plan.rungs[rung], points);
  if (!ends.is_live) return runs;
  for (size_t i = 0; i < runs.size(); ++i) {
    const size_t point = points[i % points.size()];
    if (!CheckGoesOn(plan, point, ends).ok()) continue;
    RunChain& chain = runs[i].chain;
    if (rung > 0) chain.earlier = earlier[i];
    if (rung + 1 == plan.rungs.size()) continue;
    chain.is_gone_on_from = true;
    const uint64_t kept = LastKeptStep(runs[i].job, StepsIn(plan, rung, point));
    if (!runs[i].job.has_checkpoint() && kept > 0) chain.checkpoint = CheckpointIn(ends.dir, kept);
  }
  return runs;
}

std::vector<std::string> StartsAgainWords(const SweepPlan& plan, const EndsIn& ends) {
  std::vector<std::string> words;
  if (!ends.is_live || plan.rungs.size() == 1) return words;
  std::vector<std::pair<std::string, size_t>> points_by_reason;
  for (size_t point = 0; point < plan.points.size(); ++point) {
    const absl::Status status = CheckGoesOn(plan, point, ends);
    if (status.ok()) continue;
    const auto known = std::find_if(points_by_reason.begin(), points_by_reason.end(),
                                    [&](const auto& one) { return one.first == status.message(); });
    if (known == points_by_reason.end()) {
      points_by_reason.emplace_back(status.message(), 1);
    } else {
      ++known->second;
    }
  }
  for (const auto& [reason, points] : points_by_reason) {
    words.push_back(absl::StrFormat("%d of %s %s again in each rung: %s", points,
                                    Counted(plan.points.size(), "point"),
                                    points == 1 ? "starts" : "start", reason));
  }
  return words;
}

}  // namespace strata::compare
