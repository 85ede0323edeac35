#include "cli/follow.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/progress.h"

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

}  // namespace

int FollowJob(control::CoordinatorClient* client, JobId job) {
  ProgressDisplay display(stdout, TerminalColumns());
  auto followed =
      client->Follow(job, [&display](const proto::FollowEvent& event) { display.Show(event); });
  if (!followed.ok()) return PrintError(std::string(followed.status().message()), kExitFailed);
  const proto::JobStatus& end = *followed;
  if (end.state() != proto::FINISHED) {
    if (!end.run_dir().empty()) std::printf("logs: %s/logs\n", end.run_dir().c_str());
    std::fflush(stdout);
    return PrintError(EndLine(end), kExitFailed);
  }
  std::printf("%s\n", EndLine(end).c_str());
  if (!end.run_dir().empty()) {
    std::printf("run directory: %s\n", end.run_dir().c_str());
    if (end.job().has_model()) std::printf("model: %s/model.safetensors\n", end.run_dir().c_str());
  }
  std::fflush(stdout);
  return kExitOk;
}

}  // namespace strata::cli
