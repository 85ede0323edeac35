#include "worker/agent/job_processes.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/process/process_state.h"
#include "common/trace/trace_log.h"
#include "worker/agent/child_launch.h"
#include "worker/agent/metrics_line.h"
#include "worker/agent/run_directory.h"

namespace strata::worker {
namespace {

constexpr absl::Duration kClaimRetry = absl::Milliseconds(50);

std::string OneLine(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\n", " "}, {"\r", " "}});
}

}  // namespace

JobProcesses::JobProcesses(EventLoop* loop, Options options, proto::StartNode start,
                           Callbacks callbacks)
    : loop_(loop),
      options_(std::move(options)),
      start_(std::move(start)),
      callbacks_(std::move(callbacks)),
      run_dir_(RunDirectoryOf(start_.record(), options_.runs_dir)),
      socket_name_(RandomSocketName()) {
  for (const proto::LogicalNode& node : start_.record().view().nodes()) {
    if (node.node() == start_.node()) self_ = node;
  }
  life_ = std::make_unique<NodeLife>(options_.daemon, self_.node(), self_.first_rank(),
                                     static_cast<int>(self_.ranks()), has_aggregator());
  watch_ =
      std::make_unique<NodeWatch>(start_.record().job_id(), self_, has_aggregator(), clock_.Now());
  children_.resize(life_->children());
}

JobProcesses::~JobProcesses() {
  for (Child& child : children_) {
    if (child.process != nullptr) loop_->Unwatch(child.process->pid_fd());
    if (child.channel != nullptr) loop_->Unwatch(child.channel->fd());
  }
}

bool JobProcesses::has_aggregator() const {
  return start_.record().job().exchange() != proto::Job::NONE;
}

bool JobProcesses::none_left() const {
  return std::all_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.process == nullptr || child.process->TryReap().has_value();
  });
}

void JobProcesses::After(absl::Duration delay, std::function<void()> closure) {
  loop_->After(delay, [alive = std::weak_ptr<bool>(alive_), closure = std::move(closure)] {
    if (!alive.expired()) closure();
  });
}

void JobProcesses::Start() {
  if (self_.ranks() == 0) {
    return Fail(absl::StrCat("node ", start_.node(), " (", options_.daemon, "): node ",
                             start_.node(), " is not in the job's view"));
  }
  ClaimAndStart(absl::Now() + options_.claim_deadline);
}

absl::Status JobProcesses::Claim() {
  if (start_.record().job().device() == proto::Job::GPU && gpus_.empty()) {
    absl::StatusOr<std::vector<uint32_t>> gpus = callbacks_.take_gpus();
    if (!gpus.ok()) return gpus.status();
    gpus_ = *std::move(gpus);
  }
  absl::StatusOr<UniqueFd> claim =
      PrepareRunDirectory(run_dir_, start_.record(), self_.node(), self_.first_rank() == 0);
  if (claim.ok()) claim_ = *std::move(claim);
  return claim.status();
}

void JobProcesses::ClaimAndStart(absl::Time give_up) {
  if (told_) return;  // stopped while it waited
  absl::Status status = Claim();
  if (absl::IsUnavailable(status) && absl::Now() < give_up) {
    return After(kClaimRetry, [this, give_up] { ClaimAndStart(give_up); });
  }
  if (status.ok()) status = StartAll();
  if (status.ok()) return;
  Fail(absl::StrCat("node ", start_.node(), " (", options_.daemon, "): ", status.message()));
}

absl::Status JobProcesses::StartAll() {
  absl::Status status;
  // Ranks' channels get the lower descriptors: where a rank and the aggregator both fail within one
  // poll, the rank's line is read first.
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
  // The aggregator first: ranks connect to it.
  for (size_t i = children_.size(); i-- > 0 && status.ok();) {
    status = StartChild(static_cast<int>(i), theirs[i]);
  }
  for (int fd : theirs) {
    if (fd >= 0) close(fd);
  }
  return status;
}

proto::Launch JobProcesses::LaunchOf(int child) const {
  proto::Launch launch = LaunchOfNode(start_, self_);
  launch.set_node_name(options_.daemon);
  if (!life_->is_aggregator(child)) {
    launch.set_rank(self_.first_rank() + child);
    launch.set_local_rank(child);
  }
  if (has_aggregator()) launch.set_aggregator_socket(socket_name_);
  *launch.mutable_listen() = options_.listen;
  launch.set_run_dir(run_dir_);
  if (!gpus_.empty()) launch.set_device_plugin(options_.device_plugin);
  for (const uint32_t gpu : gpus_) launch.add_devices(gpu);
  return launch;
}

