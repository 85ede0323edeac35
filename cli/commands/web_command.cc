#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/cluster/daemon.h"
#include "cli/commands/commands.h"
#include "cli/options/options.h"
#include "cli/web/web_clients.h"
#include "cli/web/web_service.h"
#include "common/os/stop_request.h"

namespace strata::cli {
namespace {

struct WebOptions {
  CoordinatorOptions coordinator;
  WebService::Options web;
};

// Reports invalid options first, then a missing cluster.
int RunWeb(WebOptions options, const Invocation& invocation) {
  if (absl::Status logging = StartLogging(invocation, "web"); !logging.ok()) {
    return PrintError(logging);
  }
  StopRequest request;
  WebService::Options web = options.web;
  web.own_name = HostName();
  web.on_new_link = PrintWebLink;
  auto service = WebService::Open(std::move(web));
  if (!service.ok()) return PrintError(service.status());
  return OnCluster(&options.coordinator, ClusterChoice::kAny, [&] {
    return RunDaemon(
        &request,
        {.start =
             [&] {
               (*service)->Begin(options.coordinator.address, WebClients(options.coordinator),
                                 WebLogs(options.coordinator));
               return absl::OkStatus();
             },
         .ready_line = [&] { return absl::StrCat("strata web ready url=", (*service)->url()); },
         .stop = [&] { service->reset(); }});
  });
}

}  // namespace

void AddWebCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<WebOptions>();
  CLI::App* command = app->add_subcommand(
      "web", "Show the cluster and its jobs in a browser, live: who is stuck first; and /metrics");
  WebService::Options& web = options->web;
  command->add_option("--listen", web.listen, "HOST:PORT of the page; port 0: any free one")
      ->capture_default_str();
  CLI::Option* const no_login = command->add_flag_callback(
      "--no-login", [options] { options->web.needs_login = false; },
      "Everybody on this host may look; goes with 127.0.0.1 alone");
  CLI::Option* const certificate =
      command->add_option("--tls-certificate", web.certificate_file,
                          "File with the page's certificate and those above it (PEM): beyond this "
                          "host there is no page without");
  command->add_option("--tls-key", web.key_file, "File with its key (PEM)")->needs(certificate);
  certificate->needs("--tls-key");
  command->add_option("--allow-host", web.hosts,
                      "Name by which browsers call this host, besides its addresses; several");
  command
      ->add_option("--metrics-token-file", web.metrics_token_file,
                   "File with the token that Prometheus shows for /metrics")
      ->excludes(no_login);
  command->add_flag("--logs", web.shows_logs,
                    "Whoever may look sees the logs of jobs, too, of which this user may; so it is "
                    "without it where a link opens the page and this host alone reaches it");
  AddCoordinatorOptions(command, &options->coordinator);
  AddLogLevelOption(command, invocation);
  AddLogFormatOption(command);
  command->footer(
      "The link that it prints opens the page once; a browser that has opened it may look for 12\n"
      "hours, and the next link is printed. It reads and changes nothing. Without a coordinator\n"
      "the page says whom it asks, and goes on.\n"
      "Examples:\n"
      "  strata web\n"
      "  strata web --listen 127.0.0.1:0 --no-login\n"
      "  strata web --listen 0.0.0.0:8265 --tls-certificate web.pem --tls-key web.key\n"
      "Exit status: 0 stopped by Ctrl-C or SIGTERM; 1 the port is in use; 2 bad options.");
  command->callback([=] { invocation->run = [=] { return RunWeb(*options, *invocation); }; });
}

}  // namespace strata::cli
