#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "cli/cluster/child_starter.h"
#include "cli/cluster/host_message.h"
#include "cli/commands/commands.h"
#include "cli/options/line_reader.h"
#include "cli/options/options.h"
#include "cli/options/terminal.h"
#include "common/os/environment.h"
#include "common/os/event_loop.h"
#include "common/os/stop_request.h"

namespace strata::cli {
namespace {

constexpr absl::Duration kStopDeadline = absl::Seconds(10);  // then SIGKILL

struct HostCommandOptions {
  std::string log_dir;
  double silence_s = 60;
};

// Starts daemons as standard input says and tells on standard output what becomes of them. When its
// input ends, or nothing comes for so long that nobody can be there, it ends them and itself.
class HostSide {
 public:
  HostSide(const HostCommandOptions& options, const std::string& log_level)
      : silence_max_(absl::Seconds(options.silence_s)),
        input_(UniqueFd(STDIN_FILENO)),
        starter_(&loop_, {options.log_dir, log_level}) {}

  int Run() {
    loop_.Watch(signals_.signal_fd(), POLLIN, [this](short) { OnSignal(); });
    loop_.Watch(input_.fd(), POLLIN, [this](short) { OnInput(); });
    loop_.Post([this] {
      Say({.kind = HostMessage::Kind::kUp});
      CheckSilence();
    });
    loop_.Run();
    return kExitOk;
  }

 private:
  void OnSignal() {
    signalfd_siginfo info;
    if (read(signals_.signal_fd(), &info, sizeof(info)) == sizeof(info)) Stop();
  }

  void OnInput() {
    const auto lines = input_.Read();
    if (!lines.has_value()) {
      loop_.Unwatch(input_.fd());
      return Stop();
    }
    last_heard_ = absl::Now();
    for (const std::string& line : *lines) {
      const auto message = DecodeHostMessage(line);
      if (!message.has_value()) continue;
      if (message->kind == HostMessage::Kind::kStart) StartDaemon(*message);
      if (message->kind == HostMessage::Kind::kSignal) {
        const auto found = daemons_.find(message->title);
        if (found != daemons_.end()) found->second->Signal(message->signal);
      }
    }
  }

  void StartDaemon(const HostMessage& message) {
    if (stopping_) return;
    const std::string title = message.title;
    auto started =
        starter_.Start({title, /*host=*/"", message.args, message.keys},
                       {[this, title](const std::string& line) {
                          Say({.kind = HostMessage::Kind::kReady, .title = title, .text = line});
                        },
                        [this, title](const std::string& why) { OnDaemonEnd(title, why); }});
    if (started.ok()) {
      daemons_[title] = std::move(*started);
    } else {
      OnDaemonEnd(title, std::string(started.status().message()));
    }
  }

  void OnDaemonEnd(const std::string& title, const std::string& why) {
    Say({.kind = HostMessage::Kind::kEnded, .title = title, .text = why});
    // Not at once: it is the daemon that calls.
    loop_.Post([this, title] {
      daemons_.erase(title);
      if (stopping_ && daemons_.empty()) loop_.Stop();
    });
  }

  void CheckSilence() {
    const absl::Time end = last_heard_ + silence_max_;
    if (absl::Now() >= end) {
      PrintF(stderr, "strata: error: nothing was heard from the launcher for %s\n",
             absl::FormatDuration(silence_max_));
      return Stop();
    }
    loop_.After(end - absl::Now(), [this] { CheckSilence(); });
  }

  void Stop() {
    if (std::exchange(stopping_, true)) return;
    for (auto& [title, daemon] : daemons_) daemon->Signal(SIGTERM);
    if (daemons_.empty()) return loop_.Stop();
    loop_.After(kStopDeadline, [this] {
      for (auto& [title, daemon] : daemons_) daemon->Signal(SIGKILL);
    });
  }

  void Say(const HostMessage& message) {
    // The input tells whether anybody still listens.
    WriteBytes(stdout, EncodeHostMessage(message) + "\n");
    std::fflush(stdout);
  }

  const absl::Duration silence_max_;
  StopRequest signals_;
  EventLoop loop_;
  LineReader input_;
  ChildStarter starter_;
  std::map<std::string, std::unique_ptr<RunningDaemon>> daemons_;  // by title
  absl::Time last_heard_ = absl::Now();
  bool stopping_ = false;
};

int RunHost(const HostCommandOptions& options, const Invocation& invocation) {
  MakeUndumpable(OwnEnvironment());  // daemons' keys pass through it
  absl::Status status = MakeWritableDirectory(options.log_dir);
  if (!status.ok()) return PrintError(std::string(status.message()), kExitFailed);
  signal(SIGPIPE, SIG_IGN);  // the launcher may be gone before the daemons are
  return HostSide(options, invocation.log_level).Run();
}

}  // namespace

// Started by `strata launch` only, so it is not in the help.
void AddHostCommand(CLI::App* app, Invocation* invocation) {
  auto options = std::make_shared<HostCommandOptions>();
  CLI::App* command = app->add_subcommand("host", "One host's daemons for `launch`")->group("");
  command->add_option("--logs", options->log_dir, "Folder of the daemons' logs")->required();
  command->add_option("--silence", options->silence_s, "Seconds without a word that end it all")
      ->check(Within(0.1, 86400.0));
  AddLogLevelOption(command, invocation);
  command->callback([=] { invocation->run = [=] { return RunHost(*options, *invocation); }; });
}

}  // namespace strata::cli
