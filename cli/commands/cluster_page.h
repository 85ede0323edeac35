#ifndef STRATA_CLI_COMMANDS_CLUSTER_PAGE_H_
#define STRATA_CLI_COMMANDS_CLUSTER_PAGE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "cli/cluster/cluster_run.h"
#include "cli/options/options.h"
#include "cli/web/web_clients.h"
#include "cli/web/web_service.h"
#include "common/control/credentials.h"

namespace strata::cli {

// Opens a page at `listen` that shows the cluster of `run` once that is ready; null if `listen` is
// empty. Errors: those of WebService::Open.
inline absl::StatusOr<std::shared_ptr<WebService>> ShowInBrowser(const std::string& listen,
                                                                 ClusterRun::Options* run) {
  if (listen.empty()) return nullptr;
  auto opened = WebService::Open({.listen = listen, .on_new_link = PrintWebLink});
  if (!opened.ok()) return opened.status();
  std::shared_ptr<WebService> web = *std::move(opened);
  run->on_ready = [web](const std::string& coordinator, const std::optional<keys::KeyFile>& keys) {
    CoordinatorOptions client{.address = coordinator};
    if (keys.has_value()) client.credentials = control::Credentials::Of(*keys);
    web->Begin(coordinator, WebClients(client), WebLogs(client));
  };
  return web;
}

}  // namespace strata::cli

#endif  // STRATA_CLI_COMMANDS_CLUSTER_PAGE_H_
