#include "cli/cluster/local_cluster.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "cli/cluster/child_starter.h"
#include "cli/cluster/cluster_keys.h"
#include "cli/cluster/cluster_life.h"
#include "cli/options/coordinator_address.h"
#include "cli/options/options.h"
#include "common/os/atomic_file.h"
#include "common/os/descriptors.h"
#include "common/os/environment.h"
#include "common/os/event_loop.h"
#include "common/os/limits.h"
#include "common/os/unix_socket.h"
#include "common/unique_fd.h"

namespace strata::cli {
namespace {

// Limits of what daemons serve at once; by default each chooses its own.
struct Service {
  CoordinatorLimits coordinator;
  ServerLimits server;
  uint32_t shards_max = kConnectionsPerNodeMax;
  uint32_t open_logs_max = kOpenLogsMax;
};

// As much as such a cluster can use, and not more.
Service SmallService(const LocalClusterOptions& options) {
  const auto nodes = static_cast<uint32_t>(options.nodes);
  const auto slots = static_cast<uint32_t>(options.slots);
  const auto servers = static_cast<uint32_t>(options.servers);
  constexpr uint32_t kBegunAgain = 8;  // sessions of daemons that have just died
  constexpr uint32_t kCalls = 48;      // those who follow a job or look at the cluster
  Service service;
  service.coordinator = {.sessions_max = nodes + servers + kBegunAgain, .calls_max = kCalls};
  // One job with as many connections as it may have, or one job on each slot.
  service.server.connections_max = nodes * std::max(slots, kConnectionsPerPeerMax);
  service.shards_max =
      std::min(servers * static_cast<uint32_t>(options.shards), kConnectionsPerNodeMax);
  service.open_logs_max = 32;
  return service;
}

// Returns the most that one of the cluster's daemons needs, and which.
std::pair<std::string, DescriptorNeed> MostDescriptors(const LocalClusterOptions& options,
                                                       const Service& service) {
  std::vector<std::pair<std::string, DescriptorNeed>> needs = {
      {"coordinator", CoordinatorDescriptors(service.coordinator)},
      {"workers", WorkerDescriptors(options.slots, service.shards_max, service.open_logs_max)}};
  if (options.servers > 0) {
    needs.emplace_back("servers", ServerDescriptors(options.shards, service.server));
  }
  return *std::max_element(needs.begin(), needs.end(), [](const auto& a, const auto& b) {
    return a.second.total < b.second.total;
  });
}

// Returns the limits for daemons that may open few descriptors; nullopt: none are needed. Errors:
// ResourceExhausted: too few for any such cluster.
absl::StatusOr<std::optional<Service>> FitToDescriptors(const LocalClusterOptions& options) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
    return absl::ErrnoToStatus(errno, "cannot read the limit of file descriptors");
  }
  const uint64_t allowed = limit.rlim_max;
  if (MostDescriptors(options, Service()).second.total <= allowed) return std::nullopt;
  const Service small = SmallService(options);
  const auto [who, need] = MostDescriptors(options, small);
  if (need.total <= allowed) return small;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "the cluster's %s need%s up to %d file descriptors (%s), and may open %d: raise the limit "
      "with `ulimit -n %d`, or take fewer --nodes, --slots or --shards",
      who, who == "coordinator" ? "s" : "", need.total, need.formula, allowed, need.total));
}

// Checks that processes of this machine reach each other over TCP, as nodes and servers do. Errors:
// FailedPrecondition.
absl::Status CheckLoopback() {
  const UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd caller(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), raw, length) == 0 && listen(listener.get(), 1) == 0 &&
      getsockname(listener.get(), raw, &length) == 0 && connect(caller.get(), raw, length) == 0) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "127.0.0.1 cannot be reached here (", std::strerror(errno),
      "), by which the nodes and servers of a cluster on one machine speak with each other: `ip "
      "link set lo up`, or take --nodes 1 --servers 0"));
}

