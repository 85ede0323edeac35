#include "cli/cluster/follow.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "cli/options/chrome_trace.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/invocation.h"
#include "cli/options/terminal.h"
#include "cli/render/progress.h"
#include "cli/render/render.h"
#include "common/checkpoint/checkpoints.h"
#include "common/checkpoint/open_store.h"
#include "common/job/consistency.h"
#include "common/os/environment.h"
#include "proto/record.pb.h"

namespace strata::cli {

namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

}  // namespace

RankOutputOptions ParseRankOutput(const std::string& log) {
  using Ranks = RankOutputOptions::Ranks;
  if (log.empty()) return {.ranks = Ranks::kFirst};
  if (log == "none") return {.ranks = Ranks::kNone};
  return {.ranks = Ranks::kAll, .file = log == "all" ? "" : log};
}

absl::Status RankOutput::Open(const RankOutputOptions& options) {
  options_ = options;
  if (options_.file.empty()) return absl::OkStatus();
  file_.open(options_.file);
  if (file_) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--log ", options_.file, ": cannot be written"));
}

void RankOutput::Begin(const std::string& run_dir, uint32_t ranks,
                       std::function<void(const std::string& lines)> show) {
  if (options_.ranks == RankOutputOptions::Ranks::kNone || thread_.joinable()) return;
  const bool all = options_.ranks == RankOutputOptions::Ranks::kAll;
  const bool for_terminal = options_.file.empty() && TerminalColumns() > 0;
  for (uint32_t rank = 0; rank < (all ? ranks : 1); ++rank) {
    logs_.emplace_back(absl::StrCat(run_dir, "/logs/rank", rank, ".log"),
                       all ? absl::StrCat("[", rank, "] ") : "", for_terminal);
  }
  show_ = std::move(show);
  thread_ = std::thread([this] {
    while (!ends_.WaitForNotificationWithTimeout(kLookEvery)) Show(/*all=*/false);
  });
}

void RankOutput::End() {
  if (!thread_.joinable()) return;
  ends_.Notify();
  thread_.join();
  Show(/*all=*/true);
}

void RankOutput::Show(bool all) {
  for (LogTail& log : logs_) {
    for (std::string lines = log.Read(all); !lines.empty(); lines = log.Read(all)) {
      if (file_.is_open()) {
        file_ << lines << std::flush;
      } else {
        show_(lines);
      }
    }
  }
}

namespace {

// One JSON object per line on standard output.
class JsonEvents {
 public:
  void Print(const proto::FollowEvent& event) {
    if (event.has_metrics() && !IsNews(event.metrics(), &shown_step_)) return;
    PrintJson(stdout, EventJson(event));
    std::fflush(stdout);
  }

 private:
  uint64_t shown_step_ = 0;  // see IsNews
};

// Prints where a finished job's outputs are.
void PrintOutputs(const proto::JobStatus& end) {
  PrintF(stdout, "%s\n", EndLine(end));
  if (!end.run_dir().empty()) {
    PrintF(stdout, "run directory: %s\n", end.run_dir());
    if (end.job().has_model()) PrintF(stdout, "model: %s/model.safetensors\n", end.run_dir());
  }
  std::fflush(stdout);
}

// Prints how the job ended. Returns its exit status.
int PrintEnd(const proto::JobStatus& end, bool json) {
  if (end.state() == proto::FINISHED) {
    if (!json) PrintOutputs(end);
    return kExitOk;
  }
  if (!json && !end.run_dir().empty()) PrintF(stdout, "logs: %s/logs\n", end.run_dir());
  std::fflush(stdout);
  return PrintError(EndLine(end), kExitFailed);
}

// Returns the folder with the ranks' logs. Until the ranks report it, it is below the workers'
// folder; empty if unknown.
std::string RunDirectory(const proto::JobStatus& status, const RankOutputOptions& output) {
  if (!status.run_dir().empty() || output.runs_dir.empty()) return status.run_dir();
  std::string name = status.job().run_dir();
  if (name.empty()) name = absl::StrCat(status.name(), "-", status.job_id());
  return std::filesystem::path(output.runs_dir) / name;
}

std::string AtCoordinator(const CoordinatorOptions& options) {
  return options.address == FindCoordinator() ? "" : " --coordinator " + options.address;
}

}  // namespace

