#include "cli/cluster/cluster_life.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace strata::cli {
namespace {

// "HOST:PORT" of "strata coordinator ready address=HOST:PORT state=...".
std::string AddressIn(const std::string& line) {
  size_t begin = line.find("address=");
  if (begin == std::string::npos) return "";
  begin += 8;
  return line.substr(begin, line.find(' ', begin) - begin);
}

}  // namespace

ClusterLife::ClusterLife(EventLoop* loop, DaemonStarter* starter, Options options,
                         Callbacks callbacks)
    : timers_(loop),
      starter_(starter),
      options_(std::move(options)),
      callbacks_(std::move(callbacks)) {}

void ClusterLife::Start() {
  if (stopping_) return;
  timers_.After(options_.ready_deadline, [this] { OnReadyDeadline(); });
  StartNext();
}

void ClusterLife::OnReadyDeadline() {
  if (said_ready_) return;
  const std::string& title = daemons_.back()->planned->spec.title;
  Ready(absl::DeadlineExceededError(
      absl::StrCat(title, " is not ready after ", absl::FormatDuration(options_.ready_deadline))));
}

void ClusterLife::StartNext() {
  if (said_ready_ || stopping_) return;  // an earlier one has failed
  if (daemons_.size() == options_.plan.size()) return Ready(absl::OkStatus());
  auto daemon = std::make_unique<Daemon>();
  Daemon* added = daemon.get();
  added->planned = &options_.plan[daemons_.size()];
  daemons_.push_back(std::move(daemon));
  const absl::Status started = StartDaemon(added);
  if (started.ok()) return;
  Ready(absl::UnavailableError(
      absl::StrCat(added->planned->spec.title, ": ", std::string(started.message()))));
}

absl::Status ClusterLife::StartDaemon(Daemon* daemon) {
  DaemonSpec spec = daemon->planned->spec;
  if (daemon->planned->role != DaemonRole::kCoordinator) {
    spec.args.insert(spec.args.end(), {"--coordinator", coordinator_});
  } else if (!listens_at_.empty()) {
    // It listens where the others look for it, even if it chose its port at first.
    for (size_t i = 1; i < spec.args.size(); ++i) {
      if (spec.args[i - 1] == "--listen") spec.args[i] = listens_at_;
    }
  }
  daemon->running.reset();
  auto running =
      starter_->Start(spec, {[this, daemon](const std::string& line) { OnReadyLine(daemon, line); },
                             [this, daemon](const std::string& why) { OnEnd(daemon, why); }});
  daemon->gone = !running.ok();
  if (!running.ok()) return running.status();
  daemon->running = std::move(*running);
  return absl::OkStatus();
}

bool ClusterLife::Restart(Daemon* daemon, const std::string& why) {
  const Supervision& rule = *options_.supervision;
  const absl::Time now = absl::Now();
  std::erase_if(daemon->ends, [&](absl::Time end) { return now - end >= rule.within; });
  daemon->ends.push_back(now);
  if (daemon->ends.size() > rule.restarts_max) return false;
  absl::Duration delay = rule.first_delay;
  for (size_t i = 1; i < daemon->ends.size(); ++i) delay = std::min(2 * delay, rule.longest_delay);
  callbacks_.on_restart(*daemon->planned, why, delay);
  timers_.After(delay, [this, daemon] {
    if (stopping_) return;
    const absl::Status started = StartDaemon(daemon);
    if (!started.ok()) OnEnd(daemon, std::string(started.message()));
  });
  return true;
}

std::string ClusterLife::TooOften(const std::string& why) const {
  const Supervision& rule = *options_.supervision;
  return absl::StrCat("has ended ", rule.restarts_max + 1, " times within ",
                      absl::FormatDuration(rule.within),
                      " and is not started again; at last: ", why);
}

void ClusterLife::OnReadyLine(Daemon* daemon, const std::string& line) {
  daemon->ready = true;
  if (daemon->planned->role == DaemonRole::kCoordinator) {
    coordinator_ = listens_at_ = AddressIn(line);
    if (!options_.coordinator_host.empty()) {
      coordinator_ =
          absl::StrCat(options_.coordinator_host, coordinator_.substr(coordinator_.rfind(':')));
    }
  }
  if (callbacks_.on_progress != nullptr) callbacks_.on_progress(*daemon->planned, line);
  StartNext();
}

void ClusterLife::Ready(const absl::Status& status) {
  if (said_ready_) return;
  said_ready_ = true;
  callbacks_.on_ready(status);
}

void ClusterLife::OnEnd(Daemon* daemon, const std::string& why) {
  daemon->gone = true;
  if (stopping_) return StopNext();
  if (said_ready_) {
    const bool may_start = options_.supervision && starter_->Reaches(daemon->planned->spec.host);
    if (!may_start) return callbacks_.on_lost(*daemon->planned, why);
    if (!Restart(daemon, why)) callbacks_.on_lost(*daemon->planned, TooOften(why));
    return;
  }
  Ready(absl::UnavailableError(absl::StrCat(daemon->planned->spec.title, ": ", why)));
}

void ClusterLife::SignalWorkers(int signal) {
  for (auto& daemon : daemons_) {
    if (daemon->planned->role != DaemonRole::kWorker || !daemon->ready || daemon->gone) continue;
    daemon->running->Signal(signal);
  }
}

void ClusterLife::Stop(std::function<void()> done) {
  if (stopping_) return;
  stopping_ = true;
  stopped_ = std::move(done);
  StopNext();
}

void ClusterLife::StopNext() {
  for (; stage_ <= static_cast<int>(DaemonRole::kCoordinator); ++stage_, signalled_ = false) {
    const auto role = static_cast<DaemonRole>(stage_);
    bool any = false;
    for (auto& daemon : daemons_) {
      if (daemon->gone || daemon->planned->role != role) continue;
      any = true;
      if (!signalled_) daemon->running->Signal(SIGTERM);
    }
    if (!any) continue;
    if (signalled_) return;
    signalled_ = true;
    timers_.After(options_.stop_deadline, [this, role] { OnStopDeadline(role, /*killed=*/false); });
    return;
  }
  if (stopped_) std::exchange(stopped_, nullptr)();
}

void ClusterLife::OnStopDeadline(DaemonRole role, bool killed) {
  bool any = false;
  for (auto& daemon : daemons_) {
    if (daemon->gone || daemon->planned->role != role) continue;
    any = true;
    if (!killed) daemon->running->Signal(SIGKILL);
    if (killed) daemon->gone = true;  // its host no longer answers
  }
  if (!any) return;
  if (killed) return StopNext();
  timers_.After(options_.stop_deadline, [this, role] { OnStopDeadline(role, /*killed=*/true); });
}

}  // namespace strata::cli