absl::Status JobProcesses::StartChild(int child, int theirs) {
  absl::StatusOr<UniqueFd> launch = LaunchFile(LaunchOf(child));
  if (!launch.ok()) return launch.status();
  Process::Spec spec;
  const proto::Job& job = start_.record().job();
  spec.args = ArgsOf(job, life_->is_aggregator(child));
  const bool own_program = !life_->is_aggregator(child) && job.has_program();
  if (!own_program) spec.executable = options_.binary;
  spec.log_path = life_->is_aggregator(child) ? AggregatorLog(run_dir_, self_.node())
                                              : RankLog(run_dir_, self_.first_rank() + child);
  spec.descriptors = {{theirs, kChannelFd}, {launch->get(), kLaunchFd}};
  children_[child].log_path = spec.log_path;
  auto process = Process::Start(spec);
  if (!process.ok()) return process.status();
  children_[child].process = std::move(*process);
  loop_->Watch(children_[child].process->pid_fd(), POLLIN, [this, child](short) { OnEnd(child); });
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
  if (!messages.ok()) {
    loop_->Unwatch(channel->fd());
    // Closed: its end, which tells the rest, is noticed on its pid_fd.
    if (absl::IsOutOfRange(messages.status())) return;
    // What it says from here on would be lost without a sign.
    life_->OnFailedLine(child, absl::StrCat("its messages to the worker daemon cannot be read: ",
                                            messages.status().message()));
    OnSymptom();
    return;
  }
  WatchChannel(child);
  for (const std::string& bytes : *messages) OnChildMessage(child, bytes);
}

void JobProcesses::OnChildMessage(int child, const std::string& bytes) {
  proto::ChildMessage message;
  if (!message.ParseFromString(bytes)) {
    life_->OnFailedLine(child, "sent a message that is not a ChildMessage");
    OnSymptom();
    return;
  }
  proto::DaemonMessage up;
  switch (message.message_case()) {
    case proto::ChildMessage::kReady:
      ready_ = message.ready();
      ready_.set_job_id(start_.record().job_id());
      ready_.set_run_dir(run_dir_);
      if (!Admit(ready_.layout(), {})) return;
      said_ready_ = true;
      watch_->OnReady(clock_.Now());
      RepeatReady();
      return;
    case proto::ChildMessage::kReport:
      final_reported_ = final_reported_ || message.report().final();
      watch_->OnReport(message.report(), clock_.Now());
      *up.mutable_rank_report() = message.report();
      up.mutable_rank_report()->set_job_id(start_.record().job_id());
      if (!told_) callbacks_.send(std::move(up));
      return;
    case proto::ChildMessage::kFailed:
      life_->OnFailedLine(child, OneLine(message.failed()));
      return OnSymptom();
    case proto::ChildMessage::kLost:
      if (!life_->is_aggregator(child)) return;
      life_->OnLostRank(message.lost().local_rank(), OneLine(message.lost().text()));
      return OnSymptom();
    case proto::ChildMessage::kMeasured:
      measured_ = message.measured();
      measured_->set_job_id(start_.record().job_id());
      *up.mutable_link_measured() = *measured_;
      if (!told_) callbacks_.send(std::move(up));
      return;
    case proto::ChildMessage::kActivity:
      if (life_->is_aggregator(child)) watch_->OnActivity(message.activity(), clock_.Now());
      return;
    case proto::ChildMessage::kTrace:
      *up.mutable_trace() = message.trace();
      up.mutable_trace()->set_job_id(start_.record().job_id());
      up.mutable_trace()->set_process(life_->ProcessName(child));
      // Also of a job that has failed: it tells what was before.
      callbacks_.send(std::move(up));
      return;
    case proto::ChildMessage::MESSAGE_NOT_SET:
      return;
  }
}

proto::NodeActivity JobProcesses::Activity() const {
  const auto state_of = [this](int child) {
    const std::unique_ptr<Process>& process = children_[child].process;
    return process == nullptr ? std::string() : ProcessState(process->pid());
  };
  return watch_->Now(state_of, clock_.Now());
}

bool JobProcesses::Admit(const proto::Layout& layout, const proto::Placement& placement) {
  const absl::Status admitted =
      callbacks_.admit ? callbacks_.admit(layout, placement) : absl::OkStatus();
  if (admitted.ok()) return true;
  Fail(absl::StrCat("node ", self_.node(), " (", options_.daemon, "): ", admitted.message()));
  return false;
}

void JobProcesses::RepeatReady() {
  if (!said_ready_ || told_) return;
  proto::DaemonMessage up;
  *up.mutable_node_ready() = ready_;
  callbacks_.send(std::move(up));
}

