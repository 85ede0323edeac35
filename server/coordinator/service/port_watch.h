#ifndef STRATA_SERVER_COORDINATOR_SERVICE_PORT_WATCH_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_PORT_WATCH_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/unique_fd.h"
#include "server/coordinator/service/background_work.h"

namespace strata::server {

// Checks whether anybody still listens on ports whose process may have ended. If a host refuses a
// connection, the host is alive and the process is gone, which shows long before silence would.
//
// Threads: one; the callbacks come from others.
class PortWatch {
 public:
  PortWatch();
  ~PortWatch() { Stop(); }

  // The process of this number listens at these addresses ("tcp://HOST:PORT"). Checks whether they
  // can be reached from here, which in some networks they cannot.
  void Learn(uint64_t process, const std::vector<std::string>& addresses);
  // Calls `closed` once all of these refuse connections. Never calls it if they were not reachable
  // before, if one of them accepts connections, or if the result is unclear after about a second.
  void Look(uint64_t process, const std::vector<std::string>& addresses,
            std::function<void()> closed);
  // Waits for pending checks.
  void WaitForAll() { work_.WaitForAll(); }
  // Ends pending checks. Idempotent.
  void Stop();

 private:
  const UniqueFd stop_;  // an event descriptor, readable after Stop
  absl::Mutex mutex_;
  std::set<uint64_t> reached_ ABSL_GUARDED_BY(mutex_);  // processes
  BackgroundWork work_;                                 // uses the above
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_PORT_WATCH_H_
