#include <CLI/CLI.hpp>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/cluster/daemon.h"
#include "cli/commands/commands.h"
#include "cli/options/address_options.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/options.h"
#include "cli/render/render.h"
#include "common/checkpoint/open_store.h"
#include "common/log.h"
#include "common/os/environment.h"
#include "common/os/stop_request.h"
#include "common/os/unix_socket.h"
#include "server/coordinator/access/key_store.h"
#include "server/coordinator/coordinator.h"

namespace strata::cli {
namespace {

struct CoordinatorCommandOptions {
  server::Coordinator::Options coordinator;
  CoordinatorListen listen;
  std::string keys_file;
  int keys_fd = -1;
};

// With the port that it has got.
std::string AddressOf(const std::string& listen, int port) {
  return UnixPath(listen) ? listen : absl::StrCat(listen.substr(0, listen.rfind(':')), ":", port);
}

void LogWhereReached(const std::string& address) {
  if (UnixPath(address)) {
    return LogInfo(
        "listens on %s, for processes of this user on this host; for other hosts: --interface NAME "
        "or --listen 0.0.0.0:7070",
        address);
  }
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  const std::string addresses = AddressesOfCoordinator(host, port);
  if (addresses.empty()) {
    LogInfo(
        "listens on %s, which other hosts cannot reach; for them: --interface NAME or --listen "
        "0.0.0.0:%s",
        address, port);
  } else {
    LogInfo("other hosts reach this coordinator at %s", addresses);
  }
}

// The path of the socket by which this user reaches a coordinator at a port on its host, as its
// operator does. One that stays is where commands look for it, unless another is there, as a
// cluster of `strata local`.
std::string AlsoAt(bool is_for_long) {
  const std::string usual = *UnixPath(DefaultCoordinator());
  return is_for_long && !DialUnix(usual).ok() ? usual : *UnixPath(OwnCoordinator());
}

void AddLimits(CLI::App* command, CoordinatorLimits* limits) {
  command
      ->add_option("--sessions", limits->sessions_max,
                   "Servers and workers that may be connected at once; further ones are refused")
      ->check(CLI::Range(1u, 60000u))
      ->capture_default_str();
  command
      ->add_option("--calls", limits->calls_max,
                   "Calls of the command line at once, those that follow a job included")
      ->check(CLI::Range(1u, 60000u))
      ->capture_default_str();
}

// One of several coordinators, of which one leads.
void AddEtcdOptions(CLI::App* command, server::Coordinator::Etcd* etcd) {
  CLI::Option* const endpoints = command->add_option(
      "--etcd", etcd->endpoints,
      "HOST:PORT,HOST:PORT of the etcd in which this and other coordinators keep their cluster's "
      "state: one of them leads, the others stand by");
  endpoints->check(CheckHostsAndPorts);
  const auto add = [&](const std::string& name, std::string* value, const std::string& text) {
    return command->add_option(name, *value, text)->needs(endpoints);
  };
  add("--etcd-ca", &etcd->ca_file,
      "File with the authority of etcd's certificates: it is spoken "
      "to over TLS");
  CLI::Option* const cert =
      add("--etcd-cert", &etcd->cert_file, "File with the certificate that etcd is shown");
  add("--etcd-key", &etcd->key_file, "File with its key")->needs(cert);
  add("--etcd-cluster", &etcd->cluster,
      "Name of the cluster in etcd (default: that of its keys, else strata)");
  add("--advertise", &etcd->advertise,
      "HOST:PORT by which daemons and commands know this coordinator (default: --listen)")
      ->check(CheckHostAndPort);
  command
      ->add_option_function<double>(
          "--failover", [=](double seconds) { etcd->failover = absl::Seconds(seconds); },
          "Seconds after the leader's death until another one may lead (default: 3)")
      ->check(Within(2, 60))
      ->needs(endpoints);
}

int RunCoordinatorCommand(const CoordinatorCommandOptions& given, const Invocation& invocation) {
  MakeUndumpable(OwnEnvironment());
  server::Coordinator::Options options = given.coordinator;
  const absl::StatusOr<std::string> listen = ChooseListenAddress(given.listen);
  if (!listen.ok()) return PrintError(listen.status());
  options.listen = *listen;
  if (given.keys_fd >= 0 || !given.keys_file.empty()) {
    const absl::StatusOr<keys::KeyFile> keys =
        given.keys_fd >= 0 ? ReadKeysFrom(given.keys_fd) : keys::ReadKeyFile(given.keys_file);
    if (!keys.ok()) return PrintError(keys.status());
    options.own_keys = *keys;
    options.own_keys_from =
        given.keys_fd >= 0 ? "--keys-fd" : absl::StrCat("--keys ", given.keys_file);
    options.is_one_users = given.keys_fd >= 0;
  }
  // One that stays for no longer than somebody holds its address needs none, unless it has an
  // operator.
  const bool is_for_long = !absl::EndsWith(*listen, ":0");
  const bool has_operator =
      server::HasAuthority(options.state_dir) && !options.own_keys.has_value();
  if (!UnixPath(*listen) && (is_for_long || has_operator) && MakeCoordinatorFolder().ok()) {
    options.also_listen = AlsoAt(is_for_long);
  }
  options.add_memory_parts = AddMemoryParts;
  std::stop_source stop;  // of what waits for stores
  options.open_store = [environment = OwnEnvironment(),
                        token = stop.get_token()](const std::string& dir) {
    // Servers make a job's folder; one that is only read is not made.
    return OpenStoreThatIsThere(dir, {.environment = environment, .stop = token});
  };
  absl::Status logging = StartLogging(invocation, "coordinator");
  if (!logging.ok()) return PrintError(logging);
  StopRequest request;
  options.on_lost = [&](const absl::Status& why) { request.Raise(why); };
  auto coordinator = server::Coordinator::Create(options);
  if (!coordinator.ok()) return PrintError(coordinator.status());
  DaemonSteps steps;
  steps.start = [&] { return (*coordinator)->Start(); };
  steps.ready_line = [&] {
    const std::string address = AddressOf(options.listen, (*coordinator)->port());
    LogWhereReached(address);
    if (!options.also_listen.empty()) {
      LogInfo("on this host this user reaches it at %s", UnixAddress(options.also_listen));
    }
    const std::string socket =
        options.also_listen.empty() ? "" : " socket=" + UnixAddress(options.also_listen);
    return absl::StrCat("strata coordinator ready address=", address, " state=", options.state_dir,
                        socket);
  };
  steps.stop = [&] {
    stop.request_stop();
    (*coordinator)->Stop();
  };
  return RunDaemon(&request, steps);
}

}  // namespace

void AddCoordinatorCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<CoordinatorCommandOptions>();
  CLI::App* command = app->add_subcommand(
      "coordinator", "Run the coordinator: membership, placement and jobs of a cluster");
  CLI::Option* listen =
      command->add_option("--listen", options->listen.address,
                          "HOST:PORT to listen on, 0.0.0.0: all interfaces, port 0: a free one; or "
                          "unix:/PATH (default: $STRATA_LISTEN, else this user's socket)");
  AddInterfaceOption(command, &options->listen.interface,
                     "Interface to listen on, instead of --listen");
  command->add_option("--port", options->listen.port, "Port, with --interface (default: 7070)")
      ->check(CLI::Range(1u, 65535u));
  command
      ->add_option("--state", options->coordinator.state_dir,
                   "Folder of the durable state; a restart goes on from it")
      ->capture_default_str();
  CLI::Option* const keys = command->add_option(
      "--keys", options->keys_file,
      "File with the coordinator's keys, of an authority of your own (default: those that `strata "
      "keys init` has made in the state's folder)");
  CLI::Option* const keys_fd = command->add_option("--keys-fd", options->keys_fd)->group("");
  keys_fd->excludes(keys);
  command->add_option("--policy", options->coordinator.policy_file,
                      "File that says what users may do, read anew when it has changed (default: "
                      "policy.textproto in the state's folder, where it is there)");
  command
      ->add_flag("--insecure", options->coordinator.insecure,
                 "Listen at a HOST:PORT without keys: whoever reaches it may run programs as you")
      ->excludes(keys)
      ->excludes(keys_fd);
  command
      ->add_option_function<double>(
          "--dead-after",
          [=](double seconds) { options->coordinator.dead_after = absl::Seconds(seconds); },
          "Seconds of silence after which a daemon is lost and its jobs fail (default: 5)")
      ->check(Within(0.1, 86400.0));
  AddLimits(command, &options->coordinator.limits);
  AddEtcdOptions(command, &options->coordinator.etcd);
  AddLogLevelOption(command, invocation);
  AddLogFormatOption(command);
  command->footer(
      "Examples:\n"
      "  strata coordinator\n"
      "  strata keys init --state /var/lib/strata\n"
      "  strata coordinator --interface eth1 --state /var/lib/strata\n"
      "  strata coordinator --listen 0.0.0.0:7070 --state /var/lib/strata\n"
      "  strata coordinator --listen 10.0.0.1:7070 --etcd 10.0.0.1:2379,10.0.0.2:2379,"
      "10.0.0.3:2379");
  command->callback([=] {
    options->listen.address_given = listen->count() > 0;
    invocation->run = [=] { return RunCoordinatorCommand(*options, *invocation); };
  });
}

}  // namespace strata::cli
