#ifndef STRATA_SERVER_COORDINATOR_SERVICE_PORT_WATCH_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_PORT_WATCH_H_

#include <atomic>
#include <functional>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "common/unique_fd.h"

namespace strata::server {

// Looks whether anybody listens on ports whose process may have ended. A host that refuses a
// connection is there, and its process is not: that is known long before silence would show it.
//
// Threads: one; the callbacks come from others.
class PortWatch {
 public:
  PortWatch();
  ~PortWatch() { Stop(); }

  // Calls `closed` once all of these ("tcp://HOST:PORT") refuse connections. Not at all where one
  // of them takes some, or where that is not clear within about a second.
  void Look(const std::vector<std::string>& addresses, std::function<void()> closed);
  // Ends what is under way. Idempotent.
  void Stop();

 private:
  struct Watch {
    std::atomic<bool> done = false;
    std::thread thread;
  };

  const UniqueFd stop_;  // an event descriptor, readable from Stop on
  std::list<Watch> watches_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_PORT_WATCH_H_
