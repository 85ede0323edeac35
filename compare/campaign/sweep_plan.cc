#include "compare/campaign/sweep_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/counted.h"
#include "common/job/consistency.h"
#include "common/job/job.h"
#include "common/job/program_optimizer.h"
#include "common/require.h"
#include "compare/campaign/campaign_plan.h"

namespace strata::compare {

namespace {

// The longest name of a run's file without prefix and suffix; file systems allow 255.
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
  const bool is_of_program = campaign.job().has_program();
  if (auto status = CheckProgramReads(is_of_program, point.settings, job); !status.ok()) {
    return Refuse(point.name, status.message());
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

namespace {

absl::StatusOr<proto::Variation> ParseVariation(const std::string& text) {
  const auto refuse = [&text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": ", why));
  };
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return refuse("is not FIELD=V1,V2,..., as in schedule.base_lr=0.01,0.1");
  }
  proto::Variation variation;
  variation.set_field(text.substr(0, equals));
  const std::string list = text.substr(equals + 1);
  if (absl::StripAsciiWhitespace(list).empty()) return refuse("has no values");
  for (const std::string& part : SplitOutside(list, [&](size_t i) { return list[i] == ','; })) {
    const std::string value(absl::StripAsciiWhitespace(part));
    if (value.empty()) return refuse("an empty value between commas");
    const auto& there = variation.values();
    if (std::find(there.begin(), there.end(), value) != there.end()) {
      return refuse(absl::StrCat("value ", value, " is there twice"));
    }
    variation.add_values(value);
  }
  return variation;
}

}  // namespace

absl::StatusOr<std::vector<proto::Variation>> ParseVariations(
    const std::vector<std::string>& texts) {
  std::vector<proto::Variation> variations;
  size_t points = 1;
  for (const std::string& text : texts) {
    absl::StatusOr<proto::Variation> variation = ParseVariation(text);
    if (!variation.ok()) return variation.status();
    for (const proto::Variation& other : variations) {
      if (other.field() != variation->field()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(other.field(), ": is varied twice; all its values belong into one list"));
    }
    points *= variation->values_size();
    if (points > kPointsMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          variation->field(), ": makes ", points, " points, ", kPointsMax, " are allowed at most"));
    }
    variations.push_back(*std::move(variation));
  }
  return variations;
}

std::vector<GridPoint> MakeGrid(const std::vector<proto::Variation>& variations) {
  std::vector<GridPoint> points(1);
  for (const proto::Variation& variation : variations) {
    std::vector<GridPoint> longer;
    for (const GridPoint& point : points) {
      for (const std::string& value : variation.values()) {
        longer.push_back(point);
        longer.back().values.push_back(value);
        longer.back().settings.push_back(absl::StrCat(variation.field(), "=", value));
      }
    }
    points = std::move(longer);
  }
  for (GridPoint& point : points) point.name = absl::StrJoin(point.settings, "+");
  return points;
}

std::vector<Rung> PlanRungs(size_t points, uint32_t eta) {
  STRATA_REQUIRE(points >= 1 && eta != 1);
  std::vector<Rung> rungs = {{points, 1}};
  if (eta == 0) return rungs;
  while (rungs.back().points >= eta) {
    for (Rung& rung : rungs) rung.divisor *= eta;
    rungs.push_back({rungs.back().points / eta, 1});
  }
  return rungs;
}

std::vector<size_t> BestPoints(const std::vector<std::optional<double>>& accuracies, size_t count,
                               bool less_is_better) {
  std::vector<size_t> places(accuracies.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto goodness = [&](size_t place) {
    std::optional<double> value = accuracies[place];
    if (value && less_is_better) value = -*value;
    return value;
  };
  // None compares below every accuracy.
  std::stable_sort(places.begin(), places.end(),
                   [&](size_t a, size_t b) { return goodness(a) > goodness(b); });
  places.resize(std::min(count, places.size()));
  std::sort(places.begin(), places.end());
  return places;
}

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

// Returns an error that says why no run of the point continues another, if none does.
absl::Status CheckContinues(const SweepPlan& plan, size_t point, const EndsIn& ends) {
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
    if (!CheckContinues(plan, point, ends).ok()) continue;
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
    const absl::Status status = CheckContinues(plan, point, ends);
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
