#include "worker/agent/job_processes.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/strip.h"
#include "common/counted.h"
#include "common/job/job.h"
#include "common/job/number_check.h"
#include "common/log.h"
#include "common/os/environment.h"
#include "common/os/process.h"
#include "common/tensorboard/run_events.h"
#include "worker/agent/child_launch.h"
#include "worker/agent/run_directory.h"
#include "worker/agent/user_logs.h"

namespace strata::worker {
namespace {

std::optional<tensorboard::RunEvents> EventsOf(const proto::Job& job, const std::string& run_dir) {
  if (!job.tensorboard()) return std::nullopt;
  return tensorboard::RunEvents({.dir = run_dir, .job_text = JobToText(job)});
}

}  // namespace

JobProcesses::JobProcesses(EventLoop* loop, Options options, proto::StartNode start,
                           Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      start_(std::move(start)),
      callbacks_(std::move(callbacks)),
      run_dir_(ChooseRunDirectory(start_.record(), options_.runs_dir)),
      socket_name_(RandomSocketName()),
      core_(options_.daemon, start_, run_dir_, options_, callbacks_.admit, clock_.Now()),
      metrics_(MetricsFile(run_dir_), ResumedMetricsStep(start_.record()),
               EventsOf(start_.record().job(), run_dir_)),
      children_(core_.life().children()),
      timers_(loop) {}

JobProcesses::~JobProcesses() {
  for (Child& child : children_) {
    if (child.process != nullptr) loop_->Unwatch(child.process->pid_fd());
    if (child.channel != nullptr) loop_->Unwatch(child.channel->fd());
  }
}

void JobProcesses::Start() {
  core_.Start(clock_.Now());
  Do();
}

void JobProcesses::Run(const proto::RunNode& run) {
  core_.Run(run, clock_.Now());
  Do();
}

void JobProcesses::Tell(const proto::AgentMessage& message) {
  core_.Tell(message);
  Do();
}

void JobProcesses::Measure(const proto::MeasureLink& measure) {
  core_.Measure(measure);
  Do();
}

void JobProcesses::Stop() {
  core_.Stop(clock_.Now());
  Do();
}

void JobProcesses::SignalRanks(int signal) {
  for (size_t child = 0; child < children_.size(); ++child) {
    const std::unique_ptr<Process>& process = children_[child].process;
    if (process == nullptr || core_.life().is_aggregator(static_cast<int>(child))) continue;
    process->Signal(signal);
  }
}

void JobProcesses::Die(const std::string& reason) {
  core_.Fail(reason, clock_.Now(), /*is_death=*/true);
  Do();
}

void JobProcesses::RepeatReady() {
  core_.RepeatReady();
  Do();
}

void JobProcesses::Append(const proto::MetricsRecord& record) {
  // Another node may have written lines before, possibly to this file.
  const bool among_others = IsElastic(start_.record().job());
  const absl::Status status =
      among_others ? metrics_.AppendAmongOthers(record) : metrics_.Append(record);
  if (!status.ok()) core_.OnMetricsFailed(status, clock_.Now());
  if (metrics_.final_written()) core_.OnFinalMetrics();
  Do();
}

proto::NodeActivity JobProcesses::Activity() const {
  const auto state_of = [this](int child) {
    const std::unique_ptr<Process>& process = children_[child].process;
    return process == nullptr ? std::string() : ProcessState(process->pid());
  };
  proto::NodeActivity activity = core_.watch().Now(state_of, clock_.Now());
  for (int r = 0; r < activity.ranks_size(); ++r) {
    const std::unique_ptr<Process>& process = children_[r].process;
    if (process != nullptr) activity.mutable_ranks(r)->set_cpu_ms(ProcessCpuMs(process->pid()));
  }
  activity.set_attempt(attempt());
  activity.set_incarnation(core_.incarnation());
  return activity;
}

void JobProcesses::Do() {
  for (auto actions = core_.TakeActions(); !actions.empty(); actions = core_.TakeActions()) {
    for (const JobProcessesCore::Action& action : actions) Perform(action);
  }
  ArmTimer();
}

void JobProcesses::Perform(const JobProcessesCore::Action& action) {
  if (std::holds_alternative<JobProcessesCore::Claim>(action)) {
    core_.OnClaimed(ClaimAll(), clock_.Now());
  } else if (std::holds_alternative<JobProcessesCore::StartChildren>(action)) {
    if (absl::Status status = StartAll(); !status.ok()) core_.OnStartFailed(status, clock_.Now());
  } else if (const auto* up = std::get_if<JobProcessesCore::SendUp>(&action)) {
    callbacks_.send(up->message);
  } else if (const auto* down = std::get_if<JobProcessesCore::SendDown>(&action)) {
    SendDown(down->message);
  } else if (const auto* kill = std::get_if<JobProcessesCore::SignalChildren>(&action)) {
    for (Child& child : children_) {
      if (child.process != nullptr) child.process->Signal(kill->signal);
    }
  } else {
    callbacks_.on_gone();
  }
}

// An armed timer stays armed: if it fires too early, it only checks.
void JobProcesses::ArmTimer() {
  if (core_.due() >= timer_due_) return;
  timer_due_ = core_.due();
  timers_.After(timer_due_ - clock_.Now(), [this] {
    timer_due_ = absl::InfiniteFuture();
    core_.OnTime(clock_.Now());
    Do();
  });
}

absl::Status JobProcesses::ClaimAll() {
  if (start_.record().job().device() == proto::Job::GPU && gpus_.empty()) {
    absl::StatusOr<std::vector<uint32_t>> gpus = callbacks_.take_gpus();
    if (!gpus.ok()) return gpus.status();
    gpus_ = *std::move(gpus);
  }
  const proto::LogicalNode& self = core_.self();
  absl::Status below = CheckRunDirectory(run_dir_, options_.runs_dir);
  if (!below.ok()) return below;
  absl::StatusOr<UniqueFd> claim =
      PrepareRunDirectory(run_dir_, start_.record(), self.node(), self.first_rank() == 0,
                          options_.run_access, start_.incarnation());
  if (!claim.ok()) return claim.status();
  claim_ = *std::move(claim);
  absl::Status owned = UserLogs::SetOwner(run_dir_, start_.owner());
  if (!owned.ok()) return owned;
  // The metrics of the node's earlier processes are there.
  return start_.incarnation() > 1 && self.first_rank() == 0 ? metrics_.GoOn() : absl::OkStatus();
}

absl::Status JobProcesses::StartAll() {
  absl::Status status;
  // Ranks' channels get the lower descriptors: if a rank and the aggregator both fail within one
  // poll, the rank's message is read first.
  std::vector<int> theirs(children_.size(), -1);
  for (size_t i = 0; i < children_.size() && status.ok(); ++i) {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
      status = absl::ErrnoToStatus(errno, "cannot make a socket pair");
      break;
    }
    children_[i].channel = std::make_unique<Channel>(fds[0]);
    theirs[i] = fds[1];
    WatchChannel(static_cast<int>(i));
  }
  const RankThreads threads =
      ThreadsOfRanks(MakeLaunch(0), start_.ranks_on_machine(), OwnEnvironment());
  LogInfo("job %d node %d: %s with %s", start_.record().job_id(), core_.self().node(),
          Counted(core_.self().ranks(), "rank"), threads.text);
  // The aggregator first: ranks connect to it.
  for (size_t i = children_.size(); i-- > 0 && status.ok();) {
    status = StartChild(static_cast<int>(i), theirs[i], threads.environment);
  }
  for (int fd : theirs) {
    if (fd >= 0) close(fd);
  }
  return status;
}

proto::Launch JobProcesses::MakeLaunch(int child) const {
  proto::Launch launch = LaunchOfNode(start_, core_.self());
  launch.set_node_name(options_.daemon);
  if (!core_.life().is_aggregator(child)) {
    launch.set_rank(core_.self().first_rank() + child);
    launch.set_local_rank(child);
    launch.mutable_record()->clear_secret();  // only aggregators exchange frames
  }
  if (core_.has_aggregator()) launch.set_aggregator_socket(socket_name_);
  *launch.mutable_listen() = options_.listen;
  launch.set_run_dir(run_dir_);
  if (!gpus_.empty()) launch.set_device_plugin(options_.device_plugin);
  for (const uint32_t gpu : gpus_) launch.add_devices(gpu);
  return launch;
}

absl::Status JobProcesses::StartChild(int child, int theirs, const std::string& threads) {
  const proto::Launch content = MakeLaunch(child);
  absl::StatusOr<UniqueFd> launch = LaunchFile(content);
  if (!launch.ok()) return launch.status();
  Process::Spec spec;
  const proto::Job& job = start_.record().job();
  const bool is_aggregator = core_.life().is_aggregator(child);
  spec.args = ChildArguments(job, is_aggregator);
  const bool own_program = !is_aggregator && job.has_program();
  if (own_program) {
    spec.environment = ChildEnvironment(content);
    // Otherwise libraries would use all cores in each rank.
    if (!threads.empty()) spec.default_environment = {threads};
  } else {
    spec.executable = options_.binary;
  }
  const proto::LogicalNode& self = core_.self();
  spec.log_path = is_aggregator ? AggregatorLog(run_dir_, self.node())
                                : RankLog(run_dir_, self.first_rank() + child);
  if (options_.run_access == RunAccess::kByUmask) spec.log_mode = 0666;
  spec.ends_descendants = true;
  spec.log_bytes_max = job.rank_log_bytes() > 0 ? job.rank_log_bytes() : kRankLogBytes;
  spec.descriptors = {{theirs, kChannelFd}, {launch->get(), kLaunchFd}};
  children_[child].log_path = spec.log_path;
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  children_[child].process = std::move(*process);
  loop_->Watch(children_[child].process->pid_fd(), POLLIN, [this, child](short) { OnEnd(child); });
  core_.OnStarted();
  return absl::OkStatus();
}

void JobProcesses::WatchChannel(int child) {
  Channel& channel = *children_[child].channel;
  short events = channel.wants_flush() ? POLLIN | POLLOUT : POLLIN;
  loop_->Watch(channel.fd(), events, [this, child](short) { OnChannel(child); });
}

void JobProcesses::OnChannel(int child) {
  Channel* channel = children_[child].channel.get();
  if (channel == nullptr) return;
  channel->Flush();
  auto messages = channel->Receive();
  if (messages.ok()) {
    WatchChannel(child);
    for (const std::string& bytes : *messages) core_.OnChildMessage(child, bytes, clock_.Now());
  } else {
    loop_->Unwatch(channel->fd());
    // Closed: its exit, which tells the rest, shows on its pid_fd.
    if (absl::IsOutOfRange(messages.status())) return;
    core_.OnUnreadable(child, messages.status(), clock_.Now());
  }
  Do();
}

void JobProcesses::OnEnd(int child) {
  Child& ended = children_[child];
  auto status = ended.process->TryReap();
  if (!status.has_value()) return;
  loop_->Unwatch(ended.process->pid_fd());
  OnChannel(child);  // its last messages,
  OnChannel(child);  // and whether they were complete
  std::string words(absl::StripPrefix(LastLine(ended.log_path), "strata: error: "));
  core_.OnExit(child, *status, words, clock_.Now());
  Do();
}

void JobProcesses::SendDown(const proto::AgentMessage& message) {
  const int child = core_.has_aggregator() ? static_cast<int>(core_.self().ranks()) : 0;
  if (child >= static_cast<int>(children_.size()) || children_[child].channel == nullptr) return;
  children_[child].channel->Send(message);
  WatchChannel(child);
}

}  // namespace strata::worker
