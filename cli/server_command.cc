#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command.h"
#include "cli/daemon.h"
#include "cli/options.h"
#include "common/buffer_pool.h"
#include "common/process/stop_request.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "kernels/kernels.h"
#include "server/daemon/server_daemon.h"

namespace strata::cli {
namespace {

int Run(server::ServerOptions options, const Invocation& invocation) {
  if (options.name.empty()) options.name = DefaultDaemonName();
  // Who binds to one address only is reached there.
  if (options.address.empty()) {
    options.address = options.listen == "0.0.0.0" || options.listen == "*" ? "" : options.listen;
  }
  if (options.address.empty()) {
    return PrintError("--listen on all interfaces needs --advertise HOST", kExitUsage);
  }
  absl::Status logging = StartLogging(invocation, absl::StrCat("server ", options.name));
  if (!logging.ok()) return PrintError(logging);
  TuneAllocator();
  StopRequest request;
  server::ServerParts parts;
  parts.kernels = &kernels::Cpu();
  parts.make_endpoint = [] { return transport::CreateZmqEndpoint(transport::ZmqOptions()); };
  auto daemon = server::ServerDaemon::Create(
      options, parts, [&request](const absl::Status& status) { request.Raise(status); });
  if (!daemon.ok()) return PrintError(daemon.status());
  DaemonSteps steps;
  steps.start = [&] { return (*daemon)->Start(); };
  steps.ready_line = [&] {
    return absl::StrCat("strata server ready name=", options.name, " address=", options.address,
                        " ports=", absl::StrJoin((*daemon)->ports(), ","));
  };
  steps.stop = [&] { (*daemon)->Stop(); };
  return RunDaemon(&request, steps);
}

}  // namespace

void AddServerCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<server::ServerOptions>();
  options->address.clear();
  CLI::App* command = app->add_subcommand(
      "server", "Run a network-level server: shards that own weights and optimizer state");
  AddCoordinatorAddress(command, &options->coordinator);
  AddSessionOptions(command, &options->connect_deadline, &options->reconnect_deadline);
  command->add_option("--listen", options->listen, "Host (interface) that the shards bind to")
      ->capture_default_str();
  command->add_option("--advertise", options->address,
                      "Host under which workers reach the shards (default: that of --listen)");
  command
      ->add_option(
          "--port", options->port,
          "Port of the first shard; the others take the following ones (default: free ones)")
      ->check(CLI::Range(1u, 65535u));
  command->add_option("--shards", options->shards, "Shards, a thread and a port each")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command->add_option("--name", options->name, "Unique in the cluster (default: HOSTNAME-PID)");
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata server --coordinator 10.0.0.1:7070 --listen 10.0.0.2 --port 7100 --shards 2\n"
      "  strata server --coordinator 10.0.0.1:7070 --listen 0.0.0.0 --advertise host2");
  command->callback([=] { invocation->run = [=] { return Run(*options, *invocation); }; });
}

}  // namespace strata::cli