void JobProcesses::OnEnd(int child) {
  Child& ended = children_[child];
  auto status = ended.process->TryReap();
  if (!status.has_value()) return;
  loop_->Unwatch(ended.process->pid_fd());
  OnChannel(child);  // its last words,
  OnChannel(child);  // and whether they were whole
  std::string words(absl::StripPrefix(LastLine(ended.log_path), "strata: error: "));
  life_->OnExit(child, *status, words);
  if (life_->failed()) OnSymptom();
  if (life_->only_aggregator_left()) {
    After(options_.end_deadline, [this] {
      if (life_->gone() || stopping_) return;
      Fail(absl::StrCat(life_->NameOf(static_cast<int>(self_.ranks())),
                        ": did not end after its ranks had"));
    });
  }
  if (none_left()) OnAllGone();
}

void JobProcesses::OnSymptom() {
  if (told_) return;
  if (collected_ && !life_->awaits_cause()) return Fail(life_->Reason());
  if (collecting_) return;
  collecting_ = true;
  After(options_.symptom_time, [this] {
    collected_ = true;
    if (!life_->awaits_cause()) return OnSymptom();
    After(options_.cause_time, [this] { Fail(life_->Reason()); });
  });
}

void JobProcesses::OnAllGone() {
  if (told_) return Gone();
  if (life_->failed()) return;  // OnSymptom's timer tells
  bool awaits_metrics = self_.first_rank() == 0 && final_reported_ && !final_measured_;
  if (!awaits_metrics) return FinishWhenMeasured();
  After(options_.final_metrics_deadline, [this] { FinishWhenMeasured(); });
}

void JobProcesses::FinishWhenMeasured() {
  if (told_) return;
  told_ = true;
  proto::DaemonMessage up;
  up.mutable_node_finished()->set_job_id(start_.record().job_id());
  callbacks_.send(std::move(up));
  Gone();
}

void JobProcesses::Fail(const std::string& reason) {
  if (!told_) {
    told_ = true;
    proto::DaemonMessage up;
    up.mutable_node_failed()->set_job_id(start_.record().job_id());
    up.mutable_node_failed()->set_reason(reason);
    callbacks_.send(std::move(up));
  }
  StopChildren();
}

void JobProcesses::Stop() {
  told_ = true;
  StopChildren();
}

void JobProcesses::StopChildren() {
  if (none_left()) return Gone();
  if (stopping_) return;
  stopping_ = true;
  for (Child& child : children_) {
    if (child.process != nullptr) child.process->Signal(SIGTERM);
  }
  After(options_.stop_grace, [this] {
    for (Child& child : children_) {
      if (child.process != nullptr) child.process->Signal(SIGKILL);
    }
  });
}

void JobProcesses::Run(const proto::RunNode& run) {
  if (told_to_run_) return;
  told_to_run_ = true;
  if (!Admit(run.record().layout(), run.record().placement())) return;
  proto::AgentMessage message;
  *message.mutable_run() = run;
  Tell(message);
}

void JobProcesses::Measure(const proto::MeasureLink& measure) {
  if (measured_ && !told_) {
    proto::DaemonMessage up;
    *up.mutable_link_measured() = *measured_;
    return callbacks_.send(std::move(up));
  }
  if (told_to_measure_) return;
  told_to_measure_ = true;
  proto::AgentMessage message;
  *message.mutable_measure() = measure;
  Tell(message);
}

// With no aggregator the one rank hears it.
void JobProcesses::Tell(const proto::AgentMessage& message) {
  const int child = has_aggregator() ? static_cast<int>(self_.ranks()) : 0;
  if (child >= static_cast<int>(children_.size()) || children_[child].channel == nullptr) return;
  children_[child].channel->Send(message);
  WatchChannel(child);
}

void JobProcesses::Append(const proto::MetricsRecord& record) {
  const bool only_measured = record.final() && record.step() == last_step_;
  uint64_t& last_step = IsLateMeasurement(record) ? last_measured_step_ : last_step_;
  if (final_measured_ || (record.step() <= last_step && !only_measured)) return;
  last_step = record.step();
  absl::Status status = AppendLine(MetricsFile(run_dir_), MetricsLine(record));
  if (!status.ok()) {
    Fail(absl::StrCat("node ", self_.node(), " (", options_.daemon, "): ", status.message()));
    return;
  }
  if (!record.final()) return;
  final_measured_ = true;
  if (life_->finished()) FinishWhenMeasured();
}

void JobProcesses::Gone() {
  if (gone_) return;
  gone_ = true;
  if (IsTraced(start_.record().job())) {
    proto::DaemonMessage up;
    *up.mutable_trace() = TraceEnd(start_.record().job_id());
    callbacks_.send(std::move(up));
  }
  callbacks_.on_gone();
}

}  // namespace strata::worker
