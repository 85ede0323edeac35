#include "bench/train/train_bench.h"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "bench/exchange/figures.h"
#include "bench/train/windows.h"
#include "common/atomic_file.h"
#include "common/process/process.h"

namespace strata::bench {
namespace {

constexpr size_t kMetricsBytesMax = size_t{64} << 20;
constexpr size_t kModelBytesMax = size_t{4} << 30;
constexpr size_t kLogBytesMax = size_t{16} << 20;
constexpr uint64_t kWindows = 8;
constexpr int kBadInput = 2;  // exit status
const char* const kExchanges[] = {"sync", "lazy", "async", "ring"};

// A folder for what jobs leave, gone in the end.
class Scratch {
 public:
  static absl::StatusOr<std::unique_ptr<Scratch>> Create() {
    char path[] = "/tmp/strata-bench-XXXXXX";
    if (mkdtemp(path) == nullptr) return absl::InternalError("cannot make a directory in /tmp");
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

// What one run of a case gave.
struct Trained {
  std::vector<double> rates;
  double median_rate = 0;
  std::string model;  // the bytes of the first job's
};

double MedianOf(const std::vector<double>& values) { return FiguresOf(values).median_ms; }

class TrainBench {
 public:
  TrainBench(const TrainBenchOptions& options, std::string scratch)
      : options_(options), scratch_(std::move(scratch)) {}

  absl::StatusOr<TrainBenchResult> Run(const std::function<void(const std::string&)>& progress);

 private:
  std::vector<TrainCase> Cases() const;
  absl::StatusOr<std::string> JobFile() const;
  std::vector<std::string> Command(const TrainCase& what, const std::string& run_dir) const;
  absl::StatusOr<Trained> Train(const TrainCase& what);
  void Summarize(std::vector<TrainFigures>* all) const;
  // Whether the model is the one that this case has to end with, as far as that is known.
  bool IsExpected(const TrainCase& what, const std::string& model);

  const TrainBenchOptions& options_;
  const std::string scratch_;
  std::string job_;
  uint32_t runs_ = 0;
  std::map<uint32_t, std::string> models_;  // of sync jobs, by ranks
};

std::vector<TrainCase> TrainBench::Cases() const {
  std::vector<TrainCase> cases;
  for (uint32_t ranks = 1; ranks <= options_.ranks_max;
       ranks = ranks < options_.ranks_max ? std::min(2 * ranks, options_.ranks_max) : ranks + 1) {
    cases.push_back({"none", ranks});
    for (const std::string& exchange : options_.exchanges) {
      if (exchange != "ring" || ranks > 1) cases.push_back({exchange, ranks});
    }
  }
  return cases;
}

absl::StatusOr<std::string> TrainBench::JobFile() const {
  if (!options_.job.empty()) return options_.job;
  const std::string path = scratch_ + "/job.textproto";
  const absl::Status status = WriteFileAtomically(
      path,
      absl::StrFormat("name: \"bench\"\n"
                      "model { zoo: \"%s\" }\n"
                      "data { synthetic { train_samples: %d test_samples: 64 } "
                      "batch_per_rank: %d }\n"
                      "schedule { base_lr: 0.01 }\n",
                      options_.model, std::max<uint64_t>(8192, options_.batch), options_.batch));
  if (!status.ok()) return status;
  return path;
}

std::vector<std::string> TrainBench::Command(const TrainCase& what,
                                             const std::string& run_dir) const {
  const bool is_none = what.exchange == "none", is_ring = what.exchange == "ring";
  const uint32_t ranks = is_none ? 1 : what.ranks;
  std::vector<std::string> command = {
      "strata",      "local",
      "--log-level", "error",
      "--job",       job_,
      "--servers",   absl::StrCat(is_none || is_ring ? 0 : options_.servers),
      "--nodes",     absl::StrCat(is_ring ? ranks : 1),
      "--slots",     absl::StrCat(is_ring ? 1 : ranks),
      "--runs",      run_dir + "-runs"};
  auto set = [&](const std::string& setting) { command.insert(command.end(), {"--set", setting}); };
  for (const std::string& setting : options_.settings) set(setting);
  set(absl::StrCat("ranks=", ranks));
  if (is_ring) set("ranks_per_node=1");
  set(absl::StrCat("max_steps=", options_.steps));
  set("epochs=0");
  set("evaluation.every_epochs=1000000");
  set(absl::StrCat("metrics.every_steps=", std::max<uint64_t>(1, options_.steps / kWindows)));
  set(absl::StrCat("run_dir=\"", run_dir, "\""));
  if (is_none) set("exchange=NONE");
  if (is_ring) set("exchange=RING");
  if (!is_none) command.insert(command.end(), {"--mode", is_ring ? "sync" : what.exchange});
  return command;
}

// The last line that a command wrote, which says what was wrong.
std::string LastLine(const std::string& log_path) {
  const auto log = ReadFile(log_path, kLogBytesMax);
  if (!log.ok()) return "";
  const std::vector<std::string> lines = absl::StrSplit(*log, '\n', absl::SkipEmpty());
  return lines.empty() ? "" : lines.back();
}

absl::StatusOr<Trained> TrainBench::Train(const TrainCase& what) {
  struct Job {
    std::string dir;
    std::unique_ptr<Process> process;
  };
  std::vector<Job> jobs(what.exchange == "none" ? what.ranks : 1);
  for (Job& job : jobs) {
    job.dir = absl::StrCat(scratch_, "/", runs_++);
    Process::Spec spec;
    spec.executable = options_.binary;
    spec.args = Command(what, job.dir);
    spec.log_path = job.dir + ".log";
    auto process = Process::Start(spec);
    if (!process.ok()) return process.status();
    job.process = *std::move(process);
  }
  Trained trained;
  for (Job& job : jobs) {
    const ExitStatus end = job.process->Reap();
    if (!end.ok()) {
      const std::string why = LastLine(job.dir + ".log");
      if (end.code == kBadInput) {
        return absl::InvalidArgumentError(absl::StripPrefix(why, "strata: error: "));
      }
      return absl::UnavailableError(absl::StrFormat(
          "%s, %d ranks: strata local %s: %s", what.exchange, what.ranks, end.ToString(), why));
    }
    auto metrics = ReadFile(job.dir + "/metrics.jsonl", kMetricsBytesMax);
    if (!metrics.ok()) return metrics.status();
    auto rates = RatesOf(*metrics);
    if (!rates.ok()) return rates.status();
    // Side by side: window by window together.
    if (trained.rates.empty()) trained.rates.assign(rates->size(), 0);
    for (size_t i = 0; i < std::min(trained.rates.size(), rates->size()); ++i) {
      trained.rates[i] += (*rates)[i];
    }
    auto model = ReadFile(job.dir + "/model.safetensors", kModelBytesMax);
    if (!model.ok()) return model.status();
    if (trained.model.empty()) trained.model = *std::move(model);
    std::error_code ignored;
    std::filesystem::remove_all(job.dir, ignored);
    std::filesystem::remove_all(job.dir + "-runs", ignored);
  }
  trained.median_rate = MedianOf(trained.rates);
  return trained;
}

bool TrainBench::IsExpected(const TrainCase& what, const std::string& model) {
  const bool is_one_alone = what.exchange == "none" && what.ranks == 1;
  if (what.exchange != "sync" && !is_one_alone) return true;
  const auto [expected, is_first] = models_.emplace(what.ranks, model);
  return is_first || expected->second == model;
}

void TrainBench::Summarize(std::vector<TrainFigures>* all) const {
  double alone_ms = 0;
  for (TrainFigures& figures : *all) {
    const uint32_t ranks = figures.what.ranks;
    std::vector<double> steps_ms;
    for (double rate : figures.rates) steps_ms.push_back(1e3 * ranks * options_.batch / rate);
    figures.step = FiguresOf(steps_ms);
    figures.median_rate = MedianOf(figures.rates);
    figures.share = MedianOf(figures.shares);
    if (figures.what.exchange == "none") alone_ms = figures.step.median_ms;
    figures.bound_ms = alone_ms;
    figures.scaling = figures.median_rate / (ranks * all->front().median_rate);
  }
}

absl::StatusOr<TrainBenchResult> TrainBench::Run(
    const std::function<void(const std::string&)>& progress) {
  auto job = JobFile();
  if (!job.ok()) return job.status();
  job_ = *std::move(job);
  TrainBenchResult result;
  result.verified = true;
  for (const TrainCase& what : Cases()) result.figures.push_back({.what = what});
  const size_t runs = options_.rounds * result.figures.size();
  size_t run = 0;
  for (uint32_t round = 0; round < options_.rounds; ++round) {
    double alone_rate = 0;  // of as many ranks in this round
    for (TrainFigures& figures : result.figures) {
      auto trained = Train(figures.what);
      if (!trained.ok()) return trained.status();
      if (!IsExpected(figures.what, trained->model)) result.verified = false;
      if (figures.what.exchange == "none") alone_rate = trained->median_rate;
      figures.rates.insert(figures.rates.end(), trained->rates.begin(), trained->rates.end());
      figures.shares.push_back(trained->median_rate / alone_rate);
      progress(absl::StrFormat("%d/%d  %s, %d ranks: %.0f images/s", ++run, runs,
                               figures.what.exchange, figures.what.ranks, trained->median_rate));
    }
  }
  Summarize(&result.figures);
  return result;
}

}  // namespace

absl::StatusOr<TrainBenchResult> RunTrainBench(
    const TrainBenchOptions& options, const std::function<void(const std::string&)>& progress) {
  for (const std::string& exchange : options.exchanges) {
    if (absl::c_linear_search(kExchanges, exchange)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--exchanges ", exchange, ": not one of ", absl::StrJoin(kExchanges, ", ")));
  }
  if (options.steps < 2) {
    return absl::InvalidArgumentError("--steps: at least 2, of which the first warm up");
  }
  auto scratch = Scratch::Create();
  if (!scratch.ok()) return scratch.status();
  return TrainBench(options, (*scratch)->path()).Run(progress);
}

}  // namespace strata::bench
