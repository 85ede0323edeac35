#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster/daemon.h"
#include "cli/commands/commands.h"
#include "cli/options/address_options.h"
#include "cli/options/gpu_options.h"
#include "cli/options/options.h"
#include "common/counted.h"
#include "common/log.h"
#include "common/os/environment.h"
#include "common/os/stop_request.h"
#include "worker/agent/agent.h"

namespace strata::cli {
namespace {

struct WorkerOptions {
  worker::AgentOptions agent;
  net::AddressWish address;
  KeyOptions keys;
  std::string ports;
  GpuOptions gpus;
  double link_gbit_per_s = 0;
  absl::Duration notice;
};

// "0,1"
std::string IndicesText(const std::vector<proto::Gpu>& gpus) {
  return absl::StrJoin(gpus, ",", [](std::string* out, const proto::Gpu& gpu) {
    absl::StrAppend(out, gpu.index());
  });
}

std::string ReadyLine(const worker::AgentOptions& options) {
  std::string line = absl::StrCat("strata worker ready name=", options.name,
                                  " address=", options.address, " slots=", options.slots);
  if (options.stands_in) absl::StrAppend(&line, " stands-in=yes");
  if (!options.gpus.empty()) {
    absl::StrAppend(&line, " gpus=", IndicesText(options.gpus),
                    " gpu-slots=", options.gpus.size() * options.ranks_per_gpu);
  }
  return absl::StrCat(line, " runs=", options.runs_dir);
}

// `options` has them then, and `text` says which or why none.
absl::Status TakeGpus(const GpuOptions& given, worker::AgentOptions* options, std::string* text) {
  absl::StatusOr<FoundGpus> found = FindGpus(given);
  if (!found.ok()) return found.status();
  options->gpus = std::move(found->gpus);
  options->ranks_per_gpu = std::max(1u, given.ranks_per_gpu);
  options->device_plugin = std::move(found->plugin);
  *text = options->gpus.empty()
              ? absl::StrCat("no GPUs: ", found->why_none)
              : absl::StrCat("GPUs ", IndicesText(options->gpus), ", for ",
                             Counted(options->ranks_per_gpu, "rank"), " each at once");
  return absl::OkStatus();
}

int RunWorkerCommand(const WorkerOptions& given, const Invocation& invocation) {
  MakeUndumpable(OwnEnvironment());
  worker::AgentOptions options = given.agent;
  StopRequest request;  // before anything starts threads
  PassedSignals passed;
  options.passed_signals = &passed;
  if (absl::Status found = FindCoordinatorOfDaemon(&options.coordinator); !found.ok()) {
    return PrintError(found);
  }
  if (!given.ports.empty()) {
    const absl::StatusOr<PortRange> ports = ParsePortRange(given.ports);
    if (!ports.ok()) return PrintError(ports.status());
    options.peer_port = ports->first;
    options.peer_port_last = ports->last;
  }
  std::string gpus_text;
  absl::Status gpus = TakeGpus(given.gpus, &options, &gpus_text);
  if (!gpus.ok()) return PrintError(gpus);
  // Last: a token is not used up where something else is wrong.
  const auto credentials = CredentialsOfDaemon(given.keys, keys::Role::kWorker, options.coordinator,
                                               options.connect_deadline, &options.name);
  if (!credentials.ok()) return PrintError(credentials.status());
  options.credentials = *credentials;
  if (options.name.empty()) options.name = DefaultDaemonName();
  absl::Status logging = StartLogging(invocation, absl::StrCat("worker ", options.name));
  if (!logging.ok()) return PrintError(logging);
  if (absl::Status valid = options.Validate(); !valid.ok()) return PrintError(valid);
  std::unique_ptr<worker::Agent> agent;
  DaemonSteps steps;
  steps.start = [&] {
    const auto address = ChooseDaemonAddress(given.address, options.coordinator,
                                             options.credentials, options.connect_deadline);
    if (!address.ok()) return address.status();
    options.address = address->advertise;
    options.listen = address->listen;
    options.link = LinkOfDaemon(*address, given.link_gbit_per_s);
    auto created = worker::Agent::Create(
        options, [&request](const absl::Status& status) { request.Raise(status); });
    if (!created.ok()) return created.status();
    agent = *std::move(created);
    const absl::Status started = agent->Start();
    if (started.ok()) LogInfo("%s; %s", address->text, gpus_text);
    return started;
  };
  steps.ready_line = [&] { return ReadyLine(options); };
  steps.notice = given.notice;
  steps.leave = [&] { agent->Leave(); };
  steps.has_left = [&] { return agent->is_idle(); };
  steps.stop = [&] {
    if (agent != nullptr) agent->Stop();
  };
  return RunDaemon(&request, steps);
}

}  // namespace

void AddWorkerCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<WorkerOptions>();
  worker::AgentOptions& agent = options->agent;
  agent.slots = std::max(1u, std::thread::hardware_concurrency());
  CLI::App* command = app->add_subcommand(
      "worker", "Run a worker node: per job one aggregator process and its ranks");
  AddCoordinatorAddress(command, &agent.coordinator);
  AddDaemonKeyOptions(command, &options->keys);
  AddSessionOptions(command, &agent.connect_deadline, &agent.reconnect_deadline);
  AddNoticeOption(command, &options->notice);
  command->add_option("--slots", agent.slots, "Ranks that may run here at once")
      ->check(CLI::Range(1u, 1024u))
      ->capture_default_str();
  // Commands that know their whole cluster pass this where few descriptors may be opened.
  command->add_option("--shards-max", agent.shards_max)
      ->check(CLI::Range(0u, kConnectionsPerNodeMax))
      ->group("");
  command->add_option("--open-logs-max", agent.open_logs_max)
      ->check(CLI::Range(1u, kOpenLogsMax))
      ->group("");
  command->add_flag("--stand-in", agent.stands_in,
                    "Take nothing but nodes that have died and that no other worker has room for, "
                    "for as long as it takes");
  AddGpuOptions(command, &options->gpus);
  AddMemoryLimitOption(command, &agent.limits.memory_bytes);
  command->add_option("--name", agent.name,
                      "Unique in the cluster (default: that of the keys, else "
                      "HOSTNAME-PID)");
  AddInterfaceOption(command, &options->address.interface,
                     "Interface whose address stands for this node (default: that of the route to "
                     "the coordinator)");
  command->add_option("--advertise", options->address.advertise,
                      "Host under which other nodes reach this one");
  AddLinkRateOption(command, &options->link_gbit_per_s);
  command->add_option("--peer-port", options->ports,
                      "Port for the aggregator of a job whose nodes all-reduce, or a range such as "
                      "7200-7219, one a job (default: any free ones)");
  command->add_option("--runs", agent.runs_dir, "Parent of the jobs' run directories")
      ->capture_default_str();
  command->add_flag("--share-runs", agent.shares_runs,
                    "Let other users read run directories, as the umask says (default: none)");
  AddLogLevelOption(command, invocation);
  AddLogFormatOption(command);
  command->footer(
      "Examples:\n"
      "  strata worker --coordinator 10.0.0.1:7070 --slots 4 --name w1\n"
      "  strata worker --coordinator 10.0.0.1:7070 --slots 4 --name spare --stand-in\n"
      "  strata worker --coordinator 10.0.0.1:7070 --gpus 0,1 --ranks-per-gpu 2");
  command->callback(
      [=] { invocation->run = [=] { return RunWorkerCommand(*options, *invocation); }; });
}

}  // namespace strata::cli
