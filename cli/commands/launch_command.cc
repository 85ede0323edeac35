#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "cli/cluster/cluster_run.h"
#include "cli/cluster/host_set.h"
#include "cli/cluster/hosts_file.h"
#include "cli/cluster/launch_plan.h"
#include "cli/commands/commands.h"
#include "cli/options/gpu_options.h"
#include "cli/options/options.h"
#include "cli/options/own_binary.h"
#include "cli/options/terminal.h"
#include "common/os/atomic_file.h"
#include "common/os/environment.h"
#include "common/os/event_loop.h"

namespace strata::cli {
namespace {

constexpr char kSsh[] =
    "ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o ServerAliveCountMax=3";
constexpr int kCoordinatorPort = 7070;
// In the ready line of a worker whose slots do not count for the cluster.
constexpr char kStandsIn[] = " stands-in=yes";

struct LaunchCommandOptions {
  std::string hosts_path;
  JobOptions job;
  std::string resume;
  LaunchOptions launch;
  std::string ssh = kSsh;
  std::string binary;
  bool port_given = false;
  double timeout_s = 60;
};

constexpr size_t kHostsBytesMax = 16 << 20;

absl::StatusOr<std::vector<Host>> LoadHosts(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFileOrPipe(path, kHostsBytesMax);
  if (!text.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("hosts file ", text.status().message()));
  }
  return ParseHosts(*text, path);
}

// Reads the worker's ready line: a host with no number in the file counts its cores.
int SlotsIn(const std::string& ready_line, const std::string& key) {
  const size_t begin = ready_line.find(key);
  if (begin == std::string::npos) return 0;
  const std::string rest = ready_line.substr(begin + key.size());
  int slots = 0;
  return absl::SimpleAtoi(rest.substr(0, rest.find(' ')), &slots) ? slots : 0;
}

// One cluster over ssh.
class Launch {
 public:
  Launch(const LaunchCommandOptions& options, std::vector<Host> hosts, LaunchPlan plan,
         const std::string& log_level)
      : options_(options),
        host_count_(hosts.size()),
        plan_(std::move(plan)),
        hosts_(&loop_, HostOptions(std::move(hosts), log_level)) {}

  int Run(std::optional<proto::Job> job) {
    ClusterRun::Options run;
    run.cluster.plan = plan_.daemons;
    auto keys = GiveKeys(&run.cluster.plan);
    if (!keys.ok()) return PrintError(keys.status());
    run.keys = *std::move(keys);
    run.cluster.coordinator_host = plan_.coordinator.address;
    run.cluster.supervision.emplace();
    run.ends_with_any_daemon = false;
    run.cluster.ready_deadline = absl::Seconds(options_.timeout_s);
    run.job = std::move(job);
    run.resume = ToResumeFrom(options_.resume);
    run.trace = options_.job.trace;
    if (run.job.has_value()) {
      const uint32_t ranks = run.job->ranks();
      const bool on_gpus = run.job->device() == proto::Job::GPU;
      run.check_job = [this, ranks, on_gpus] { return CheckSlots(ranks, on_gpus); };
    }
    run.before = [this](std::function<void(absl::Status)> done) { Connect(std::move(done)); };
    run.after = [this](std::function<void()> done) { hosts_.Close(std::move(done)); };
    run.on_progress = [this](const PlannedDaemon& daemon, const std::string& line) {
      OnProgress(daemon, line);
    };
    run.ready_line = [this](const std::string& coordinator) {
      return absl::StrCat("strata launch ready coordinator=", coordinator, " hosts=", host_count_,
                          " servers=", plan_.servers, " workers=", plan_.workers, " slots=", slots_,
                          " runs=", options_.launch.runs_dir);
    };
    return ClusterRun(&loop_, &hosts_, std::move(run)).Run();
  }

 private:
  HostSet::Options HostOptions(std::vector<Host> hosts, const std::string& log_level) const {
    HostSet::Options options;
    options.hosts = std::move(hosts);
    options.ssh = options_.ssh;
    options.binary = options_.binary;
    options.version = kVersion;
    options.log_dir = options_.launch.runs_dir + "/daemons";
    options.log_level = log_level;
    options.answer_deadline = absl::Seconds(options_.timeout_s);
    return options;
  }

  void Connect(std::function<void(absl::Status)> done) {
    hosts_.Connect([this, done](const std::vector<std::string>& failures) {
      for (const std::string& failure : failures) PrintError(failure, kExitFailed);
      if (!failures.empty()) return done(absl::UnavailableError("not all hosts can be used"));
      PrintF(stdout, "%zu hosts answer, each with %s\n", host_count_, kVersion);
      std::fflush(stdout);
      done(absl::OkStatus());
    });
  }

  void OnProgress(const PlannedDaemon& daemon, const std::string& line) {
    if (!ready_.insert(daemon.spec.title).second) return;  // it was started again
    if (daemon.role == DaemonRole::kWorker && !absl::StrContains(line, kStandsIn)) {
      slots_ += SlotsIn(line, " slots=");
      gpu_slots_ += SlotsIn(line, " gpu-slots=");
    }
    PrintF(stdout, "[%zu/%zu] %s is ready\n", ready_.size(), plan_.daemons.size(),
           daemon.spec.title);
    std::fflush(stdout);
  }

