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

// Accepts the coordinator's connections instead of gRPC, which accepts until the process runs out
// of descriptors and nothing afterwards. The acceptor closes excess connections at once and, on a
// Unix socket, those of other users.
//
// Threads: one; the callbacks are called on the acceptor's.
class Acceptor {
 public:
  struct Options {
    std::string listen;  // "HOST:PORT", "unix:/PATH"
    // With HOST:PORT: the path of an additional Unix socket, skipped if it is in use. Empty: none.
    std::string also = {};
    // Descriptors below this number are for accepted connections: the process always opens the
    // lowest free one.
    int descriptors_max = 0;
  };
  struct Callbacks {
    // `is_own`: it came through the Unix socket.
    std::function<void(UniqueFd, bool is_own)> take;
    std::function<void()> refused;
    std::function<void()> stranger;  // a connection was refused as another user's
  };

  // Errors: see ListenOn and UnixListener; ResourceExhausted (no descriptors).
  static absl::StatusOr<std::unique_ptr<Acceptor>> Create(const Options& options);
  ~Acceptor();  // stops

  // 0: it has none, or was stopped
  int port() const;
  void Start(Callbacks callbacks);
  // Ends the thread and stops listening. Idempotent.
  void Stop();

 private:
  Acceptor(int descriptors_max, EventFd stop)
      : descriptors_max_(descriptors_max), stop_(std::move(stop)) {}

  void Run();
  // Returns false if the process or the host is out of descriptors or memory now.
  bool AcceptFrom(int listener);

  const int descriptors_max_;
  std::vector<UniqueFd> listeners_;
  std::optional<UnixListener> own_;  // of this user
  const EventFd stop_;
  Callbacks callbacks_;
  std::thread thread_;
};

// Returns sockets that listen on "HOST:PORT", one for each of the host's addresses, all on one
// port; port 0 stands for any free one. They are non-blocking. Errors name the address:
// InvalidArgument (not HOST:PORT, unknown host, not this host's), AlreadyExists (port in use),
// PermissionDenied.
absl::StatusOr<std::vector<UniqueFd>> ListenOn(const std::string& address);

// Returns the port of a listening socket; 0 if it has none.
int BoundPort(const UniqueFd& listener);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_SERVICE_ACCEPTOR_H_
