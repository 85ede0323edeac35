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

// An address at which a server listens. It is found once: a name may mean another one the next
// time, and what was decided of the first would not hold.
struct ListenAddress {
  std::string text;          // "127.0.0.1", "::1"
  bool is_loopback = false;  // no other host reaches it
  bool is_any = false;       // "0.0.0.0", "::": all that this host has, and none that one can go to
};

// The first address of a host, which is a name or an address already. Blocks while the name is
// looked up. Errors: Unavailable, with the host and why it has none.
absl::StatusOr<ListenAddress> ResolveListenAddress(const std::string& host);

// HTTP/1.1 for a few readers, by Boost.Beast, on one thread. Whatever is sent to it, its memory is
// bounded by the options.
class HttpServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";  // an address
    int port = 0;                    // 0: a free one
    // Files in PEM form, both or none: with them it speaks TLS 1.2 and later only.
    std::string certificate_file;
    std::string key_file;
    // One more puts out the one whose request has been waited for longest; where all are being
    // answered, it is closed.
    size_t connections_max = 64;
    size_t streams_max = 32;  // of events, among the connections
    size_t header_bytes_max = 8 << 10;
    size_t body_bytes_max = 4 << 10;
    absl::Duration request_timeout = absl::Seconds(10);  // from its first byte; of a handshake, too
    absl::Duration idle_timeout = absl::Seconds(60);     // between requests
    absl::Duration write_timeout = absl::Seconds(30);    // in which something must be taken
    double write_bytes_per_s_min = 16 << 10;             // of a whole text, besides that time
    absl::Duration event_pause = absl::Seconds(15);  // without news a reader hears that it is there
    // Headers of every answer, besides its own.
    std::vector<std::pair<std::string, std::string>> headers = {};
  };

  // Binds and listens. Errors, each in one line that names the address or the file: Unavailable
  // (the port is in use, no such address), InvalidArgument (a certificate that cannot be used).
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(Options options, HttpHandler handler);
  virtual ~HttpServer() = default;

  virtual int port() const = 0;
  virtual bool has_tls() const = 0;
  // Serves in this thread until Stop, which any thread may call.
  virtual void Run() = 0;
  virtual void Stop() = 0;
  // There is news for streams of events; from any thread.
  virtual void Notify() = 0;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_HTTP_SERVER_H_
