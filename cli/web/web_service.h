#ifndef STRATA_CLI_WEB_WEB_SERVICE_H_
#define STRATA_CLI_WEB_WEB_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/render/cluster_watch.h"
#include "cli/render/log_watch.h"
#include "cli/web/http_server.h"
#include "cli/web/site.h"

namespace strata::cli {

// The page of a cluster, from its socket to its data. It listens from Open on and answers from
// Begin on, with threads of its own.
//
// Threads: one.
class WebService {
 public:
  struct Options {
    std::string listen = kListen;  // HOST:PORT; port 0: a free one
    // How the command line says that, up to HOST:PORT: errors tell another one so.
    std::string listen_option = "--listen ";
    // Returns its address, which decides who may reach the page.
    std::function<absl::StatusOr<ListenAddress>(const std::string& host)> resolve =
        ResolveListenAddress;
    // This host's name in the link if it listens on all addresses and `hosts` is empty.
    std::string own_name = "localhost";
    bool needs_login = true;
    std::vector<std::string> hosts;  // see Site
    std::string certificate_file, key_file;
    std::string metrics_token_file;
    // Viewers also see jobs' logs. Always so if only a link opens the page and only this host
    // reaches it, without other names.
    bool shows_logs = false;
    // A link was used, and this is the next one; on a thread of the service.
    std::function<void(const std::string& url)> on_new_link = [](const std::string&) {};
  };
  static constexpr char kListen[] = "127.0.0.1:8265";

  // Errors, one line each: InvalidArgument (an address that other hosts reach without TLS or
  // without a login, a file), Unavailable (the port is in use, the host has no address).
  static absl::StatusOr<std::unique_ptr<WebService>> Open(Options options);
  ~WebService();

  // Shows the cluster of this coordinator from now on.
  void Begin(const std::string& coordinator,
             std::function<std::unique_ptr<control::CoordinatorClient>()> connect,
             std::function<std::unique_ptr<LogSource>()> connect_logs);
  // Returns the link that opens the page once.
  std::string url() const { return UrlFor(site_->token()); }

 private:
  WebService(Options options, const ListenAddress& address, const std::string& metrics_token);
  std::string UrlFor(const std::string& token) const;

  const Options options_;
  const std::string link_host_;
  std::unique_ptr<Site> site_;
  std::unique_ptr<HttpServer> server_;
  std::unique_ptr<LogWatch> logs_;
  std::unique_ptr<ClusterWatch> watch_;
  std::thread thread_;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_WEB_WEB_SERVICE_H_
