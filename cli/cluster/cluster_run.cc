#include "cli/cluster/cluster_run.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cli/cluster/follow.h"
#include "cli/options/invocation.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"

namespace strata::cli {
namespace {

// The longest wait, at a cluster's end, for the checkpoint of its job's end.
constexpr absl::Duration kLastCheckpoint = absl::Minutes(5);
// Shorter waits pass without a message.
constexpr absl::Duration kSoon = absl::Seconds(1);

}  // namespace

ClusterRun::ClusterRun(EventLoop* loop, DaemonStarter* starter, Options options)
    : loop_(loop),
      options_(std::move(options)),
      cluster_(
          loop, starter, options_.cluster,
          {options_.on_progress, [this](const absl::Status& status) { OnReady(status); },
           [this](const PlannedDaemon& daemon, const std::string& why) { OnLost(daemon, why); },
           [this](const PlannedDaemon& daemon, const std::string& why, absl::Duration delay) {
             OnRestart(daemon, why, delay);
           }}) {}

int ClusterRun::Run() {
  loop_->Watch(signals_.signal_fd(), POLLIN, [this](short) { OnSignal(); });
  loop_->Watch(passed_.fd(), POLLIN, [this](short) { PassSignalsOn(); });
  loop_->Post([this] {
    if (options_.before == nullptr) return OnPrepared(absl::OkStatus());
    options_.before([this](const absl::Status& status) { OnPrepared(status); });
  });
  loop_->Run();
  loop_->Unwatch(signals_.signal_fd());
  loop_->Unwatch(passed_.fd());
  if (follower_.joinable()) follower_.join();
  if (interrupted_) EndInterrupted();
  return exit_status_;
}

void ClusterRun::OnPrepared(const absl::Status& status) {
  if (stopping_) return;
  if (status.ok()) return cluster_.Start();
  exit_status_ = kExitFailed;
  Stop();
}

void ClusterRun::OnReady(const absl::Status& status) {
  if (!status.ok()) {
    exit_status_ = Fail(std::string(status.message()));
    return Stop();
  }
  if (options_.keys) LendKeys();
  if (options_.on_ready != nullptr) options_.on_ready(cluster_.coordinator(), options_.keys);
  if (options_.ready_line != nullptr) {
    const std::string keys = lent_keys_.path().empty() ? "" : " keys=" + lent_keys_.path();
    PrintF(stdout, "%s%s\n", options_.ready_line(cluster_.coordinator()), keys);
  }
  std::fflush(stdout);
  if (options_.work.has_value()) return StartWork();
  if (!options_.job.has_value()) return PrintHowTo();
  const absl::Status check = options_.check_job == nullptr ? status : options_.check_job();
  if (!check.ok()) {
    exit_status_ = PrintError(check);
    return Stop();
  }
  CoordinatorOptions client;
  client.address = cluster_.coordinator();
  if (options_.keys) client.credentials = control::Credentials::Of(*options_.keys);
  client_ = ConnectTo(client);
  follower_ = std::thread([this] {
    auto id = client_->Submit(*options_.job, options_.resume);
    if (id.ok() && options_.follow != nullptr) {
      followed_ = options_.follow(client_.get(), *id);
    } else if (id.ok()) {
      followed_ = FollowJob(client_.get(), *id, /*json=*/false, options_.trace, "", options_.output,
                            &newest_);
    }
    if (id.ok()) AwaitCheckpoint(*id);
    loop_->Post([this, submitted = id.status()] { OnFollowed(submitted); });
  });
}

void ClusterRun::AwaitCheckpoint(JobId job) {
  if (!options_.job->has_checkpoint() || followed_ != kExitOk) return;
  for (const absl::Duration timeout : {kSoon, kLastCheckpoint}) {
    if (stopping_) return;
    const absl::StatusOr<proto::JobStatus> end = client_->GetJob(job);
    if (!end.ok() || !end->checkpoints().has_writing_step()) return;
    if (timeout != kSoon) {
      PrintF(stdout, "waits for the checkpoint of step %s, which is being written\n",
             absl::StrCat(end->checkpoints().writing_step()));
      std::fflush(stdout);
    }
    control::AwaitLastCheckpoint(client_.get(), *end, timeout, [this] { return !stopping_; });
  }
}

void ClusterRun::StartWork() {
  follower_ = std::thread([this] {
    followed_ = options_.work->run(cluster_.coordinator());
    loop_->Post([this] { OnFollowed(absl::OkStatus()); });
  });
}

void ClusterRun::OnFollowed(const absl::Status& submitted) {
  if (!interrupted_ && !stopping_) {
    exit_status_ = submitted.ok() ? followed_.value_or(kExitFailed) : PrintError(submitted);
  }
  Stop();
}

void ClusterRun::EndInterrupted() {
  if (!followed_.has_value()) {
    UpdateNewestCheckpoint(&newest_);
    PrintText(stdout, StoppedText(newest_));
    std::fflush(stdout);
  }
  exit_status_ = followed_.has_value()
                     ? *followed_
                     : PrintError(options_.work.has_value() ? "stopped before all was ready"
                                                            : "stopped before the job had ended",
                                  kExitFailed);
}

void ClusterRun::LendKeys() {
  const absl::Status lent = lent_keys_.Write(*options_.keys);
  if (lent.ok()) return;
  PrintF(stderr, "strata: warning: other commands get no keys for this cluster: %s\n",
         std::string(lent.message()));
}

void ClusterRun::PrintHowTo() {
  std::string with = cluster_.coordinator() == FindCoordinator()
                         ? ""
                         : absl::StrCat(" --coordinator ", cluster_.coordinator());
  if (!lent_keys_.path().empty()) absl::StrAppend(&with, " --keys ", lent_keys_.path());
  PrintF(stdout,
         "  train:  strata submit examples/fashion_lenet_sync.textproto --follow%s\n"
         "  look:   strata status%s\n"
         "  stop:   Ctrl-C\n",
         with, with);
  std::fflush(stdout);
}

void ClusterRun::OnLost(const PlannedDaemon& daemon, const std::string& why) {
  const std::string text = absl::StrCat(daemon.spec.title, ": ", why);
  if (daemon.role != DaemonRole::kCoordinator && !options_.ends_with_any_daemon) {
    PrintF(stderr, "strata: warning: %s\n", text);
    return;
  }
  if (stopping_) return;
  exit_status_ = Fail(text);
  Stop();
}

int ClusterRun::Fail(const std::string& error) const {
  if (options_.on_error == nullptr) return PrintError(error, kExitFailed);
  options_.on_error(error);
  return kExitFailed;
}

void ClusterRun::OnRestart(const PlannedDaemon& daemon, const std::string& why,
                           absl::Duration delay) {
  std::fprintf(stderr, "strata: warning: %s: %s; it is started again after %s\n",
               daemon.spec.title.c_str(), why.c_str(), absl::FormatDuration(delay).c_str());
}

void ClusterRun::OnSignal() {
  signalfd_siginfo info;
  if (read(signals_.signal_fd(), &info, sizeof(info)) != sizeof(info)) return;
  if (stopping_) return loop_->Stop();  // asked twice: the daemons are killed by destructors
  interrupted_ = options_.job.has_value() || options_.work.has_value();
  Stop();
}

void ClusterRun::PassSignalsOn() {
  for (auto signal = passed_.Next(); signal.has_value(); signal = passed_.Next()) {
    cluster_.SignalWorkers(*signal);
  }
}

void ClusterRun::Stop() {
  if (stopping_) return;
  stopping_ = true;
  if (client_ != nullptr) client_->StopFollowing();
  if (options_.work.has_value()) options_.work->stop();
  cluster_.Stop([this] {
    if (options_.after == nullptr) return loop_->Stop();
    options_.after([this] { loop_->Stop(); });
  });
}

absl::Status CheckServers(const proto::Job& job, int servers) {
  if (servers > 0 || job.exchange() != proto::Job::PARAMETER_SERVER) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--servers 0: job ", job.name(),
                   " has exchange PARAMETER_SERVER and needs a server (--servers 1 or more)"));
}

}  // namespace strata::cli
