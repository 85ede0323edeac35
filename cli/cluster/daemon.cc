#include "cli/cluster/daemon.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "cli/program/invocation.h"
#include "common/log.h"

namespace strata::cli {

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
    std::printf("%s\n", steps.ready_line().c_str());
    std::fflush(stdout);
  } else {
    {
      absl::MutexLock lock(&mutex);
      started = true;
    }
    request->Raise(status);
  }
  waiter.join();
  steps.stop();
  if (!status.ok()) return PrintError(status);
  if (!end.ok()) return PrintError(std::string(end.message()), kExitFailed);
  LogInfo("stopped");
  return kExitOk;
}

}  // namespace strata::cli
