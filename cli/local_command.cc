#include <poll.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/command.h"
#include "cli/follow.h"
#include "cli/local_cluster.h"
#include "cli/options.h"
#include "common/control/coordinator_client.h"
#include "common/process/event_loop.h"
#include "common/process/stop_request.h"

namespace strata::cli {
namespace {

struct Options {
  LocalCluster::Options cluster;
  JobOptions job;
  bool slots_given = false;
  std::string listen;
};

// The cluster and, if there is a job, the thread that submits and follows it.
class LocalRun {
 public:
  LocalRun(const Options& options, std::optional<proto::Job> job)
      : options_(options),
        job_(std::move(job)),
        cluster_(&loop_, options.cluster,
                 {[this](const absl::Status& status) { OnReady(status); },
                  [this](const std::string& text) { OnLost(text); }}) {}

  int Run() {
    loop_.Watch(signals_.signal_fd(), POLLIN, [this](short) { OnSignal(); });
    loop_.Post([this] { cluster_.Start(); });
    loop_.Run();
    if (follower_.joinable()) follower_.join();
    if (interrupted_) SayInterrupted();
    return exit_status_;
  }

 private:
  void OnReady(const absl::Status& status) {
    if (!status.ok()) {
      exit_status_ = PrintError(std::string(status.message()), kExitFailed);
      return Stop();
    }
    const LocalCluster::Options& cluster = options_.cluster;
    std::printf(
        "strata local ready coordinator=%s servers=%d shards=%d nodes=%d slots=%d runs=%s\n",
        cluster_.coordinator().c_str(), cluster.servers, cluster.shards, cluster.nodes,
        cluster.slots, cluster.runs_dir.c_str());
    if (!job_.has_value()) return PrintHowTo();
    std::fflush(stdout);
    CoordinatorOptions client;
    client.address = cluster_.coordinator();
    client_ = ConnectTo(client);
    follower_ = std::thread([this] {
      auto id = client_->Submit(*job_);
      std::optional<int> exit_status;
      if (id.ok()) exit_status = FollowJob(client_.get(), *id, /*json=*/false);
      loop_.Post([=, this, submitted = id.status()] { OnFollowed(submitted, exit_status); });
    });
  }

  void OnFollowed(const absl::Status& submitted, std::optional<int> exit_status) {
    if (interrupted_) {
      SayInterrupted();
    } else if (!stopping_) {
      exit_status_ = submitted.ok() ? exit_status.value_or(kExitFailed) : PrintError(submitted);
    }
    Stop();
  }

  // Once, when the follower writes no more.
  void SayInterrupted() {
    if (said_interrupted_) return;
    said_interrupted_ = true;
    exit_status_ = PrintError("stopped before the job had ended", kExitFailed);
  }

  void PrintHowTo() {
    std::string with = cluster_.coordinator() == CoordinatorOptions().address
                           ? ""
                           : absl::StrCat(" --coordinator ", cluster_.coordinator());
    std::printf(
        "  train:  strata submit examples/fashion_lenet_sync.textproto --follow%s\n"
        "  look:   strata status%s\n"
        "  stop:   Ctrl-C\n",
        with.c_str(), with.c_str());
    std::fflush(stdout);
  }

  void OnLost(const std::string& text) {
    std::fprintf(stderr, "strata: warning: %s\n", text.c_str());
  }

  void OnSignal() {
    signalfd_siginfo info;
    if (read(signals_.signal_fd(), &info, sizeof(info)) != sizeof(info)) return;
    if (stopping_) {
      // Asked twice: the daemons are killed when the cluster is destroyed.
      loop_.Stop();
      return;
    }
    interrupted_ = job_.has_value();
    Stop();
  }

  void Stop() {
    if (stopping_) return;
    stopping_ = true;
    if (client_ != nullptr) client_->StopFollowing();
    cluster_.Stop([this] { loop_.Stop(); });
  }