void Tell(const Service& service, std::vector<PlannedDaemon>* plan) {
  for (PlannedDaemon& daemon : *plan) {
    const auto say = [&daemon](const char* option, uint32_t value) {
      daemon.spec.args.insert(daemon.spec.args.end(), {option, absl::StrCat(value)});
    };
    switch (daemon.role) {
      case DaemonRole::kCoordinator:
        say("--sessions", service.coordinator.sessions_max);
        say("--calls", service.coordinator.calls_max);
        break;
      case DaemonRole::kServer:
        say("--connections", service.server.connections_max);
        break;
      case DaemonRole::kWorker:
        say("--shards-max", service.shards_max);
        say("--open-logs-max", service.open_logs_max);
        break;
    }
  }
}

// Servers are s0, s1, ..., workers w0, w1, ...
std::vector<PlannedDaemon> Plan(const LocalClusterOptions& options,
                                const std::vector<NodeGpus>& gpus,
                                const std::optional<Service>& service) {
  std::vector<PlannedDaemon> plan;
  auto add = [&plan](DaemonRole role, const std::string& title, std::vector<std::string> args) {
    plan.push_back({role, {title, /*host=*/"", std::move(args)}});
  };
  add(DaemonRole::kCoordinator, "coordinator",
      {"coordinator", "--listen", options.listen, "--state", options.state_dir});
  for (int i = 0; i < options.servers; ++i) {
    const std::string name = absl::StrCat("s", i);
    add(DaemonRole::kServer, absl::StrCat("server ", name),
        {"server", "--name", name, "--shards", absl::StrCat(options.shards)});
  }
  for (int i = 0; i < options.nodes; ++i) {
    const std::string name = absl::StrCat("w", i);
    std::vector<std::string> args = {
        "worker", "--name",        name, "--slots", absl::StrCat(options.slots),
        "--runs", options.runs_dir};
    for (std::string& word : DescribeGpus(gpus[i].options)) args.push_back(std::move(word));
    add(DaemonRole::kWorker, absl::StrCat("worker ", name), std::move(args));
  }
  if (service.has_value()) Tell(*service, &plan);
  return plan;
}

// With all options filled in.
int RunCluster(const LocalClusterOptions& options, ClusterRun::Options run,
               const std::string& log_level) {
  const auto gpus = GpusOfNodes(options);
  if (!gpus.ok()) return PrintError(gpus.status());
  const auto service = FitToDescriptors(options);
  if (!service.ok()) return PrintError(std::string(service.status().message()), kExitFailed);
  if (options.nodes > 1 || options.servers > 0) {
    const absl::Status loopback = CheckLoopback();
    if (!loopback.ok()) return PrintError(std::string(loopback.message()), kExitFailed);
  }
  ChildStarter::Options children;
  children.log_dir = options.runs_dir + "/daemons";
  children.log_level = log_level;
  for (const std::string& dir : {options.state_dir, options.runs_dir, children.log_dir}) {
    absl::Status status = MakeWritableDirectory(dir);
    if (!status.ok()) return PrintError(std::string(status.message()), kExitFailed);
  }
  EventLoop loop;
  ChildStarter starter(&loop, children);
  run.cluster.plan = Plan(options, *gpus, *service);
  run.cluster.supervision.emplace();
  if (!UnixPath(options.listen)) {
    MakeUndumpable(OwnEnvironment());  // it makes all daemons' keys
    auto keys = GiveKeys(&run.cluster.plan);
    if (!keys.ok()) return PrintError(keys.status());
    run.keys = *std::move(keys);
  }
  return ClusterRun(&loop, &starter, std::move(run)).Run();
}

}  // namespace

absl::StatusOr<std::vector<NodeGpus>> GpusOfNodes(const LocalClusterOptions& options) {
  const auto found = FindGpus(options.gpus);
  if (!found.ok()) return found.status();
  std::vector<NodeGpus> nodes(options.nodes, {options.gpus});
  if (found->gpus.empty()) return nodes;
  const auto shares = ShareGpus(found->gpus, nodes.size());
  for (size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].options.gpus = absl::StrJoin(shares[i], ",");
    nodes[i].slots =
        static_cast<uint32_t>(shares[i].size()) * std::max(1u, options.gpus.ranks_per_gpu);
  }
  return nodes;
}

