#include "cli/cluster/local_cluster.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster/child_starter.h"
#include "cli/cluster/cluster_keys.h"
#include "cli/cluster/cluster_life.h"
#include "cli/options/coordinator_address.h"
#include "common/ipc/unix_socket.h"
#include "common/process/event_loop.h"

namespace strata::cli {
namespace {

// Servers are s0, s1, ..., workers w0, w1, ...
std::vector<PlannedDaemon> Plan(const LocalClusterOptions& options,
                                const std::vector<NodeGpus>& gpus) {
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
  return plan;
}

// With all options filled in.
int RunCluster(const LocalClusterOptions& options, ClusterRun::Options run,
               const std::string& log_level) {
  const auto gpus = GpusOfNodes(options);
  if (!gpus.ok()) return PrintError(gpus.status());
  ChildStarter::Options children;
  children.log_dir = options.runs_dir + "/daemons";
  children.log_level = log_level;
  for (const std::string& dir : {options.state_dir, options.runs_dir, children.log_dir}) {
    absl::Status status = MakeWritableDirectory(dir);
    if (!status.ok()) return PrintError(std::string(status.message()), kExitFailed);
  }
  EventLoop loop;
  ChildStarter starter(&loop, children);
  run.cluster.plan = Plan(options, *gpus);
  if (!UnixPath(options.listen)) {
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

void FillSlots(uint32_t ranks, LocalClusterOptions* options) {
  if (options->slots > 0) return;
  const auto nodes = static_cast<uint32_t>(options->nodes);
  options->slots = static_cast<int>(std::max(1U, (ranks + nodes - 1) / nodes));
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
