#include "server/testing/fake_daemon.h"

#include <algorithm>
#include <utility>

namespace strata::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr uint64_t kElements = 1000;

uint32_t CommandedJob(const proto::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case proto::CoordinatorMessage::kInstallJob:
      return message.install_job().record().job_id();
    case proto::CoordinatorMessage::kRemoveJob:
      return message.remove_job().job_id();
    case proto::CoordinatorMessage::kStartNode:
      return message.start_node().record().job_id();
    case proto::CoordinatorMessage::kRunNode:
      return message.run_node().record().job_id();
    case proto::CoordinatorMessage::kStopNode:
      return message.stop_node().job_id();
    case proto::CoordinatorMessage::kJobMetrics:
      return message.job_metrics().job_id();
    default:
      return 0;
  }
}

proto::NodeReady Ready(uint32_t job) {
  proto::NodeReady ready;
  ready.set_job_id(job);
  ready.set_samples_per_epoch(1280);
  ready.set_total_steps(100);
  ready.set_run_dir("/runs/job");
  ready.mutable_layout()->set_elements(kElements);
  proto::Segment* segment = ready.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(kElements);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return ready;
}

}  // namespace

proto::Register FakeDaemon::Worker(const std::string& name, uint32_t slots) {
  proto::Register registration;
  registration.set_role(proto::WORKER);
  registration.set_name(name);
  registration.set_address("127.0.0.1");
  registration.set_slots(slots);
  return registration;
}

proto::Register FakeDaemon::Server(const std::string& name, std::vector<uint32_t> ports) {
  proto::Register registration;
  registration.set_role(proto::SERVER);
  registration.set_name(name);
  registration.set_address("127.0.0.1");
  for (uint32_t port : ports) registration.add_shard_ports(port);
  return registration;
}

FakeDaemon::FakeDaemon(const std::string& coordinator, const proto::Register& registration,
                       keys::KeyFolder* keys)
    : FakeDaemon(
          coordinator, registration,
          control::Credentials::File(keys->PathOf(
              registration.role() == proto::SERVER ? keys::Role::kServer : keys::Role::kWorker,
              registration.name()))) {}

FakeDaemon::FakeDaemon(const std::string& coordinator, proto::Register registration,
                       control::Credentials credentials)
    : name_(registration.name()) {
  control::Session::Options options;
  options.coordinator = coordinator;
  options.credentials = std::move(credentials);
  options.registration = std::move(registration);
  options.connect_deadline = absl::Seconds(20);
  session_ = control::Session::Create(
      std::move(options),
      {.on_message = [this](const proto::CoordinatorMessage& message) { OnMessage(message); },
       .heartbeat = [] { return proto::Heartbeat(); },
       .running_jobs =
           [this] {
             absl::MutexLock lock(&mutex_);
             return std::vector<uint32_t>(running_.begin(), running_.end());
           },
       .on_line =
           [this](auto line) {
             if (on_line_) on_line_(std::move(line));
           },
       .on_lost =
           [this](const absl::Status& status) {
             absl::MutexLock lock(&mutex_);
             lost_ = status;
           }});
}

FakeDaemon::~FakeDaemon() { session_->Stop(); }

void FakeDaemon::OnMessage(const proto::CoordinatorMessage& message) {
  {
    absl::MutexLock lock(&mutex_);
    received_.push_back(message);
    if (message.has_start_node() || message.has_install_job())
      running_.insert(CommandedJob(message));
    if (message.has_stop_node() || message.has_remove_job()) running_.erase(CommandedJob(message));
  }
  proto::DaemonMessage reply;
  if (message.has_start_node()) {
    *reply.mutable_node_ready() = Ready(CommandedJob(message));
    Send(reply);
  } else if (message.has_install_job()) {
    reply.mutable_job_installed()->set_job_id(CommandedJob(message));
    Send(reply);
  } else if (message.has_try_peers()) {
    *reply.mutable_peers_tried()->mutable_peers() = message.try_peers().peers();
    Send(reply);
  } else if (message.has_run_node()) {
    Train(message.run_node());
  }
}

void FakeDaemon::Train(const proto::RunNode& run) {
  for (const proto::LogicalNode& node : run.record().view().nodes()) {
    for (uint32_t rank = node.first_rank(); rank < node.first_rank() + node.ranks(); ++rank) {
      proto::DaemonMessage message;
      proto::RankReport* report = message.mutable_rank_report();
      report->set_job_id(run.record().job_id());
      report->set_rank(rank);
      report->set_end_step(50);
      report->set_samples(640);
      report->set_loss_sum(640);
      report->set_wall_s(1);
      Send(message);  // reports of other nodes' ranks are not accepted from this one
    }
  }
}

void FakeDaemon::Finish(uint32_t job) {
  SetRunning({});
  proto::DaemonMessage message;
  message.mutable_node_finished()->set_job_id(job);
  Send(message);
}

bool FakeDaemon::WaitFor(proto::CoordinatorMessage::MessageCase kind, uint32_t job) {
  absl::MutexLock lock(&mutex_);
  const auto came = [this, kind, job] {
    mutex_.AssertHeld();
    return std::any_of(received_.begin(), received_.end(), [&](const auto& message) {
      return message.message_case() == kind && CommandedJob(message) == job;
    });
  };
  return mutex_.AwaitWithTimeout(absl::Condition(&came), kPatience);
}

int FakeDaemon::Count(proto::CoordinatorMessage::MessageCase kind) {
  absl::MutexLock lock(&mutex_);
  return std::count_if(received_.begin(), received_.end(),
                       [kind](const auto& message) { return message.message_case() == kind; });
}

std::optional<absl::Status> FakeDaemon::WaitLost() {
  absl::MutexLock lock(&mutex_);
  const auto is_lost = [this] {
    mutex_.AssertHeld();
    return lost_.has_value();
  };
  mutex_.AwaitWithTimeout(absl::Condition(&is_lost), kPatience);
  return lost_;
}

void FakeDaemon::SetRunning(std::set<uint32_t> jobs) {
  absl::MutexLock lock(&mutex_);
  running_ = std::move(jobs);
}

}  // namespace strata::server
