#include "cli/bench/train_jobs.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "cli/bench/figures.h"
#include "common/os/atomic_file.h"
#include "common/os/process.h"
#include "common/require.h"
#include "common/wire/frame.h"

namespace strata::cli {

absl::StatusOr<Windows> ParseWindows(const std::string& metrics) {
  Windows windows;
  windows.has_finite_losses = true;
  for (absl::string_view line : absl::StrSplit(metrics, '\n', absl::SkipEmpty())) {
    const auto record =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
    auto has_number = [&](const char* name) {
      return record.contains(name) && record[name].is_number();
    };
    if (!record.is_object() || !has_number("samples_per_s") || !has_number("samples")) {
      return absl::InvalidArgumentError(absl::StrCat("not a record of metrics: ", line));
    }
    windows.samples = std::max(windows.samples, record["samples"].get<uint64_t>());
    // Infinite values and NaN are written as null.
    if (!has_number("loss")) windows.has_finite_losses = false;
    if (!record.value("final", false)) windows.rates.push_back(record["samples_per_s"]);
  }
  if (windows.rates.size() < 2) {
    return absl::FailedPreconditionError(
        absl::StrCat(windows.rates.size(), " windows of steps, which leaves none after the first"));
  }
  windows.rates.erase(windows.rates.begin());
  return windows;
}

namespace {

constexpr size_t kMetricsBytesMax = size_t{64} << 20;
constexpr size_t kModelBytesMax = size_t{4} << 30;
constexpr size_t kLogBytesMax = size_t{16} << 20;
constexpr int kBadInput = 2;  // exit status
constexpr int kStopMsMax = 10000;

// One of a case's jobs; what it leaves is gone with it.
class Job {
 public:
  static absl::StatusOr<std::unique_ptr<Job>> Start(const std::string& binary,
                                                    const TrainCase& what, const TrainRun& run) {
    Process::Spec spec;
    spec.executable = binary;
    spec.args = MakeCommand(what, run);
    spec.log_path = run.dir + ".log";
    auto process = Process::Start(spec);
    if (!process.ok()) return process.status();
    return std::make_unique<Job>(run.dir, *std::move(process));
  }
  Job(std::string dir, std::unique_ptr<Process> process)
      : dir_(std::move(dir)), process_(std::move(process)) {}
  ~Job() {
    process_.reset();
    for (const char* what : {"", ".log"}) {
      std::error_code ignored;
      std::filesystem::remove_all(dir_ + what, ignored);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // False where `stop_fd` became readable before the job's end.
  bool Wait(int stop_fd) {
    pollfd fds[] = {{process_->pid_fd(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    while (poll(fds, 2, -1) < 0) {
    }
    return fds[1].revents == 0;
  }

  // Its cluster ends its daemons; one that does not is killed.
  void Stop() {
    process_->Signal(SIGTERM);
    pollfd ended = {process_->pid_fd(), POLLIN, 0};
    poll(&ended, 1, kStopMsMax);
  }

  absl::Status End(const TrainCase& what) {
    const ExitStatus end = process_->Reap();
    ended_well_ = end.ok();
    if (ended_well_) return absl::OkStatus();
    const std::string why = LastLineOfLog();
    if (end.code == kBadInput) {
      return absl::InvalidArgumentError(absl::StripPrefix(why, "strata: error: "));
    }
    return absl::UnavailableError(absl::StrFormat("%s, %d ranks: strata local %s: %s", what.mode,
                                                  what.ranks, end.ToString(), why));
  }

  // Adds what the job did to that of the jobs before. REQUIRES: End was OK.
  absl::Status AddTo(Trained* trained) const {
    STRATA_REQUIRE(ended_well_);
    const auto metrics = ReadFile(dir_ + "/run/metrics.jsonl", kMetricsBytesMax);
    if (!metrics.ok()) return metrics.status();
    const auto windows = ParseWindows(*metrics);
    if (!windows.ok()) return windows.status();
    const bool is_first = trained->rates.empty();
    // Side by side: window by window together.
    trained->rates.resize(is_first ? windows->rates.size() : trained->rates.size());
    for (size_t i = 0; i < std::min(trained->rates.size(), windows->rates.size()); ++i) {
      trained->rates[i] += windows->rates[i];
    }
    trained->samples += windows->samples;
    trained->is_finite = trained->is_finite && windows->has_finite_losses;
    if (!is_first) return absl::OkStatus();
    const auto model = ReadFile(dir_ + "/run/model.safetensors", kModelBytesMax);
    if (!model.ok()) return model.status();
    trained->weights_sum = wire::Checksum(
        absl::MakeConstSpan(reinterpret_cast<const std::byte*>(model->data()), model->size()));
    return absl::OkStatus();
  }

 private:
  // The last line says what was wrong.
  std::string LastLineOfLog() const {
    const auto log = ReadFile(dir_ + ".log", kLogBytesMax);
    if (!log.ok()) return "";
    const std::vector<std::string> lines = absl::StrSplit(*log, '\n', absl::SkipEmpty());
    return lines.empty() ? "" : lines.back();
  }

  const std::string dir_;
  std::unique_ptr<Process> process_;
  bool ended_well_ = false;
};

}  // namespace

absl::StatusOr<Trained> RunCase(const std::string& binary, const TrainCase& what,
                                const TrainRun& run, int stop_fd) {
  std::vector<std::unique_ptr<Job>> jobs;
  for (uint32_t i = 0; i < (what.is_none() ? what.ranks : 1); ++i) {
    TrainRun one = run;
    one.dir = absl::StrCat(run.dir, "-", i);
    if (what.is_none() && !run.gpus.empty()) one.gpus = {run.gpus[i % run.gpus.size()]};
    auto job = Job::Start(binary, what, one);
    if (!job.ok()) return job.status();
    jobs.push_back(*std::move(job));
  }
  for (const auto& job : jobs) {
    if (job->Wait(stop_fd)) continue;
    for (const auto& running : jobs) running->Stop();
    return absl::CancelledError("interrupted");
  }
  Trained trained;
  for (const auto& job : jobs) {
    absl::Status status = job->End(what);
    if (status.ok()) status = job->AddTo(&trained);
    if (!status.ok()) return status;
  }
  trained.median_rate = MakeFigures(trained.rates).median_ms;
  return trained;
}

}  // namespace strata::cli