  absl::Status CheckSlots(uint32_t ranks, bool on_gpus) const {
    if (on_gpus && ranks > static_cast<uint32_t>(gpu_slots_)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the job has ", ranks, " ranks on GPUs, the hosts have ", gpu_slots_,
                       " GPU slots in all (gpus and ranks-per-gpu in the hosts file, or --gpus and "
                       "--ranks-per-gpu; `strata devices` on a host says what is there)"));
    }
    if (ranks <= static_cast<uint32_t>(slots_)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the job has ", ranks, " ranks, the hosts have ", slots_,
                     " slots in all (slots=N in the hosts file, or --slots)"));
  }

  const LaunchCommandOptions& options_;
  const size_t host_count_;
  const LaunchPlan plan_;
  EventLoop loop_;
  HostSet hosts_;
  std::set<std::string> ready_;  // daemons by title
  int slots_ = 0;
  int gpu_slots_ = 0;
};

int RunLaunchCommand(LaunchCommandOptions options, const Invocation& invocation) {
  MakeUndumpable(OwnEnvironment());  // it makes all daemons' keys
  auto loaded = LoadJobIfGiven(options.job);
  if (!loaded.ok()) return PrintError(loaded.status());
  std::optional<proto::Job> job = *std::move(loaded);
  auto hosts = LoadHosts(options.hosts_path);
  if (!hosts.ok()) return PrintError(hosts.status());
  if (options.launch.runs_dir.empty()) options.launch.runs_dir = NameRunsDirectory();
  if (!job.has_value() && !options.port_given) options.launch.port = kCoordinatorPort;
  if (options.binary.empty()) {
    std::error_code error;
    options.binary = std::filesystem::read_symlink("/proc/self/exe", error).string();
  }
  auto plan = PlanLaunch(*hosts, options.launch);
  if (!plan.ok()) return PrintError(plan.status());
  if (job.has_value()) {
    absl::Status status = CheckServers(*job, plan->servers);
    if (!status.ok()) return PrintError(status);
  }
  return Launch(options, *std::move(hosts), *std::move(plan), invocation.log_level)
      .Run(std::move(job));
}

void AddOptions(CLI::App* command, LaunchCommandOptions* options) {
  LaunchOptions& launch = options->launch;
  command->add_option("--hosts", options->hosts_path, "Hosts file, see below")->required();
  CLI::Option* const job =
      command->add_option("--job", options->job.path, "Job to run; without one: run until Ctrl-C");
  AddResumeOption(command, &options->resume)->needs(job);
  AddJobOptions(command, &options->job);
  AddTraceOption(command, &options->job);
  command
      ->add_option("--servers", launch.servers,
                   "Servers (default: one per host with role=server, else 1)")
      ->check(CLI::Range(0, 1024));
  command->add_option("--shards", launch.shards, "Shards per server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--slots", launch.slots,
                   "Ranks at once on a host whose line does not say (default: its cores)")
      ->check(CLI::Range(1, 1024));
  AddGpuOptions(command, &launch.gpus);
  command->add_option(
      "--coordinator-host", launch.coordinator_host,
      "Host of the coordinator (default: who has role=coordinator, else the first)");
  command
      ->add_option("--port", launch.port,
                   "Port of the coordinator (default: 7070, with a job a free one)")
      ->check(CLI::Range(1, 65535));
  command
      ->add_option("--server-port", launch.server_port,
                   "Port of the first shard on each host, the others follow (default: free ones)")
      ->check(CLI::Range(1, 65535));
  command->add_option("--binary", options->binary,
                      "strata on the hosts (default: the path of this one)");
  command
      ->add_option(
          "--ssh", options->ssh,
          "Command that runs a command on a host, in a shell's words; HOST and the command "
          "are added")
      ->capture_default_str();
  command->add_option("--runs", launch.runs_dir,
                      "Parent of run directories, logs and state on the hosts; relative to where "
                      "ssh begins (default: strata-runs/TIME)");
  command
      ->add_option("--timeout", options->timeout_s,
                   "Seconds for all hosts to answer, and then for all daemons to be ready")
      ->check(Within(0.1, 3600.0))
      ->capture_default_str();
}

}  // namespace

void AddLaunchCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<LaunchCommandOptions>();
  CLI::App* command = app->add_subcommand(
      "launch", "Run a cluster on several hosts over ssh; with --job run that job, then stop");
  AddOptions(command, options.get());
  AddLogLevelOption(command, invocation);
  command->footer(
      "Hosts file, one host a line, # begins a comment:\n"
      "  [USER@]HOST [slots=N] [role=ROLE[,ROLE...]] [address=ADDRESS]\n"
      "      [link-rate=GBIT_PER_S] [gpus=INDEX[,INDEX...]|none] [ranks-per-gpu=N]\n"
      "with the roles coordinator, server, worker and stand-in (strata worker --stand-in, also\n"
      "beside a worker). A host without a role is a worker; without role=server the servers go\n"
      "to all hosts in turn. ADDRESS is what the other hosts and this one reach it by (default:\n"
      "HOST); a numeric one is the only one listened on. GBIT_PER_S is what the host's link\n"
      "carries (default: its interface's speed), for the placement of chunks. gpus and\n"
      "ranks-per-gpu are as the options of those names, for one host.\n"
      "When this command ends, however it does, the hosts end their daemons.\n"
      "Examples:\n"
      "  strata launch --hosts hosts.txt --job job.textproto\n"
      "  strata launch --hosts hosts.txt --servers 2 --binary /opt/strata/bin/strata\n"
      "  strata launch --hosts hosts.txt --ssh 'ssh -i key -p 2222' --job job.textproto\n"
      "Exit status with --job: 0 finished, 1 failed or stopped, 2 bad input.");
  CLI::Option* port = command->get_option("--port");
  command->callback([=] {
    options->port_given = port->count() > 0;
    invocation->run = [=] { return RunLaunchCommand(*options, *invocation); };
  });
}

}  // namespace strata::cli
