#include "cli/cluster/cluster_life.h"

#include <signal.h>

#include <utility>

#include "absl/strings/str_cat.h"

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
  DaemonSpec spec = added->planned->spec;
  if (added->planned->role != DaemonRole::kCoordinator) {
    spec.args.insert(spec.args.end(), {"--coordinator", coordinator_});
  }
  daemons_.push_back(std::move(daemon));
  auto running =
      starter_->Start(spec, {[this, added](const std::string& line) { OnReadyLine(added, line); },
                             [this, added](const std::string& why) { OnEnd(added, why); }});
  if (!running.ok()) {
    added->gone = true;
    return Ready(absl::UnavailableError(
        absl::StrCat(spec.title, ": ", std::string(running.status().message()))));
  }
  added->running = std::move(*running);
}

void ClusterLife::OnReadyLine(Daemon* daemon, const std::string& line) {
  daemon->ready = true;
  if (daemon->planned->role == DaemonRole::kCoordinator) {
    coordinator_ = AddressIn(line);
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
  if (said_ready_) return callbacks_.on_lost(*daemon->planned, why);
  Ready(absl::UnavailableError(absl::StrCat(daemon->planned->spec.title, ": ", why)));
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