  const Options& options_;
  const std::optional<proto::Job> job_;
  StopRequest signals_;
  EventLoop loop_;
  LocalCluster cluster_;
  std::unique_ptr<control::CoordinatorClient> client_;
  std::thread follower_;
  bool stopping_ = false;
  bool interrupted_ = false;
  bool said_interrupted_ = false;
  int exit_status_ = kExitOk;
};

int Run(Options options, const Invocation& invocation) {
  std::optional<proto::Job> job;
  if (!options.job.path.empty()) {
    auto loaded = LoadJob(options.job);
    if (!loaded.ok()) return PrintError(loaded.status());
    job = *loaded;
  } else if (!options.job.settings.empty() || !options.job.mode.empty()) {
    return PrintError("--set and --mode need --job", kExitUsage);
  }
  LocalCluster::Options& cluster = options.cluster;
  if (job.has_value() && cluster.servers == 0 && job->exchange() == proto::Job::PARAMETER_SERVER) {
    return PrintError(
        absl::StrCat("--servers 0: job ", job->name(),
                     " has exchange PARAMETER_SERVER and needs a server (--servers 1 or more)"),
        kExitUsage);
  }
  if (!options.slots_given) {
    int cores = static_cast<int>(std::thread::hardware_concurrency());
    int ranks = job.has_value() ? static_cast<int>(job->ranks()) : cores;
    cluster.slots = std::max(1, (ranks + cluster.nodes - 1) / cluster.nodes);
  }
  cluster.listen = options.listen;
  if (cluster.listen.empty()) cluster.listen = job.has_value() ? "127.0.0.1:0" : "127.0.0.1:7070";
  if (cluster.runs_dir.empty()) {
    cluster.runs_dir =
        absl::FormatTime("strata-runs/%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone());
  }
  cluster.runs_dir = std::filesystem::absolute(cluster.runs_dir).lexically_normal();
  cluster.log_dir = cluster.runs_dir + "/daemons";
  cluster.log_level = invocation.log_level;
  bool temporary = cluster.state_dir.empty();
  if (temporary) {
    char path[] = "/tmp/strata-local-XXXXXX";
    if (mkdtemp(path) == nullptr) return PrintError("cannot make a directory in /tmp", kExitFailed);
    cluster.state_dir = path;
  }
  int exit_status = LocalRun(options, job).Run();
  std::error_code ignored;
  if (temporary) std::filesystem::remove_all(cluster.state_dir, ignored);
  return exit_status;
}

}  // namespace

void AddLocalCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app->add_subcommand(
      "local", "Run a whole cluster on this machine; with --job run that job, then stop");
  LocalCluster::Options& cluster = options->cluster;
  command->add_option("--job", options->job.path, "Job to run; without one: run until Ctrl-C");
  AddJobOptions(command, &options->job);
  command->add_option("--servers", cluster.servers, "Servers")
      ->check(CLI::Range(0, 64))
      ->capture_default_str();
  command->add_option("--shards", cluster.shards, "Shards per server")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command->add_option("--nodes", cluster.nodes, "Worker nodes")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  CLI::Option* slots =
      command
          ->add_option("--slots", cluster.slots,
                       "Ranks per node at once (default: what the job needs, else the cores)")
          ->check(CLI::Range(1, 1024));
  command->add_option("--listen", options->listen,
                      "HOST:PORT of the coordinator (default: 127.0.0.1:7070, with a job a free "
                      "port)");
  command->add_option("--runs", cluster.runs_dir,
                      "Parent of run directories and logs (default: strata-runs/TIME)");
  command->add_option("--state", cluster.state_dir,
                      "The coordinator's state (default: a temporary folder)");
  AddLogLevelOption(command, invocation);
  command->footer(
      "Examples:\n"
      "  strata local --nodes 2 --slots 2 --job examples/fashion_lenet_sync.textproto\n"
      "  strata local --servers 2 --nodes 2 --job job.textproto --mode async --set epochs=2\n"
      "  strata local --servers 2 --nodes 2 --slots 2\n"
      "Exit status with --job: 0 finished, 1 failed or stopped, 2 bad input.");
  command->callback([=] {
    options->slots_given = slots->count() > 0;
    invocation->run = [=] { return Run(*options, *invocation); };
  });
}

}  // namespace strata::cli
