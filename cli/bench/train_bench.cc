#include "cli/bench/train_bench.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/bench/train_jobs.h"
#include "common/os/atomic_file.h"

namespace strata::cli {
namespace {

constexpr uint64_t kStepsMin = 4, kStepsMax = 1'000'000;
constexpr double kTrialSeconds = 0.25;

// A folder for what jobs leave, gone in the end.
class Scratch {
 public:
  static absl::StatusOr<std::unique_ptr<Scratch>> Create() {
    std::string path = absl::StrFormat("/tmp/strata-bench-%d-XXXXXX", getpid());
    if (mkdtemp(path.data()) == nullptr)
      return absl::InternalError("cannot make a directory in /tmp");
    return std::make_unique<Scratch>(path);
  }
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Returns the mean of the two in the middle of an even number; 0 without values.
double MedianOf(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

Spread SpreadOf(const std::vector<double>& rounds, double median) {
  return {median, *std::min_element(rounds.begin(), rounds.end()),
          *std::max_element(rounds.begin(), rounds.end())};
}

// As kernels/cuda says it.
bool LacksNccl(const std::string& why) {
  return absl::StrContains(why, "libnccl.so.2: ") ||
         absl::StrContains(why, "NCCL's header nccl.h was missing");
}

class TrainBench {
 public:
  TrainBench(const TrainBenchOptions& options, std::string scratch)
      : options_(options), scratch_(std::move(scratch)) {}

  absl::StatusOr<TrainBenchResult> Run(const std::function<void(const std::string&)>& progress);

 private:
  absl::StatusOr<Trained> Train(const TrainCase& what, uint64_t steps);
  // Returns steps for the base so that it takes as long as wanted.
  absl::StatusOr<uint64_t> BaseSteps();
  uint64_t StepsOf(const TrainCase& what, uint64_t base_steps) const;
  // Empty: no problem is known.
  std::string WrongIn(const TrainFigures& figures, const Trained& trained);
  // The case has no figures; `result` says so if that is an error.
  void GiveUp(const absl::Status& why, TrainFigures* figures, TrainBenchResult* result) const;
  absl::Status RunRound(const std::vector<TrainFigures*>& order, TrainBenchResult* result,
                        const std::function<void(const std::string&)>& progress);
  void Summarize(std::vector<TrainFigures>* all) const;

  const TrainBenchOptions& options_;
  const std::string scratch_;
  uint32_t runs_ = 0;                       // of jobs, trials included
  size_t measured_ = 0;                     // of cases
  std::map<uint32_t, uint64_t> sync_sums_;  // of weights, by ranks
};

absl::StatusOr<Trained> TrainBench::Train(const TrainCase& what, uint64_t steps) {
  const TrainRun run = {scratch_ + "/job.textproto", steps,
                        options_.cases.servers,      options_.cluster,
                        options_.gpus.gpus,          absl::StrCat(scratch_, "/", runs_++)};
  return RunCase(options_.binary, what, run, options_.stop_fd);
}

absl::StatusOr<uint64_t> TrainBench::BaseSteps() {
  if (options_.steps > 0) return options_.steps;
  for (uint64_t steps = kStepsMin;; steps *= 8) {
    const auto trial = Train({"none"}, steps);
    if (!trial.ok()) return trial.status();
    const double steps_per_s = trial->median_rate / options_.batch;
    if (static_cast<double>(steps) < kTrialSeconds * steps_per_s && steps < kStepsMax) continue;
    const double wanted = std::min(options_.seconds * steps_per_s, static_cast<double>(kStepsMax));
    return std::max(kStepsMin, static_cast<uint64_t>(wanted));
  }
}

uint64_t TrainBench::StepsOf(const TrainCase& what, uint64_t base_steps) const {
  if (options_.steps > 0 || what.ranks <= options_.ranks_at_once) return base_steps;
  return std::max(kStepsMin, base_steps * options_.ranks_at_once / what.ranks);
}

std::string TrainBench::WrongIn(const TrainFigures& figures, const Trained& trained) {
  const TrainCase& what = figures.what;
  const std::string who = absl::StrFormat("%s, %d ranks: ", what.mode, what.ranks);
  if (!trained.is_finite) return who + "a loss is not finite";
  const uint64_t samples = figures.steps * what.ranks * options_.batch;
  if (trained.samples != samples) {
    return absl::StrCat(who, trained.samples, " samples, not ", samples);
  }
  const bool is_base = what.is_none() && what.ranks == 1;
  if (!options_.repeats_bits || (what.mode != "sync" && !(is_base && options_.equals_none))) {
    return "";
  }
  const auto [expected, is_first] = sync_sums_.emplace(what.ranks, trained.weights_sum);
  if (is_first || expected->second == trained.weights_sum) return "";
  return who + "the weights are not those of the same steps before";
}

void TrainBench::GiveUp(const absl::Status& why, TrainFigures* figures,
                        TrainBenchResult* result) const {
  figures->why_not = std::string(why.message());
  figures->rates.clear();
  figures->medians.clear();
  figures->shares.clear();
  figures->efficiencies.clear();
  if (!LacksNccl(figures->why_not) && result->wrong.empty()) result->wrong = figures->why_not;
}

absl::Status TrainBench::RunRound(const std::vector<TrainFigures*>& order, TrainBenchResult* result,
                                  const std::function<void(const std::string&)>& progress) {
  std::map<uint32_t, double> alone;  // rates of ranks that exchange nothing, in this round
  for (TrainFigures* figures : order) {
    const TrainCase& what = figures->what;
    ++measured_;
    if (!figures->why_not.empty()) continue;
    auto trained = Train(what, figures->steps);
    if (absl::IsUnavailable(trained.status()) && !what.is_none()) {
      GiveUp(trained.status(), figures, result);
      progress(absl::StrCat(what.mode, ", ", what.ranks, " ranks: ", figures->why_not));
      continue;
    }
    if (!trained.ok()) return trained.status();
    if (result->wrong.empty()) result->wrong = WrongIn(*figures, *trained);
    if (what.is_none()) alone[what.ranks] = trained->median_rate;
    figures->rates.insert(figures->rates.end(), trained->rates.begin(), trained->rates.end());
    figures->medians.push_back(trained->median_rate);
    progress(absl::StrFormat("%d/%d  %s, %d ranks: %.0f images/s", measured_,
                             options_.rounds * order.size(), what.mode, what.ranks,
                             trained->median_rate));
  }
  for (TrainFigures* figures : order) {
    if (!figures->why_not.empty()) continue;
    const uint32_t ranks = figures->what.ranks;
    figures->shares.push_back(figures->medians.back() / alone[ranks]);
    figures->efficiencies.push_back(figures->medians.back() / (ranks * alone[1]));
  }
  return absl::OkStatus();
}

void TrainBench::Summarize(std::vector<TrainFigures>* all) const {
  double alone_ms = 0;
  for (TrainFigures& figures : *all) {
    if (!figures.why_not.empty()) continue;
    std::vector<double> steps_ms;
    for (double rate : figures.rates) {
      steps_ms.push_back(1e3 * figures.what.ranks * options_.batch / rate);
    }
    figures.step = MakeFigures(steps_ms);
    figures.rate = SpreadOf(figures.medians, MedianOf(figures.medians));
    figures.share = MedianOf(figures.shares);
    if (figures.what.is_none()) alone_ms = figures.step.median_ms;
    figures.bound_ms = alone_ms;
    figures.efficiency = SpreadOf(figures.efficiencies, MedianOf(figures.efficiencies));
  }
}

absl::StatusOr<TrainBenchResult> TrainBench::Run(
    const std::function<void(const std::string&)>& progress) {
  const absl::Status written = WriteFileAtomically(scratch_ + "/job.textproto", options_.job_text);
  if (!written.ok()) return written;
  const auto base_steps = BaseSteps();
  if (!base_steps.ok()) return base_steps.status();
  TrainBenchResult result;
  for (const TrainCase& what : MakeCases(options_.cases)) {
    result.figures.push_back({.what = what,
                              .why_not = WhyNot(what, options_.gpus),
                              .steps = StepsOf(what, *base_steps)});
  }
  std::vector<TrainFigures*> order;
  for (TrainFigures& figures : result.figures) order.push_back(&figures);
  for (uint32_t round = 0; round < options_.rounds; ++round) {
    const absl::Status status = RunRound(order, &result, progress);
    if (!status.ok()) return status;
    std::reverse(order.begin(), order.end());
  }
  Summarize(&result.figures);
  return result;
}

}  // namespace

absl::StatusOr<TrainBenchResult> RunTrainBench(
    const TrainBenchOptions& options, const std::function<void(const std::string&)>& progress) {
  const absl::Status modes = CheckModes(options.cases.modes);
  if (!modes.ok()) return modes;
  if (options.steps == 1) {
    return absl::InvalidArgumentError("--steps: at least 2, of which the first warm up");
  }
  auto scratch = Scratch::Create();
  if (!scratch.ok()) return scratch.status();
  return TrainBench(options, (*scratch)->path()).Run(progress);
}

}  // namespace strata::cli
