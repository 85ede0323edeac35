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

// Looks whether anybody listens on ports whose process may have ended. A host that refuses a
// connection is there, and its process is not: that is known long before silence would show it.
//
// Threads: one; the callbacks come from others.
class PortWatch {
 public:
  PortWatch();
  ~PortWatch() { Stop(); }

  // The process of this number listens at these addresses ("tcp://HOST:PORT"): looks whether they
  // can be reached from here, which in some networks they cannot.
  void Learn(uint64_t process, const std::vector<std::string>& addresses);
  // Calls `closed` once all of these refuse connections. Not at all where they could not be reached
  // before, where one of them takes connections, or where that is not clear within about a second.
  void Look(uint64_t process, const std::vector<std::string>& addresses,
            std::function<void()> closed);
  // Waits for what is under way.
  void WaitForAll() { work_.WaitForAll(); }
  // Ends what is under way. Idempotent.
  void Stop();

 private:
  const UniqueFd stop_;  // an event descriptor, readable from Stop on
  absl::Mutex mutex_;
  std::set<uint64_t> reached_ ABSL_GUARDED_BY(mutex_);  // processes
  BackgroundWork work_;                                 // uses the above
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_PORT_WATCH_H_