std::vector<CLI::Option*> AddLocalClusterOptions(CLI::App* command, LocalClusterOptions* options) {
  AddGpuOptions(command, &options->gpus);
  return {
      command->add_option("--servers", options->servers, "Servers")
          ->check(CLI::Range(0, 64))
          ->capture_default_str(),
      command
          ->add_option("--shards", options->shards,
                       "Shards per server (default: one for each 4 cores, at most 8)")
          ->check(CLI::Range(1, 64)),
      command->add_option("--nodes", options->nodes, "Worker nodes")
          ->check(CLI::Range(1, 64))
          ->capture_default_str(),
      command
          ->add_option(
              "--slots", options->slots,
              "Ranks per node at once (default: what the job needs, else the cores, 4 in all or "
              "more)")
          ->check(CLI::Range(1, 1024)),
  };
}

int DefaultShards(uint32_t cores) { return static_cast<int>(std::clamp(cores / 4, 1U, 8U)); }

absl::Status CheckOwnCluster(const proto::Job& job, const LocalClusterOptions& options) {
  if (absl::Status servers = CheckServers(job, options.servers); !servers.ok()) return servers;
  // Ranks of a program may share the one node.
  if (job.exchange() != proto::Job::RING || job.has_program() || options.nodes > 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "--nodes 1: exchange: RING needs two nodes (--nodes 2 or more)");
}

std::string EmptyNodesText(uint32_t ranks, uint32_t per_node, uint32_t nodes) {
  if (ranks == 0 || per_node == 0) return "";
  const uint32_t taken = (ranks - 1) / per_node + 1;
  if (taken >= nodes) return "";
  const uint32_t empty = nodes - taken;
  return absl::StrCat(
      "ranks: ", ranks, ", ", per_node, " on a node, take ", taken, " of the ", nodes, " nodes; ",
      empty == 1 ? "the other stays" : absl::StrCat("the other ", empty, " stay"), " empty");
}

void PrintEmptyNodes(const proto::Job& job, const LocalClusterOptions& options) {
  const uint32_t per_node =
      job.ranks_per_node() > 0 ? job.ranks_per_node() : static_cast<uint32_t>(options.slots);
  const std::string text = EmptyNodesText(std::max(job.ranks(), job.ranks_max()), per_node,
                                          static_cast<uint32_t>(options.nodes));
  if (text.empty()) return;
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void FillSlots(uint32_t ranks, LocalClusterOptions* options) {
  if (options->slots > 0) return;
  const auto nodes = static_cast<uint32_t>(options->nodes);
  options->slots = static_cast<int>(std::max(1U, (ranks + nodes - 1) / nodes));
}

absl::Status ChooseRunsDirectory(LocalClusterOptions* options) {
  if (options->runs_dir.empty()) {
    absl::StatusOr<std::string> made = MakeRunsDirectory(absl::Now());
    if (!made.ok()) return made.status();
    options->runs_dir = *std::move(made);
  }
  std::error_code error;
  const auto absolute = std::filesystem::absolute(options->runs_dir, error);
  if (error) return FileError(error.value(), options->runs_dir);
  options->runs_dir = absolute.lexically_normal();
  return absl::OkStatus();
}

int RunLocalCluster(LocalClusterOptions options, ClusterRun::Options run,
                    const std::string& log_level) {
  options.runs_dir = std::filesystem::absolute(options.runs_dir).lexically_normal();
  if (options.listen.empty()) options.listen = OwnCoordinator();
  if (UnixPath(options.listen)) {
    if (absl::Status made = MakeCoordinatorFolder(); !made.ok()) return PrintError(made);
  }
  bool temporary = options.state_dir.empty();
  if (temporary) {
    char path[] = "/tmp/strata-local-XXXXXX";
    if (mkdtemp(path) == nullptr) return PrintError("cannot make a directory in /tmp", kExitFailed);
    options.state_dir = path;
  }
  int exit_status = RunCluster(options, std::move(run), log_level);
  std::error_code ignored;
  if (temporary) std::filesystem::remove_all(options.state_dir, ignored);
  return exit_status;
}

}  // namespace strata::cli
