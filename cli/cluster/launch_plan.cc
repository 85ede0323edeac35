#include "cli/cluster/launch_plan.h"

#include <arpa/inet.h>

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace strata::cli {
namespace {

constexpr int kPortMax = 65535;

// A name may stand for another address on the host itself, such as 127.0.1.1.
std::string ListenHost(const Host& host) {
  in_addr ignored;
  return inet_pton(AF_INET, host.address.c_str(), &ignored) == 1 ? host.address : "0.0.0.0";
}

absl::StatusOr<Host> FindCoordinator(const std::vector<Host>& hosts, const std::string& wanted) {
  const Host* found = nullptr;
  for (const Host& host : hosts) {
    if (wanted.empty() ? !host.coordinator : host.name != wanted && host.destination != wanted) {
      continue;
    }
    if (found != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("hosts ", found->name, " and ", host.name, " both have role=coordinator"));
    }
    found = &host;
  }
  if (found != nullptr) return *found;
  if (wanted.empty()) return hosts[0];
  return absl::InvalidArgumentError(
      absl::StrCat("--coordinator-host ", wanted, ": is not in the hosts file"));
}

// Every daemon of the host gets its link rate.
void AddLinkRate(const Host& host, std::vector<std::string>* args) {
  if (host.link_gbit_per_s == 0) return;
  args->insert(args->end(), {"--link-rate", absl::StrCat(host.link_gbit_per_s)});
}

absl::Status AddServers(const std::vector<Host>& hosts, const LaunchOptions& options,
                        LaunchPlan* plan) {
  std::vector<const Host*> places;
  for (const Host& host : hosts) {
    if (host.server) places.push_back(&host);
  }
  plan->servers = options.servers >= 0 ? options.servers
                  : places.empty()     ? 1
                                       : static_cast<int>(places.size());
  if (places.empty()) {
    for (const Host& host : hosts) places.push_back(&host);
  }
  std::map<std::string, int> next_port;
  for (int i = 0; i < plan->servers; ++i) {
    const Host& host = *places[i % places.size()];
    const std::string name = absl::StrCat("s", i);
    std::vector<std::string> args = {"server",     "--name",         name,
                                     "--listen",   ListenHost(host), "--advertise",
                                     host.address, "--shards",       absl::StrCat(options.shards)};
    if (options.server_port > 0) {
      int& port = next_port.emplace(host.name, options.server_port).first->second;
      if (port + options.shards - 1 > kPortMax) {
        return absl::InvalidArgumentError(absl::StrCat("--server-port ", options.server_port,
                                                       ": the servers on host ", host.name,
                                                       " need ports past ", kPortMax));
      }
      args.insert(args.end(), {"--port", absl::StrCat(port)});
      port += options.shards;
    }
    AddLinkRate(host, &args);
    plan->daemons.push_back(
        {DaemonRole::kServer, {absl::StrCat("server ", name, " on ", host.name), host.name, args}});
  }
  return absl::OkStatus();
}

PlannedDaemon PlanWorker(const Host& host, const std::string& name, const LaunchOptions& options) {
  std::vector<std::string> args = {"worker", "--name",        name, "--advertise", host.address,
                                   "--runs", options.runs_dir};
  const int slots = host.slots > 0 ? static_cast<int>(host.slots) : options.slots;
  if (slots > 0) args.insert(args.end(), {"--slots", absl::StrCat(slots)});
  GpuOptions gpus = options.gpus;
  if (!host.gpus.empty()) gpus.gpus = host.gpus;
  if (host.ranks_per_gpu > 0) gpus.ranks_per_gpu = host.ranks_per_gpu;
  for (const std::string& word : DescribeGpus(gpus)) args.push_back(word);
  AddLinkRate(host, &args);
  return {DaemonRole::kWorker, {absl::StrCat("worker ", name), host.name, args}};
}

void AddWorkers(const std::vector<Host>& hosts, const LaunchOptions& options, LaunchPlan* plan) {
  for (const Host& host : hosts) {
    if (!host.has_role || host.worker) {
      plan->daemons.push_back(PlanWorker(host, host.name, options));
      ++plan->workers;
    }
    if (!host.stand_in) continue;
    PlannedDaemon stand_in = PlanWorker(host, absl::StrCat(host.name, "-stand-in"), options);
    stand_in.spec.args.push_back("--stand-in");
    plan->daemons.push_back(std::move(stand_in));
  }
}

}  // namespace

absl::StatusOr<LaunchPlan> PlanLaunch(const std::vector<Host>& hosts,
                                      const LaunchOptions& options) {
  LaunchPlan plan;
  auto coordinator = FindCoordinator(hosts, options.coordinator_host);
  if (!coordinator.ok()) return coordinator.status();
  plan.coordinator = *coordinator;
  plan.daemons.push_back(
      {DaemonRole::kCoordinator,
       {absl::StrCat("coordinator on ", coordinator->name),
        coordinator->name,
        {"coordinator", "--listen", absl::StrCat(ListenHost(*coordinator), ":", options.port),
         "--state", absl::StrCat(options.runs_dir, "/state")}}});
  absl::Status status = AddServers(hosts, options, &plan);
  if (!status.ok()) return status;
  AddWorkers(hosts, options, &plan);
  if (plan.workers == 0) {
    return absl::InvalidArgumentError("no host in the hosts file has role=worker");
  }
  return plan;
}

}  // namespace strata::cli
