#ifndef STRATA_SERVER_COORDINATOR_SERVICE_ACCEPTOR_H_
#define STRATA_SERVER_COORDINATOR_SERVICE_ACCEPTOR_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/event_fd.h"
#include "common/os/unix_socket.h"
#include "common/unique_fd.h"

namespace strata::server {

// Takes the coordinator's connections in place of gRPC, which takes all that come until the process
// has no descriptors left, and from then on none. This one ends at once what is too much, and at a
// Unix socket those of other users.
//
// Threads: one; the callbacks are called on the acceptor's.
class Acceptor {
 public:
  struct Options {
    std::string listen;  // "HOST:PORT", "unix:/PATH"
    // Besides HOST:PORT, where it can be had: the path of a Unix socket. Empty: none.
    std::string also = {};
    // Descriptors below this are for connections that are taken: the process opens the lowest one
    // that is free.
    int descriptors_max = 0;
  };
  struct Callbacks {
    // `is_own`: it came by the Unix socket.
    std::function<void(UniqueFd, bool is_own)> take;
    std::function<void()> refused;
    std::function<void()> stranger;  // refused: it was another user's
  };

  // Errors: see ListenOn and UnixListener; ResourceExhausted (no descriptors).
  static absl::StatusOr<std::unique_ptr<Acceptor>> Create(const Options& options);
  ~Acceptor();  // stops

  // 0: it has none, or none any more.
  int port() const;
  void Start(Callbacks callbacks);
  // Ends the thread, and nobody listens any more. Idempotent.
  void Stop();

 private:
  Acceptor(int descriptors_max, EventFd stop)
      : descriptors_max_(descriptors_max), stop_(std::move(stop)) {}

  void Run();
  // Returns false when the process or the host is out of descriptors or memory now.
  bool AcceptFrom(int listener);

  const int descriptors_max_;
  std::vector<UniqueFd> listeners_;
  std::optional<UnixListener> own_;  // of this user
  const EventFd stop_;
  Callbacks callbacks_;
  std::thread thread_;
};

// Returns sockets that listen on "HOST:PORT", one for each of the host's addresses, all on one
// port; port 0 stands for any free one. They do not block. Errors name the address: InvalidArgument
// (not HOST:PORT, unknown host, not this host's), AlreadyExists (port in use), PermissionDenied.
absl::StatusOr<std::vector<UniqueFd>> ListenOn(const std::string& address);

// Returns the port of a listening socket; 0 when it has none.
int BoundPort(const UniqueFd& listener);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ACCEPTOR_H_
