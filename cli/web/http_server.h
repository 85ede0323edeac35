#ifndef STRATA_CLI_WEB_HTTP_SERVER_H_
#define STRATA_CLI_WEB_HTTP_SERVER_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/web/http_message.h"

namespace strata::cli {

// An address at which a server listens. It is resolved once: a name may later mean another address,
// to which earlier decisions would not apply.
struct ListenAddress {
  std::string text;          // "127.0.0.1", "::1"
  bool is_loopback = false;  // unreachable from other hosts
  bool is_any = false;       // "0.0.0.0", "::": all of this host's addresses, but not a destination
};

// Returns the first address of a host, given as a name or an address. Blocks while the name is
// looked up. Errors: Unavailable, with the host and the reason.
absl::StatusOr<ListenAddress> ResolveListenAddress(const std::string& host);

// HTTP/1.1 for a few readers, by Boost.Beast, on one thread. Its memory is bounded by the options,
// whatever is sent to it.
class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // an address
    int port = 0;                    // 0: a free one
    // Files in PEM form, both or none: with them it only speaks TLS 1.2 and later.
    std::string certificate_file;
    std::string key_file;
    // One more replaces the connection that has waited longest for a request; if all are being
    // answered, the new one is closed.
    size_t connections_max = 64;
    size_t streams_max = 32;  // of events, among the connections
    size_t header_bytes_max = 8 << 10;
    size_t body_bytes_max = 4 << 10;
    absl::Duration request_timeout = absl::Seconds(10);  // from its first byte; also for a
                                                         // handshake
    absl::Duration idle_timeout = absl::Seconds(60);     // between requests
    absl::Duration write_timeout = absl::Seconds(30);    // within which some bytes must be read by
                                                         // the peer
    double write_bytes_per_s_min = 16 << 10;             // for a whole text, in addition to that
                                                         // time
    absl::Duration event_pause = absl::Seconds(15);      // keep-alive interval for a reader without
                                                         // news
    // Additional headers of every answer.
    std::vector<std::pair<std::string, std::string>> headers = {};
  };

  // Binds and listens. Errors, one line each that names the address or the file: Unavailable (the
  // port is in use, no such address), InvalidArgument (an unusable certificate).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(Options options, HttpHandler handler);
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  virtual bool has_tls() const = 0;
  // Serves on this thread until Stop, which any thread may call.
  virtual void Run() = 0;
  virtual void Stop() = 0;
  // Signals news for streams of events; from any thread.
  virtual void Notify() = 0;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_HTTP_SERVER_H_
