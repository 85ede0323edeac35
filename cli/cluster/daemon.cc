#include "cli/cluster/daemon.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "cli/options/invocation.h"
#include "cli/options/terminal.h"
#include "common/log.h"

namespace strata::cli {

namespace {

// Waits until the daemon's duties have moved elsewhere; at most for its notice, or until another
// signal. Returns the failure with which `request` was raised meanwhile.
absl::Status Leave(StopRequest* request, const DaemonSteps& steps) {
  steps.leave();
  LogInfo("leaves the cluster: waits up to %s for what is here to go elsewhere",
          absl::FormatDuration(steps.notice));
  const absl::Time deadline = absl::Now() + steps.notice;
  while (!steps.has_left()) {
    if (absl::Now() >= deadline) {
      LogWarning("has not left the cluster in time");
      return absl::OkStatus();
    }
    if (!request->WaitForMore(absl::Milliseconds(100))) continue;
    if (request->raised().ok()) LogWarning("is told to stop at once");
    return request->raised();
  }
  if (request->raised().ok()) LogInfo("has left the cluster");
  return request->raised();
}

}  // namespace

int RunDaemon(StopRequest* request, const DaemonSteps& steps) {
  // Start may take long (a coordinator that is not there yet), so a thread waits for signals
  // meanwhile; `request` is raised by whatever comes first that ends the daemon.
  absl::Mutex mutex;
  bool started = false;
  absl::Status end;
  std::thread waiter([&] {
    absl::Status status = request->Wait();
    absl::MutexLock lock(&mutex);
    if (!started && status.ok()) std::_Exit(kExitOk);
    end = status;
  });
  absl::Status status = steps.start();
  if (status.ok()) {
    {
      absl::MutexLock lock(&mutex);
      started = true;
    }
    PrintF(stdout, "%s\n", steps.ready_line());
    std::fflush(stdout);
  } else {
    {
      absl::MutexLock lock(&mutex);
      started = true;
    }
    request->Raise(status);
  }
  waiter.join();
  if (status.ok() && end.ok() && steps.notice > absl::ZeroDuration()) end = Leave(request, steps);
  steps.stop();
  if (!status.ok()) return PrintError(status);
  if (!end.ok()) return PrintError(std::string(end.message()), kExitFailed);
  LogInfo("stopped");
  return kExitOk;
}

}  // namespace strata::cli