std::string StoppedText(const proto::JobStatus& status) {
  std::string text;
  if (!status.run_dir().empty()) {
    absl::StrAppend(&text, "run directory: ", Escaped(status.run_dir()), "\n");
  }
  const proto::CheckpointStatus& checkpoints = status.checkpoints();
  const bool has_own = checkpoints.complete() > 0;
  const std::string dir =
      Escaped(has_own ? status.job().checkpoint().dir() : checkpoints.resumed_dir());
  if (dir.empty()) return text;
  absl::StrAppend(&text, "newest checkpoint: step ",
                  has_own ? checkpoints.newest_step() : checkpoints.resumed_step(), " in ", dir,
                  "; the same command with --resume ", dir, " goes on from there\n");
  return text;
}

void UpdateNewestCheckpoint(proto::JobStatus* status) {
  const std::string& dir = status->job().checkpoint().dir();
  if (dir.empty() || dir.front() != '/') return;
  const absl::StatusOr<std::unique_ptr<Store>> store = OpenStoreThatIsThere(dir, {});
  if (!store.ok()) return;
  const absl::StatusOr<Checkpoints::Listing> there = Checkpoints(**store).List();
  if (!there.ok() || there->complete.empty()) return;
  proto::JobRecord record;
  if (!record.ParseFromString(there->complete.front().record)) return;
  const uint64_t step = there->complete.front().clock * StepsPerClock(record.job()) *
                        ProgramStepsPerStep(record.job());
  proto::CheckpointStatus& checkpoints = *status->mutable_checkpoints();
  if (checkpoints.complete() > 0 && step <= checkpoints.newest_step()) return;
  checkpoints.set_complete(std::max(1U, checkpoints.complete()));
  checkpoints.set_newest_step(step);
}

std::optional<int> FollowJob(control::CoordinatorClient* client, JobId job, bool json,
                             const std::string& trace, const std::string& trace_command,
                             const RankOutputOptions& output, proto::JobStatus* newest) {
  RankOutput ranks;
  if (absl::Status opened = ranks.Open(output); !opened.ok()) return PrintError(opened);
  absl::Mutex mutex;
  ProgressDisplay display(stdout, TerminalColumns(), ShowsBars(OwnEnvironment()));
  JsonEvents events;
  const auto write = [&](const std::string& lines) {
    const absl::MutexLock lock(&mutex);
    display.Write(lines);
  };
  auto followed = client->Follow(job, [&](const proto::FollowEvent& event) {
    const proto::JobStatus& status = event.status();
    if (event.has_status() && status.state() != proto::QUEUED) {
      const std::string run_dir = RunDirectory(status, output);
      if (!run_dir.empty()) ranks.Begin(run_dir, status.ranks(), write);
    }
    const absl::MutexLock lock(&mutex);
    if (event.has_status() && newest != nullptr) *newest = status;
    json ? events.Print(event) : display.Show(event);
  });
  ranks.End();
  display.End();
  if (absl::IsCancelled(followed.status())) return std::nullopt;
  if (!followed.ok()) return PrintError(std::string(followed.status().message()), kExitFailed);
  const int exit_status = PrintEnd(*followed, json);
  if (trace.empty()) return exit_status;
  const absl::Status traced = WriteTrace(client, job, trace, /*quiet=*/json);
  if (absl::IsCancelled(traced)) {
    PrintF(stderr, "strata: warning: the trace is not written%s%s\n",
           trace_command.empty() ? "" : ": ", trace_command);
    return exit_status;
  }
  if (traced.ok()) return exit_status;
  return PrintError(absl::StrCat("the trace is not written: ", traced.message()), kExitFailed);
}

int FollowJobUntilSignal(control::CoordinatorClient* client, JobId job,
                         const CoordinatorOptions& options, Interrupt* interrupt,
                         const std::string& trace, const RankOutputOptions& output) {
  interrupt->Catch([client] { client->StopFollowing(); });
  const uint32_t id = job.value();
  const std::string at = AtCoordinator(options);
  std::optional<int> exit_status = FollowJob(
      client, job, options.json, trace, absl::StrCat("strata trace ", id, " ", trace, at), output);
  interrupt->Catch(nullptr);
  if (exit_status.has_value()) return *exit_status;
  if (!options.json) {
    PrintF(stdout,
           "job %u goes on; look: strata status %u%s, follow: strata status %u --follow%s, "
           "stop: strata cancel %u%s\n",
           id, id, at, id, at, id, at);
    std::fflush(stdout);
  }
  return interrupt->exit_status();
}

}  // namespace strata::cli
