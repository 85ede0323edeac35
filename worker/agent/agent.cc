#include "worker/agent/agent.h"

#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/control/session.h"
#include "common/os/descriptors.h"
#include "common/os/process_use.h"
#include "worker/agent/log_feed.h"
#include "worker/agent/run_directory.h"
#include "worker/aggregator/core/node_budget.h"
#include "worker/aggregator/device/gpu_budget.h"

namespace strata::worker {
namespace {

constexpr size_t kEndedJobsKept = 64;
constexpr absl::Duration kLookEvery = absl::Milliseconds(500);

std::vector<uint32_t> IndicesOf(const std::vector<proto::Gpu>& gpus) {
  std::vector<uint32_t> indices;
  for (const proto::Gpu& gpu : gpus) indices.push_back(gpu.index());
  return indices;
}

// Returns the ranks of this node.
uint32_t RanksOf(const proto::StartNode& start) {
  for (const proto::LogicalNode& node : start.record().view().nodes()) {
    if (node.node() == start.node()) return node.ranks();
  }
  return 0;
}

void Add(const transport::Refusals& refusals, transport::Refusals* sum) {
  for (const auto& [cause, count] : refusals) (*sum)[cause] += count;
}

}  // namespace

absl::Status AgentOptions::Validate() const {
  if (name.empty()) return absl::InvalidArgumentError("name: must not be empty");
  if (address.empty()) return absl::InvalidArgumentError("advertise: must not be empty");
  if (peer_port > 65535 || peer_port_last > 65535) {
    return absl::InvalidArgumentError(
        absl::StrCat("peer-port: ", std::max(peer_port, peer_port_last), " is not in 1 to 65535"));
  }
  if (slots < 1 || slots > kSlotsMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots: ", slots, " is not in 1 to ", kSlotsMax));
  }
  if (ranks_per_gpu < 1 || uint64_t{ranks_per_gpu} * gpus.size() > kSlotsMax) {
    return absl::InvalidArgumentError(absl::StrCat("ranks-per-gpu: ", ranks_per_gpu, " on ",
                                                   gpus.size(), " GPUs are not 1 to ", kSlotsMax,
                                                   " in all"));
  }
  if (runs_dir.empty()) return absl::InvalidArgumentError("runs: must not be empty");
  return limits.Validate();
}

absl::StatusOr<std::unique_ptr<Agent>> Agent::Create(
    AgentOptions options, std::function<void(const absl::Status&)> on_lost) {
  absl::Status valid = options.Validate();
  if (!valid.ok()) return valid;
  return std::unique_ptr<Agent>(new Agent(std::move(options), std::move(on_lost)));
}

Agent::Agent(AgentOptions options, std::function<void(const absl::Status&)> on_lost)
    : options_(std::move(options)),
      on_lost_(std::move(on_lost)),
      run_folders_(options_.runs_dir),
      user_logs_(options_.runs_dir),
      memory_(options_.limits.memory_bytes > 0 ? options_.limits.memory_bytes
                                               : DefaultMemoryLimitBytes()),
      gpu_slots_(IndicesOf(options_.gpus), options_.ranks_per_gpu),
      gpu_memory_(options_.gpus) {}

Agent::~Agent() { Stop(); }

proto::Register Agent::Registration() const {
  proto::Register registration;
  registration.set_role(proto::WORKER);
  registration.set_name(options_.name);
  registration.set_address(options_.address);
  registration.set_host(options_.link.host);
  registration.set_link_bytes_per_s(options_.link.bytes_per_s);
  registration.set_slots(options_.slots);
  registration.set_stands_in(options_.stands_in);
  for (const proto::Gpu& gpu : options_.gpus) *registration.add_gpus() = gpu;
  if (!options_.gpus.empty()) registration.set_ranks_per_gpu(options_.ranks_per_gpu);
  return registration;
}

absl::Status Agent::Start() {
  absl::Status descriptors = EnsureDescriptors(
      "strata worker",
      WorkerDescriptors(options_.slots, options_.shards_max, options_.open_logs_max));
  if (!descriptors.ok()) return descriptors;
  control::Session::Options session;
  session.coordinator = options_.coordinator;
  session.credentials = options_.credentials;
  session.connect_deadline = options_.connect_deadline;
  session.reconnect_deadline = options_.reconnect_deadline;
  session.registration = Registration();
  control::Session::Callbacks callbacks;
  callbacks.on_message = [this](const proto::CoordinatorMessage& message) {
    loop_.Post([this, message] { OnMessage(message); });
  };
  callbacks.heartbeat = [this] { return Heartbeat(); };
  callbacks.running_jobs = [this] {
    absl::MutexLock lock(&mutex_);
    return running_;
  };
  logs_offer_ = control::LogsOffer::Start({.worker = options_.name, .new_source = [this] {
                                             return std::make_unique<LogFeed>(
                                                 &run_folders_, options_.open_logs_max);
                                           }});
  callbacks.on_line = [this](auto line) { logs_offer_->OnLine(std::move(line)); };
  callbacks.on_lost = [this](const absl::Status& status) {
    loop_.Post(
        [this, status] { EndJobs(status.ToString(), [this, status] { on_lost_(status); }); });
  };
  session_ = control::Session::Create(std::move(session), std::move(callbacks));
  auto prober = PeerProber::Create({}, [this](proto::PeersTried tried) {
    proto::DaemonMessage message;
    *message.mutable_peers_tried() = std::move(tried);
    session_->Send(std::move(message));
  });
  if (!prober.ok()) return prober.status();
  prober_ = *std::move(prober);
  if (options_.passed_signals != nullptr) {
    loop_.Watch(options_.passed_signals->fd(), POLLIN, [this](short) { PassSignalsOn(); });
  }
  // Children die with the thread that starts them, which is the loop's.
  thread_ = std::thread([this] { loop_.Run(); });
  return session_->Start();
}

void Agent::Leave() {
  proto::DaemonMessage message;
  message.mutable_leaving();
  session_->Send(std::move(message));
}

bool Agent::is_idle() {
  absl::MutexLock lock(&mutex_);
  return running_.empty();
}

void Agent::Stop() {
  if (!thread_.joinable()) return;
  absl::Notification ended;
  loop_.Post([this, &ended] {
    EndJobs(absl::StrCat("worker ", options_.name, " was stopped"), [&ended] { ended.Notify(); });
  });
  ended.WaitForNotification();
  prober_->Stop();
  logs_offer_->Stop();
  session_->Stop();
  loop_.Stop();
  thread_.join();
}

void Agent::OnMessage(const proto::CoordinatorMessage& message) {
  proto::AgentMessage down;
  switch (message.message_case()) {
    case proto::CoordinatorMessage::kStartNode:
      return StartNode(message.start_node());
    case proto::CoordinatorMessage::kRunNode:
      if (auto* job = FindJob(message.run_node().record())) job->Run(message.run_node());
      return;
    case proto::CoordinatorMessage::kMeasureLink:
      if (auto* job = FindJob(message.measure_link().record()))
        job->Measure(message.measure_link());
      return;
    case proto::CoordinatorMessage::kMoveShard:
      *down.mutable_move_shard() = message.move_shard();
      return Tell(message.move_shard(), down);
    case proto::CoordinatorMessage::kProposeView:
      *down.mutable_propose_view() = message.propose_view();
      return Tell(message.propose_view(), down);
    case proto::CoordinatorMessage::kChangeView:
      *down.mutable_change_view() = message.change_view();
      return Tell(message.change_view(), down);
    case proto::CoordinatorMessage::kStopRing:
      *down.mutable_stop_ring() = message.stop_ring();
      return Tell(message.stop_ring(), down);
    case proto::CoordinatorMessage::kFormRing:
      *down.mutable_form_ring() = message.form_ring();
      return Tell(message.form_ring(), down);
    case proto::CoordinatorMessage::kStopNode:
      return StopNode(message.stop_node().job_id());
    case proto::CoordinatorMessage::kTryPeers:
      return prober_->Try(message.try_peers());
    case proto::CoordinatorMessage::kJobMetrics:
      return Append(message.job_metrics());
    default:
      return;  // for servers, or about the session itself
  }
}

void Agent::StartNode(const proto::StartNode& start) {
  uint32_t id = start.record().job_id();
  if (ending_) return;  // the end of the session fails the job
  const NodeProcesses wanted = NodeProcesses::Of(start);
  if (auto found = jobs_.find(id); found != jobs_.end()) {
    const NodeProcesses running = found->second->which();
    if (running == wanted) return found->second->RepeatReady();
    if (!wanted.Replaces(running)) return;
    // The previous processes are about to exit.
    found->second->Stop();
    const auto [next, is_new] = next_.try_emplace(id, start);
    if (!is_new && wanted.Replaces(NodeProcesses::Of(next->second))) next->second = start;
    return;
  }
  // A repeated command; the session reports again how the job ended here.
  const auto is_it = [&](const Ended& ended) {
    return ended.job == id && !wanted.Replaces(ended.processes);
  };
  if (std::any_of(ended_.begin(), ended_.end(), is_it)) return;
  JobProcesses::Options options;
  options.binary = options_.binary;
  options.daemon = options_.name;
  options.runs_dir = options_.runs_dir;
  options.run_access = options_.shares_runs ? RunAccess::kByUmask : RunAccess::kOwn;
  options.device_plugin = options_.device_plugin;
  options.listen.set_host(options_.listen.empty() ? options_.address : options_.listen);
  options.listen.set_advertise(options_.address);
  options.listen.set_port_first(options_.peer_port);
  options.listen.set_port_last(std::max(options_.peer_port, options_.peer_port_last));
  JobProcesses::Callbacks callbacks;
  callbacks.send = [this](proto::DaemonMessage message) {
    if (!message.has_trace()) return session_->Send(std::move(message));
    trace_sender_.Send(std::move(*message.mutable_trace()), session_.get());
  };
  callbacks.admit = [this, start](const proto::Job& job, const proto::Layout& layout,
                                  const proto::Placement& placement) {
    return Admit(start, job, layout, placement);
  };
  callbacks.take_gpus = [this, id, ranks = RanksOf(start)] {
    return gpu_slots_.Take(JobId(id), ranks);
  };
  callbacks.on_gone = [this, id] { loop_.Post([this, id] { Forget(id); }); };
  auto job = std::make_unique<JobProcesses>(&loop_, options, start, std::move(callbacks));
  JobProcesses* added = job.get();
  jobs_[id] = std::move(job);
  run_folders_.OnBegun(id, ChooseRunDirectory(start.record(), options_.runs_dir));
  {
    absl::MutexLock lock(&mutex_);
    running_.push_back(id);
  }
  added->Start();
  if (!looking_) Look();
}

void Agent::StopNode(uint32_t job) {
  next_.erase(job);
  if (auto found = jobs_.find(job); found != jobs_.end()) found->second->Stop();
}

void Agent::PassSignalsOn() {
  for (auto signal = options_.passed_signals->Next(); signal.has_value();
       signal = options_.passed_signals->Next()) {
    for (const auto& [id, job] : jobs_) job->SignalRanks(*signal);
  }
}

void Agent::Look() {
  std::vector<proto::NodeActivity> activities;
  transport::Refusals refusals = refusals_ended_;
  for (const auto& [id, job] : jobs_) {
    activities.push_back(job->Activity());
    activities.back().set_memory_limit_bytes(memory_.promised_bytes(JobId(id)));
    activities.back().set_gpu_memory_limit_bytes(gpu_memory_.promised_bytes(JobId(id)));
    Add(job->refusals(), &refusals);
  }
  looking_ = !jobs_.empty();
  if (looking_) loop_.After(kLookEvery, [this] { Look(); });
  absl::MutexLock lock(&mutex_);
  activities_ = std::move(activities);
  looked_at_ = clock_.Now();
  refusals_ = std::move(refusals);
}

proto::Heartbeat Agent::Heartbeat() {
  proto::Heartbeat heartbeat;
  absl::MutexLock lock(&mutex_);
  uint64_t memory_bytes = 0, promised_bytes = 0, gpu_bytes = 0, promised_gpu_bytes = 0;
  const int64_t age_ms = absl::ToInt64Milliseconds(clock_.Now() - looked_at_);
  for (const proto::NodeActivity& activity : activities_) {
    proto::NodeActivity* out = heartbeat.add_nodes();
    *out = activity;
    out->set_silent_ms(activity.silent_ms() + age_ms);
    memory_bytes += activity.memory_bytes();
    promised_bytes += activity.memory_limit_bytes();
    gpu_bytes += activity.gpu_memory_bytes();
    promised_gpu_bytes += activity.gpu_memory_limit_bytes();
  }
  const ProcessUse process = MeasureUse();
  control::AddResource("file descriptors", process.descriptors, process.descriptors_max,
                       &heartbeat);
  control::AddSessionResources(session_->use(), &heartbeat);
  control::AddResource("memory bytes", memory_bytes, memory_.limit_bytes(), &heartbeat);
  control::AddResource("promised memory bytes", promised_bytes, memory_.limit_bytes(), &heartbeat);
  if (!options_.gpus.empty()) {
    const uint64_t limit = gpu_memory_.limit_bytes();
    control::AddResource("GPU memory bytes", gpu_bytes, limit, &heartbeat);
    control::AddResource("promised GPU memory bytes", promised_gpu_bytes, limit, &heartbeat);
  }
  control::AddResource("resident bytes", process.resident_bytes, 0, &heartbeat);
  for (const auto& [cause, count] : refusals_) control::AddRefusal(cause, count, &heartbeat);
  return heartbeat;
}

absl::Status Agent::Admit(const proto::StartNode& start, const proto::Job& job,
                          const proto::Layout& layout, const proto::Placement& placement) {
  // A rank without an exchange has all of its memory to itself.
  if (job.exchange() == proto::Job::NONE) return absl::OkStatus();
  const JobId id(start.record().job_id());
  absl::Status status =
      memory_.Promise(id, NodeMemoryNeed(job, start.record().view().nodes_size(), layout.elements(),
                                         RanksOf(start), placement));
  if (!status.ok() || job.device() != proto::Job::GPU) return status;
  return gpu_memory_.Promise(
      id, MemoryByGpu(job, layout.elements(), gpu_slots_.TakenBy(id), placement));
}

void Agent::Append(const proto::JobMetrics& metrics) {
  auto found = jobs_.find(metrics.job_id());
  if (found != jobs_.end()) return found->second->Append(metrics.record());
  // The newest attempt's. The job is over: a failure can no longer be reported.
  const auto ended = std::find_if(ended_.rbegin(), ended_.rend(),
                                  [&](const Ended& one) { return one.job == metrics.job_id(); });
  if (ended == ended_.rend()) return;
  ended->metrics.AppendAfterEnd(metrics.record()).IgnoreError();
}

void Agent::Forget(uint32_t job) {
  auto found = jobs_.find(job);
  if (found == jobs_.end()) return;
  Add(found->second->refusals(), &refusals_ended_);
  ended_.push_back({job, found->second->which(), found->second->TakeMetrics()});
  if (ended_.size() > kEndedJobsKept) ended_.pop_front();
  const std::string owner = found->second->owner(), run_dir = found->second->run_dir();
  jobs_.erase(found);
  run_folders_.OnGone(job);
  user_logs_.OnEnded(owner, run_dir);
  memory_.Release(JobId(job));
  gpu_slots_.Release(JobId(job));
  gpu_memory_.Release(JobId(job));
  {
    absl::MutexLock lock(&mutex_);
    running_.erase(std::remove(running_.begin(), running_.end(), job), running_.end());
  }
  if (ending_ && jobs_.empty() && when_ended_) std::exchange(when_ended_, nullptr)();
  if (auto next = next_.find(job); next != next_.end()) {
    const proto::StartNode start = std::move(next->second);
    next_.erase(next);
    StartNode(start);
  }
}

void Agent::EndJobs(const std::string& reason, std::function<void()> then) {
  ending_ = true;
  if (jobs_.empty()) return then();
  when_ended_ = [first = std::move(when_ended_), then = std::move(then)] {
    if (first) first();
    then();
  };
  for (auto& [id, job] : jobs_) job->Die(reason);
}

}  // namespace strata::worker
