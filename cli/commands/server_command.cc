#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster/daemon.h"
#include "cli/commands/commands.h"
#include "cli/options/address_options.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/options.h"
#include "common/buffer_pool.h"
#include "common/checkpoint/open_store.h"
#include "common/log.h"
#include "common/os/descriptors.h"
#include "common/os/environment.h"
#include "common/os/limits.h"
#include "common/os/stop_request.h"
#include "common/transport/sealed_endpoint.h"
#include "common/transport/zmq/zmq_endpoint.h"
#include "kernels/kernels.h"
#include "server/daemon/server_daemon.h"

namespace strata::cli {
namespace {

struct ServerCommandOptions {
  server::ServerOptions server;
  net::AddressWish address;
  KeyOptions keys;
  std::string ports;
  double link_gbit_per_s = 0;
  absl::Duration notice;
};

// Makes endpoints for shards, which take what payloads of this host they can by reference.
std::function<absl::StatusOr<std::unique_ptr<transport::Endpoint>>()> EndpointMaker(
    uint32_t connections_max) {
  transport::ZmqOptions zmq;
  zmq.stranger_bytes_max = kStrangerBytesMax;
  zmq.connections_max = connections_max;
  zmq.strangers_max = kConnectionSlack;
  zmq.stranger_timeout = kStrangerTimeout;
  // Each job's weights have their own memory, which other jobs never see.
  zmq.new_memory = []() -> std::shared_ptr<transport::RegionMemory> {
    auto memory = transport::RegionMemory::Create();
    if (memory.ok()) return *std::move(memory);
    LogWarning("payloads for peers of this host go over TCP: %s",
               std::string(memory.status().message()));
    return nullptr;
  };
  return [zmq]() -> absl::StatusOr<std::unique_ptr<transport::Endpoint>> {
    auto endpoint = transport::CreateZmqEndpoint(zmq);
    if (!endpoint.ok()) return endpoint;
    using transport::SealedEndpoint;
    return std::make_unique<SealedEndpoint>(*std::move(endpoint),
                                            SealedEndpoint::Unsealed::kOfOtherJobs);
  };
}

int RunServerCommand(const ServerCommandOptions& given, const Invocation& invocation) {
  MakeUndumpable(OwnEnvironment());
  server::ServerOptions options = given.server;
  StopRequest request;  // before anything starts threads
  if (!given.ports.empty()) {
    const absl::StatusOr<PortRange> ports = ParsePortRange(given.ports);
    if (!ports.ok()) return PrintError(ports.status());
    options.port = ports->first;
    options.port_last = ports->last;
  }
  const absl::Status found = FindCoordinatorOfDaemon(&options.coordinator);
  if (!found.ok()) return PrintError(found);
  // Last: a token is not used up where something else is wrong.
  const auto credentials = CredentialsOfDaemon(given.keys, keys::Role::kServer, options.coordinator,
                                               options.connect_deadline, &options.name);
  if (!credentials.ok()) return PrintError(credentials.status());
  options.credentials = *credentials;
  if (options.name.empty()) options.name = DefaultDaemonName();
  if (absl::Status valid = options.Validate(); !valid.ok()) return PrintError(valid);
  absl::Status logging = StartLogging(invocation, absl::StrCat("server ", options.name));
  if (!logging.ok()) return PrintError(logging);
  TuneAllocator();
  server::ServerParts parts;
  parts.kernels = &kernels::Cpu();
  parts.make_endpoint = EndpointMaker(options.limits.connections_max);
  std::stop_source stop;  // of what waits for stores
  parts.open_store = [environment = OwnEnvironment(),
                      token = stop.get_token()](const std::string& dir) {
    return OpenStore(dir, {.environment = environment, .stop = token});
  };
  std::unique_ptr<server::ServerDaemon> daemon;
  DaemonSteps steps;
  steps.start = [&] {
    const auto address = ChooseDaemonAddress(given.address, options.coordinator,
                                             options.credentials, options.connect_deadline);
    if (!address.ok()) return address.status();
    options.listen = address->listen;
    options.address = address->advertise;
    options.link = LinkOfDaemon(*address, given.link_gbit_per_s);
    auto created = server::ServerDaemon::Create(
        options, parts, [&request](const absl::Status& status) { request.Raise(status); });
    if (!created.ok()) return created.status();
    daemon = *std::move(created);
    const absl::Status started = daemon->Start();
    if (started.ok()) LogInfo("%s", address->text);
    return started;
  };
  steps.ready_line = [&] {
    return absl::StrCat("strata server ready name=", options.name, " address=", options.address,
                        " ports=", absl::StrJoin(daemon->ports(), ","));
  };
  steps.notice = given.notice;
  steps.leave = [&] { daemon->Leave(); };
  steps.has_left = [&] { return daemon->is_idle(); };
  steps.stop = [&] {
    stop.request_stop();
    if (daemon != nullptr) daemon->Stop();
  };
  return RunDaemon(&request, steps);
}

}  // namespace

void AddServerCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<ServerCommandOptions>();
  server::ServerOptions& server = options->server;
  CLI::App* command = app->add_subcommand(
      "server", "Run a network-level server: shards that own weights and optimizer state");
  AddCoordinatorAddress(command, &server.coordinator);
  AddDaemonKeyOptions(command, &options->keys);
  AddSessionOptions(command, &server.connect_deadline, &server.reconnect_deadline);
  AddNoticeOption(command, &options->notice);
  AddInterfaceOption(command, &options->address.interface,
                     "Interface that the shards bind to (default: that of the route to the "
                     "coordinator)");
  command->add_option("--listen", options->address.listen,
                      "Address that the shards bind to, instead of --interface; 0.0.0.0: all");
  command->add_option("--advertise", options->address.advertise,
                      "Host under which workers reach the shards (default: where they bind to)");
  AddLinkRateOption(command, &options->link_gbit_per_s);
  command->add_option("--port", options->ports,
                      "Port of the first shard, the others take the following ones; or a range "
                      "(7100-7119) of which each takes a free one (default: any free ones)");
  command->add_option("--shards", server.shards, "Shards, a thread and a port each")
      ->check(CLI::Range(1u, 64u))
      ->capture_default_str();
  command
      ->add_option("--connections", server.limits.connections_max,
                   "Connections per shard, for those of each job's nodes; further ones are refused")
      ->check(CLI::Range(1u, 60000u))
      ->capture_default_str();
  AddMemoryLimitOption(command, &server.limits.memory_bytes);
  command->add_option("--name", server.name,
                      "Unique in the cluster (default: that of the keys, else "
                      "HOSTNAME-PID)");
  AddLogLevelOption(command, invocation);
  AddLogFormatOption(command);
  command->footer(
      "Examples:\n"
      "  strata server --coordinator 10.0.0.1:7070 --port 7100 --shards 2\n"
      "  strata server --coordinator 10.0.0.1:7070 --interface 10.8.0.0/16 --port 7100-7119\n"
      "  strata server --coordinator 10.0.0.1:7070 --listen 0.0.0.0 --advertise host2");
  command->callback(
      [=] { invocation->run = [=] { return RunServerCommand(*options, *invocation); }; });
}

}  // namespace strata::cli
