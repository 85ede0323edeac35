#include "cli/commands/export_tensorboard.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/commands/metrics_lines.h"
#include "common/counted.h"
#include "common/os/atomic_file.h"
#include "common/tensorboard/events.h"
#include "common/tensorboard/run_events.h"

namespace strata::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMetricsBytesMax = size_t{1} << 30;
constexpr size_t kJobBytesMax = size_t{1} << 20;

// A run's folder, and the folder of its events.
struct Run {
  std::string dir;
  std::string out;
};

std::string MetricsOf(const std::string& dir) { return absl::StrCat(dir, "/metrics.jsonl"); }

bool HasMetrics(const std::string& dir) {
  std::error_code error;
  return fs::exists(MetricsOf(dir), error);
}

// Returns the runs of a comparison, by name; none if `dir` is not a comparison.
std::vector<Run> RunsOfComparison(const std::string& dir, const std::string& out) {
  std::vector<Run> runs;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(absl::StrCat(dir, "/jobs"), error)) {
    const std::string name = entry.path().filename().string();
    if (HasMetrics(entry.path().string())) {
      runs.push_back({entry.path().string(), absl::StrCat(out, "/", name)});
    }
  }
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.dir < b.dir; });
  return runs;
}

// Run directories below a folder, as strata-runs or one start's folder in it has them; by name, and
// no more than are worth naming.
std::vector<std::string> RunsBelow(const std::string& dir) {
  constexpr int kDepthMax = 2;
  constexpr size_t kLooksMax = 10000;  // at entries
  std::vector<std::string> runs;
  std::error_code error;
  size_t looks = 0;
  auto it = fs::recursive_directory_iterator(dir, error);
  for (; !error && it != fs::recursive_directory_iterator() && looks < kLooksMax;
       it.increment(error), ++looks) {
    std::error_code ignored;
    if (!it->is_directory(ignored)) continue;
    const bool is_run = HasMetrics(it->path().string());
    if (is_run) runs.push_back(it->path().string());
    if (is_run || it.depth() + 1 >= kDepthMax) it.disable_recursion_pending();
  }
  std::sort(runs.begin(), runs.end());
  return runs;
}

// "A, B and 3 more"
std::string Names(std::vector<std::string> names) {
  constexpr size_t kNamesMax = 5;
  const size_t more = names.size() > kNamesMax ? names.size() - kNamesMax : 0;
  names.resize(names.size() - more);
  return absl::StrCat(absl::StrJoin(names, ", "),
                      more == 0 ? "" : absl::StrCat(" and ", more, " more"));
}

absl::StatusOr<std::vector<Run>> FindRuns(const std::string& dir, const std::string& out) {
  std::error_code error;
  if (!fs::is_directory(dir, error)) {
    return absl::NotFoundError(absl::StrCat(dir, ": no such folder"));
  }
  if (HasMetrics(dir)) return std::vector<Run>{{dir, out.empty() ? dir : out}};
  std::vector<Run> runs = RunsOfComparison(dir, out.empty() ? dir + "/tensorboard" : out);
  if (const std::vector<std::string> below = RunsBelow(dir); runs.empty() && !below.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(dir, ": is no run directory, but has those of ",
                                                   Counted(below.size(), "run"), ": name one of ",
                                                   Names(below)));
  }
  if (runs.empty()) {
    return absl::NotFoundError(
        absl::StrCat(dir,
                     ": neither metrics.jsonl, which a job's run directory has once the first "
                     "steps are reported, nor jobs/*/metrics.jsonl of a comparison"));
  }
  return runs;
}

// Two event files in a folder are one run to TensorBoard, with all points twice.
absl::Status CheckOut(const Run& run) {
  for (const std::string& name : tensorboard::EventFilesIn(run.out)) {
    if (name == tensorboard::kExportedName) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(run.out, ": has events already (", name,
                     "), which tensorboard shows as they are; name another folder with --out"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EventsOf(const std::vector<proto::MetricsRecord>& records,
                                     const std::string& dir) {
  std::string text = tensorboard::FrameEvent(tensorboard::FileVersionEvent(0));
  const auto job = ReadFile(dir + "/job.textproto", kJobBytesMax);
  if (!job.ok() && !absl::IsNotFound(job.status())) return job.status();
  if (job.ok()) text += tensorboard::FrameEvent(tensorboard::JobTextEvent(*job, 0));
  for (const proto::MetricsRecord& record : records) {
    text += tensorboard::FrameEvent(tensorboard::MetricsEvent(record, record.elapsed_s()));
  }
  return text;
}

absl::StatusOr<ExportedRun> ExportRun(const Run& run) {
  if (absl::Status status = CheckOut(run); !status.ok()) return status;
  const std::string path = MetricsOf(run.dir);
  const auto metrics = ReadFile(path, kMetricsBytesMax);
  if (!metrics.ok()) return metrics.status();
  const auto lines = ParseMetrics(*metrics, path);
  if (!lines.ok()) return lines.status();
  if (lines->records.empty()) {
    return ExportedRun{.warning = absl::StrCat(path, ": is empty, so there is nothing to export")};
  }
  const auto text = EventsOf(lines->records, run.dir);
  if (!text.ok()) return text.status();
  std::error_code error;
  fs::create_directories(run.out, error);
  if (error) return FileError(error.value(), run.out);
  ExportedRun exported = {.file = absl::StrCat(run.out, "/", tensorboard::kExportedName),
                          .records = lines->records.size()};
  if (lines->is_cut) {
    exported.warning = absl::StrCat(path, ": the last line is cut short, and left out");
  }
  if (absl::Status status = WriteFileAtomically(exported.file, *text); !status.ok()) return status;
  return exported;
}

}  // namespace

absl::StatusOr<std::vector<ExportedRun>> ExportTensorBoard(const std::string& run_dir,
                                                           const std::string& out) {
  const auto runs = FindRuns(run_dir, out);
  if (!runs.ok()) return runs.status();
  std::vector<ExportedRun> exported;
  for (const Run& run : *runs) {
    auto one = ExportRun(run);
    if (!one.ok()) return one.status();
    exported.push_back(*std::move(one));
  }
  const auto is_empty = [](const ExportedRun& run) { return run.file.empty(); };
  if (std::all_of(exported.begin(), exported.end(), is_empty)) {
    return absl::InvalidArgumentError(exported.front().warning);
  }
  return exported;
}

}  // namespace strata::cli
