#include "cli/cluster/follow.h"

#include <cstdio>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "cli/options/coordinator_address.h"
#include "cli/program/invocation.h"
#include "cli/render/bar/progress_bar.h"
#include "cli/render/progress.h"
#include "cli/render/render.h"
#include "cli/render/trace/trace_file.h"
#include "common/process/environment.h"

namespace strata::cli {
namespace {

// One JSON object per line on standard output.
class JsonEvents {
 public:
  void Print(const proto::FollowEvent& event) {
    if (event.has_metrics() && !IsNews(event.metrics(), &shown_step_)) return;
    std::fputs(EventJson(event).c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  uint64_t shown_step_ = 0;  // see IsNews
};

// Of a job that has finished.
void PrintOutputs(const proto::JobStatus& end) {
  std::printf("%s\n", EndLine(end).c_str());
  if (!end.run_dir().empty()) {
    std::printf("run directory: %s\n", end.run_dir().c_str());
    if (end.job().has_model()) std::printf("model: %s/model.safetensors\n", end.run_dir().c_str());
  }
  std::fflush(stdout);
}

// How the job ended. Returns the exit status that it stands for.
int PrintEnd(const proto::JobStatus& end, bool json) {
  if (end.state() == proto::FINISHED) {
    if (!json) PrintOutputs(end);
    return kExitOk;
  }
  if (!json && !end.run_dir().empty()) std::printf("logs: %s/logs\n", end.run_dir().c_str());
  std::fflush(stdout);
  return PrintError(EndLine(end), kExitFailed);
}

// Where the job's ranks write their logs. Until they have said so themselves, it is below the
// folder of the workers; empty where that is not known.
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

std::optional<int> FollowJob(control::CoordinatorClient* client, JobId job, bool json,
                             const std::string& trace, const std::string& trace_command,
                             const RankOutputOptions& output) {
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
    std::fprintf(stderr, "strata: warning: the trace is not written%s%s\n",
                 trace_command.empty() ? "" : ": ", trace_command.c_str());
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
    std::printf(
        "job %u goes on; look: strata status %u%s, follow: strata status %u --follow%s, "
        "stop: strata cancel %u%s\n",
        id, id, at.c_str(), id, at.c_str(), id, at.c_str());
    std::fflush(stdout);
  }
  return interrupt->exit_status();
}

}  // namespace strata::cli
