#include "compare/sweep/sweep_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "compare/campaign/campaign_plan.h"
#include "compare/campaign/mode_list.h"

namespace strata::compare {
namespace {

// Of a run's file, without what is put before and behind it; file systems allow 255.
constexpr size_t kFileNameMax = 180;

absl::Status Refuse(const std::string& point, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("point ", point, ": ", why));
}

// With settings, checked, defaults filled in.
absl::StatusOr<proto::Job> JobAt(const GridPoint& point, const proto::Campaign& campaign) {
  proto::Job job = campaign.job();
  if (const absl::Status status = ApplySettings(point.settings, &job); !status.ok()) {
    return status;
  }
  if (job.seed() != campaign.job().seed()) {
    return Refuse(point.name, "seed: it is --seeds that varies it");
  }
  if (!job.run_dir().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("run_dir: ", job.run_dir(), ": the runs of a sweep have one each"));
  }
  if (job.exchange() == proto::Job::NONE || job.exchange() == proto::Job::MPI) {
    return Refuse(point.name, absl::StrCat("exchange: ", proto::Job::Exchange_Name(job.exchange()),
                                           ": a sweep takes PARAMETER_SERVER and RING"));
  }
  FillDefaults(&job);
  if (const absl::Status status = ValidateJob(job); !status.ok()) {
    return Refuse(point.name, status.message());
  }
  return job;
}

// Accuracy is measured at the end alone, unless the job as written says otherwise.
void SetMeasurements(const proto::Job& as_written, uint64_t steps, proto::Job* job) {
  const proto::Evaluation& evaluation = as_written.evaluation();
  if (evaluation.every_epochs() == 0 && evaluation.every_steps() == 0) {
    job->mutable_evaluation()->clear_every_epochs();
    job->mutable_evaluation()->set_every_steps(
        static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  }
  job->mutable_evaluation()->set_deferred(true);
  if (as_written.metrics().every_steps() == 0) {
    job->mutable_metrics()->set_every_steps(
        static_cast<uint32_t>(std::min<uint64_t>(MeasureEvery(steps, 1), UINT32_MAX)));
  }
}

absl::StatusOr<SweepPoint> SweepPointAt(const GridPoint& point, const proto::Campaign& campaign) {
  absl::StatusOr<proto::Job> job = JobAt(point, campaign);
  if (!job.ok()) return job.status();
  absl::StatusOr<uint64_t> steps = 0;  // of a program: it alone knows
  if (!job->has_program()) steps = TotalSteps(*job);
  if (!steps.ok()) return Refuse(point.name, steps.status().message());
  if (ModeFileName(point.name).size() > kFileNameMax) {
    return Refuse(point.name, absl::StrFormat("its name is too long for a file's, %d characters "
                                              "are allowed: vary fewer fields at a time",
                                              kFileNameMax));
  }
  if (!job->has_program()) SetMeasurements(campaign.job(), *steps, &*job);
  return SweepPoint{point, {point.name, *std::move(job)}, *steps};
}

absl::Status CheckHalving(const SweepPlan& plan, uint32_t eta) {
  if (eta == 0) return absl::OkStatus();
  if (plan.points.front().plan.job.has_program()) {
    return absl::InvalidArgumentError("halving: a program makes as many steps as it likes");
  }
  if (plan.points.size() < eta) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "halving: %d needs as many points at least, there are %d", eta, plan.points.size()));
  }
  const uint64_t divisor = plan.rungs.front().divisor;
  for (const SweepPoint& point : plan.points) {
    if (point.steps >= divisor) continue;
    return Refuse(point.point.name,
                  absl::StrFormat("halving: a first rung of 1/%d of its %d steps is none", divisor,
                                  point.steps));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<proto::Campaign> DescribeSweep(const SweepRequest& request) {
  absl::StatusOr<std::vector<proto::Variation>> vary = ParseVariations(request.vary);
  if (!vary.ok()) return vary.status();
  if (vary->empty()) return absl::InvalidArgumentError("nothing to vary");
  if (request.seeds == 0) return absl::InvalidArgumentError("seeds: 0, at least 1 is needed");
  proto::Campaign campaign;
  *campaign.mutable_job() = request.job;
  if (campaign.job().seed() == 0) campaign.mutable_job()->set_seed(1);
  campaign.set_seeds(request.seeds);
  campaign.set_cluster(request.cluster);
  campaign.set_version(request.version);
  campaign.mutable_sweep()->set_halving(request.halving);
  for (proto::Variation& variation : *vary) {
    *campaign.mutable_sweep()->add_vary() = std::move(variation);
  }
  return campaign;
}

absl::StatusOr<SweepPlan> PlanSweep(const proto::Campaign& campaign) {
  const auto& vary = campaign.sweep().vary();
  SweepPlan plan;
  plan.vary = {vary.begin(), vary.end()};
  plan.seeds = campaign.seeds();
  std::map<std::string, std::string> by_file;
  std::map<std::string, std::string> by_job;
  for (const GridPoint& grid_point : MakeGrid(plan.vary)) {
    absl::StatusOr<SweepPoint> point = SweepPointAt(grid_point, campaign);
    if (!point.ok()) return point.status();
    const auto [job, is_new_job] = by_job.try_emplace(JobToText(point->plan.job), grid_point.name);
    if (!is_new_job) {
      return Refuse(grid_point.name, absl::StrCat("is the same job as point ", job->second));
    }
    const auto [file, is_new] = by_file.try_emplace(ModeFileName(grid_point.name), grid_point.name);
    if (!is_new) {
      return Refuse(grid_point.name, absl::StrCat("would have the file of point ", file->second));
    }
    plan.points.push_back(*std::move(point));
  }
  const uint32_t eta = campaign.sweep().halving();
  plan.rungs = PlanRungs(plan.points.size(), eta);
  if (const absl::Status status = CheckHalving(plan, eta); !status.ok()) return status;
  return plan;
}

std::vector<RunPlan> RunsOfRung(const SweepPlan& plan, const Rung& rung,
                                const std::vector<size_t>& points) {
  std::vector<RunPlan> runs;
  for (uint32_t seed = 0; seed < plan.seeds; ++seed) {
    for (const size_t index : points) {
      const SweepPoint& point = plan.points[index];
      RunPlan run = point.plan;
      run.job.set_seed(run.job.seed() + seed);
      if (rung.divisor > 1) {
        const uint64_t steps = point.steps / rung.divisor;
        run.mode = absl::StrCat(run.mode, "+max_steps=", steps);
        run.job.set_max_steps(steps);
        const uint64_t measured = run.job.evaluation().every_steps();
        if (measured == point.steps) run.job.mutable_evaluation()->set_every_steps(steps);
      }
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

uint64_t SamplesOfRung(const SweepPlan& plan, const Rung& rung, const std::vector<size_t>& points) {
  uint64_t samples = 0;  // of programs: 0
  for (const size_t index : points) {
    const SweepPoint& point = plan.points[index];
    const proto::Job& job = point.plan.job;
    samples += point.steps / rung.divisor * job.ranks() * job.data().batch_per_rank() * plan.seeds;
  }
  return samples;
}

}  // namespace strata::compare
