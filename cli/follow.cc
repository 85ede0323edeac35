#include "cli/follow.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "cli/render.h"
#include "cli/trace_file.h"

namespace strata::cli {
namespace {

// Of standard output; 0: it is no terminal.
int TerminalColumns() {
  constexpr int kUnknownWidth = 80;
  if (isatty(STDOUT_FILENO) == 0) return 0;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUnknownWidth;
  return size.ws_col;
}

// One JSON object per line on standard output.
class JsonEvents {
 public:
  void Print(const proto::FollowEvent& event) {
    if (event.has_metrics()) {
      // A coordinator that restarted tells steps again.
      const proto::MetricsRecord& record = event.metrics();
      if (record.step() <= shown_step_ && !record.final()) return;
      shown_step_ = record.step();
    }
    std::fputs(EventJson(event).c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  uint64_t shown_step_ = 0;
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

std::string TraceError(const absl::Status& status) {
  return absl::StrCat("the trace is not written: ", status.message());
}

}  // namespace

std::optional<int> FollowJob(control::CoordinatorClient* client, JobId job, bool json,
                             const std::string& trace) {
  ProgressDisplay display(stdout, TerminalColumns());
  JsonEvents events;
  auto followed = client->Follow(job, [&](const proto::FollowEvent& event) {
    json ? events.Print(event) : display.Show(event);
  });
  display.End();
  if (absl::IsCancelled(followed.status())) return std::nullopt;
  if (!followed.ok()) return PrintError(std::string(followed.status().message()), kExitFailed);
  const proto::JobStatus& end = *followed;
  absl::Status traced;
  if (!trace.empty()) traced = WriteTrace(client, job, trace, /*quiet=*/json);
  if (absl::IsCancelled(traced)) return std::nullopt;
  if (end.state() != proto::FINISHED) {
    if (!json && !end.run_dir().empty()) std::printf("logs: %s/logs\n", end.run_dir().c_str());
    std::fflush(stdout);
    if (!traced.ok()) PrintError(TraceError(traced), kExitFailed);
    return PrintError(EndLine(end), kExitFailed);
  }
  if (!json) PrintOutputs(end);
  return traced.ok() ? kExitOk : PrintError(TraceError(traced), kExitFailed);
}

int FollowJobUntilSignal(control::CoordinatorClient* client, JobId job,
                         const CoordinatorOptions& options, Interrupt* interrupt,
                         const std::string& trace) {
  interrupt->Catch([client] { client->StopFollowing(); });
  std::optional<int> exit_status = FollowJob(client, job, options.json, trace);
  interrupt->Catch(nullptr);
  if (exit_status.has_value()) return *exit_status;
  if (!options.json) {
    const uint32_t id = job.value();
    const std::string at =
        options.address == CoordinatorOptions().address ? "" : " --coordinator " + options.address;
    std::printf(
        "job %u goes on; look: strata status %u%s, follow: strata status %u --follow%s, "
        "stop: strata cancel %u%s\n",
        id, id, at.c_str(), id, at.c_str(), id, at.c_str());
    std::fflush(stdout);
  }
  return interrupt->exit_status();
}

}  // namespace strata::cli
