#include "cli/local_cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace strata::cli {
namespace {

// "HOST:PORT" of "strata coordinator ready address=HOST:PORT state=...".
std::string AddressIn(const std::string& line) {
  size_t begin = line.find("address=");
  if (begin == std::string::npos) return "";
  begin += 8;
  return line.substr(begin, line.find(' ', begin) - begin);
}

// A daemon's own words for why it ended, if it left any.
std::string LastError(const std::string& log_path) {
  std::ifstream in(log_path);
  std::string line, last;
  while (std::getline(in, line)) {
    if (!line.empty()) last = line;
  }
  return std::string(absl::StripPrefix(last, "strata: error: "));
}

}  // namespace

LocalCluster::LocalCluster(EventLoop* loop, Options options, Callbacks callbacks)
    : loop_(loop), options_(std::move(options)), callbacks_(std::move(callbacks)) {}

LocalCluster::~LocalCluster() {
  for (auto& daemon : daemons_) {
    if (daemon->out.valid()) loop_->Unwatch(daemon->out.get());
    if (daemon->process != nullptr) loop_->Unwatch(daemon->process->pid_fd());
  }
}

void LocalCluster::Start() {
  std::error_code error;
  for (const std::string& dir : {options_.state_dir, options_.runs_dir, options_.log_dir}) {
    std::filesystem::create_directories(dir, error);
    if (!error && access(dir.c_str(), W_OK | X_OK) != 0) {
      error = std::error_code(errno, std::generic_category());
    }
    if (error) {
      return Ready(absl::FailedPreconditionError(
          absl::StrCat("cannot write to directory ", dir, ": ", error.message())));
    }
  }
  loop_->After(options_.ready_deadline, [this, alive = std::weak_ptr<bool>(alive_)] {
    if (alive.expired() || said_ready_) return;
    for (auto& daemon : daemons_) {
      if (daemon->ready) continue;
      return Ready(absl::DeadlineExceededError(
          absl::StrCat(daemon->title, " is not ready after ",
                       absl::FormatDuration(options_.ready_deadline), ", see ", daemon->log_path)));
    }
  });
  Spawn(Role::kCoordinator, "coordinator",
        {"coordinator", "--listen", options_.listen, "--state", options_.state_dir});
}

// One after the other, so that they register in the order of their names: node 0 of a job is on w0.
// False: there are no more.
bool LocalCluster::SpawnNext() {
  int i = static_cast<int>(daemons_.size()) - 1;  // without the coordinator
  if (i < options_.servers) {
    std::string name = absl::StrCat("s", i);
    Spawn(Role::kServer, absl::StrCat("server ", name),
          {"server", "--coordinator", coordinator_, "--listen", "127.0.0.1", "--name", name,
           "--shards", absl::StrCat(options_.shards)});
    return true;
  }
  i -= options_.servers;
  if (i >= options_.nodes) return false;
  std::string name = absl::StrCat("w", i);
  Spawn(Role::kWorker, absl::StrCat("worker ", name),
        {"worker", "--coordinator", coordinator_, "--name", name, "--slots",
         absl::StrCat(options_.slots), "--runs", options_.runs_dir});
  return true;
}

void LocalCluster::Spawn(Role role, const std::string& title, std::vector<std::string> args) {
  if (said_ready_ || stopping_) return;  // an earlier one has failed
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return Ready(absl::ErrnoToStatus(errno, "cannot make a pipe"));
  auto daemon = std::make_unique<Daemon>();
  daemon->role = role;
  daemon->title = title;
  std::string file = title;
  for (char& c : file) c = c == ' ' ? '-' : c;
  daemon->log_path = absl::StrCat(options_.log_dir, "/", file, ".log");
  daemon->out = UniqueFd(out[0]);
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  Process::Spec spec;
  spec.executable = options_.binary;
  spec.args = std::move(args);
  spec.args.insert(spec.args.begin(), "strata");
  spec.args.insert(spec.args.end(), {"--log-level", options_.log_level});
  spec.log_path = daemon->log_path;
  spec.stdout_fd = out[1];
  auto process = Process::Start(spec);
  close(out[1]);
  if (!process.ok()) return Ready(process.status());
  daemon->process = std::move(*process);
  Daemon* added = daemon.get();
  daemons_.push_back(std::move(daemon));
  loop_->Watch(added->out.get(), POLLIN, [this, added](short) { OnOutput(added); });
  loop_->Watch(added->process->pid_fd(), POLLIN, [this, added](short) { OnEnd(added); });
}

void LocalCluster::OnOutput(Daemon* daemon) {
  char buffer[4096];
  ssize_t got = read(daemon->out.get(), buffer, sizeof(buffer));
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    loop_->Unwatch(daemon->out.get());
    return;
  }
  if (daemon->ready) return;  // nothing more is expected
  daemon->line.append(buffer, static_cast<size_t>(got));
  if (absl::StrContains(daemon->line, " ready ") && absl::StrContains(daemon->line, "\n")) {
    OnReadyLine(daemon);
  }
}

void LocalCluster::OnReadyLine(Daemon* daemon) {
  daemon->ready = true;
  if (daemon->role == Role::kCoordinator) {
    coordinator_ = AddressIn(daemon->line.substr(0, daemon->line.find('\n')));
  }
  if (!SpawnNext()) Ready(absl::OkStatus());
}

void LocalCluster::Ready(const absl::Status& status) {
  if (said_ready_) return;
  said_ready_ = true;
  callbacks_.on_ready(status);
}

void LocalCluster::OnEnd(Daemon* daemon) {
  auto status = daemon->process->TryReap();
  if (!status.has_value()) return;
  loop_->Unwatch(daemon->process->pid_fd());
  daemon->gone = true;
  if (stopping_) return StopNext();
  std::string why = status->signal != 0 ? status->ToString() : LastError(daemon->log_path);
  if (why.empty()) why = status->ToString();
  std::string text = absl::StrCat(daemon->title, ": ", why);
  if (said_ready_) return callbacks_.on_lost(text);
  Ready(absl::UnavailableError(text));
}

void LocalCluster::Stop(std::function<void()> done) {
  if (stopping_) return;
  stopping_ = true;
  stopped_ = std::move(done);
  StopNext();
}

void LocalCluster::StopNext() {
  for (; stage_ <= static_cast<int>(Role::kCoordinator); ++stage_, signalled_ = false) {
    bool any = false;
    for (auto& daemon : daemons_) {
      if (daemon->gone || static_cast<int>(daemon->role) != stage_) continue;
      any = true;
      if (!signalled_) daemon->process->Signal(SIGTERM);
    }
    if (!any) continue;
    if (signalled_) return;
    signalled_ = true;
    loop_->After(options_.stop_deadline,
                 [this, stage = stage_, alive = std::weak_ptr<bool>(alive_)] {
                   if (alive.expired()) return;
                   for (auto& daemon : daemons_) {
                     if (static_cast<int>(daemon->role) == stage) daemon->process->Signal(SIGKILL);
                   }
                 });
    return;
  }
  if (stopped_) std::exchange(stopped_, nullptr)();
}

}  // namespace strata::cli
