#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ACCEPTOR_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ACCEPTOR_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/event_fd.h"
#include "common/unique_fd.h"

namespace strata::server {

// Takes the coordinator's TCP connections in place of gRPC, which takes all that come until the
// process has no descriptors left, and from then on none. This one ends at once what is too much.
//
// Threads: one; `take` and `refused` are called on the acceptor's.
class Acceptor {
 public:
  struct Options {
    std::string listen;  // "HOST:PORT"
    // Descriptors below this are for connections that are taken: the process opens the lowest one
    // that is free.
    int descriptors_max = 0;
  };
  struct Callbacks {
    std::function<void(UniqueFd)> take;
    std::function<void()> refused;
  };

  // Errors: see ListenOn; ResourceExhausted (no descriptors).
  static absl::StatusOr<std::unique_ptr<Acceptor>> Create(const Options& options);
  ~Acceptor();  // stops

  int port() const;
  void Start(Callbacks callbacks);
  // Ends the thread. Idempotent.
  void Stop();

 private:
  Acceptor(int descriptors_max, std::vector<UniqueFd> listeners, EventFd stop);

  void Run();
  // Returns false when the process or the host is out of descriptors or memory now.
  bool AcceptFrom(const UniqueFd& listener);

  const int descriptors_max_;
  const std::vector<UniqueFd> listeners_;
  const EventFd stop_;
  Callbacks callbacks_;
  std::thread thread_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ACCEPTOR_H_
