#include "server/testing/core_harness.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"

namespace strata::server {
namespace {

constexpr char kCluster[] = "cluster";
constexpr absl::Duration kStep = absl::Milliseconds(100);

std::string Text(const proto::CoordinatorMessage& message) {
  switch (message.message_case()) {
    case proto::CoordinatorMessage::kRegistered:
      return "Registered";
    case proto::CoordinatorMessage::kRejected:
      return absl::StrCat("Rejected: ", message.rejected().reason());
    case proto::CoordinatorMessage::kInstallJob:
      return absl::StrCat("InstallJob ", message.install_job().record().job_id());
    case proto::CoordinatorMessage::kRemoveJob:
      return absl::StrCat("RemoveJob ", message.remove_job().job_id());
    case proto::CoordinatorMessage::kStartNode:
      return absl::StrCat("StartNode ", message.start_node().record().job_id());
    case proto::CoordinatorMessage::kRunNode:
      return absl::StrCat("RunNode ", message.run_node().record().job_id());
    case proto::CoordinatorMessage::kMeasureLink:
      return absl::StrCat("MeasureLink ", message.measure_link().record().job_id());
    case proto::CoordinatorMessage::kMoveShard:
      return absl::StrCat("MoveShard ", message.move_shard().job_id(), " ",
                          message.move_shard().shard());
    case proto::CoordinatorMessage::kInstallBackup:
      return absl::StrCat("InstallBackup ", message.install_backup().record().job_id(), " ",
                          message.install_backup().backup().shard());
    case proto::CoordinatorMessage::kFillNext:
      return absl::StrCat(message.fill_next().endpoint().empty() ? "FillNothing " : "FillNext ",
                          message.fill_next().job_id(), " ", message.fill_next().shard());
    case proto::CoordinatorMessage::kRemoveShard:
      return absl::StrCat("RemoveShard ", message.remove_shard().job_id(), " ",
                          message.remove_shard().shard());
    case proto::CoordinatorMessage::kStopNode:
      return absl::StrCat("StopNode ", message.stop_node().job_id());
    case proto::CoordinatorMessage::kJobMetrics:
      return absl::StrCat("JobMetrics ", message.job_metrics().job_id());
    case proto::CoordinatorMessage::kTryPeers:
      return "TryPeers";
    case proto::CoordinatorMessage::kRenewed:
      return "Renewed";
    case proto::CoordinatorMessage::kProposeView:
      return absl::StrCat("ProposeView ", message.propose_view().job_id());
    case proto::CoordinatorMessage::kChangeView:
      return absl::StrCat("ChangeView ", message.change_view().job_id());
    case proto::CoordinatorMessage::kStopRing:
      return absl::StrCat("StopRing ", message.stop_ring().job_id(), " ",
                          message.stop_ring().number());
    case proto::CoordinatorMessage::kFormRing:
      return absl::StrCat("FormRing ", message.form_ring().job_id(), " ",
                          message.form_ring().change().number());
    case proto::CoordinatorMessage::MESSAGE_NOT_SET:
      break;
  }
  return "?";
}

}  // namespace

CoreHarness::CoreHarness(CoordinatorCore::Options options) : options_(options) { Restart(); }

void CoreHarness::Restart() {
  sessions_.clear();
  names_.clear();
  core_ =
      std::make_unique<CoordinatorCore>(options_, kCluster, static_cast<CoordinatorActions*>(this));
  std::vector<proto::StoredJob> jobs;
  for (const auto& [id, job] : stored_) jobs.push_back(job);
  core_->RestoreDraining(draining_);
  core_->Restore(jobs, next_job_id_, seen_, now_);
}

SessionId CoreHarness::JoinWorker(const std::string& name, uint32_t slots,
                                  const std::vector<uint32_t>& running, uint64_t daemon_id) {
  proto::Register registration;
  registration.set_role(proto::WORKER);
  registration.set_name(name);
  registration.set_slots(slots);
  return Join(std::move(registration), running, daemon_id);
}

SessionId CoreHarness::JoinStandIn(const std::string& name, uint32_t slots,
                                   const std::vector<uint32_t>& running) {
  proto::Register registration;
  registration.set_role(proto::WORKER);
  registration.set_name(name);
  registration.set_slots(slots);
  registration.set_stands_in(true);
  return Join(std::move(registration), running, /*daemon_id=*/0);
}

SessionId CoreHarness::JoinServer(const std::string& name, uint32_t shards,
                                  const std::vector<uint32_t>& running, uint64_t daemon_id,
                                  const std::string& address) {
  proto::Register registration;
  registration.set_address(address);
  registration.set_role(proto::SERVER);
  registration.set_name(name);
  for (uint32_t i = 0; i < shards; ++i) registration.add_shard_ports(5000 + i);
  return Join(std::move(registration), running, daemon_id);
}

SessionId CoreHarness::Join(proto::Register registration, const std::vector<uint32_t>& running,
                            uint64_t daemon_id) {
  const std::string name = registration.name();
  registration.set_protocol_version(protocols_.contains(name) ? protocols_.at(name)
                                                              : kProtocolVersion);
  if (registration.address().empty()) registration.set_address("host");
  registration.set_daemon_id(daemon_id == 0 ? std::hash<std::string>()(name) : daemon_id);
  registration.set_attempt(next_attempt_++);
  registration.set_host(hosts_[name].first);
  registration.set_link_bytes_per_s(hosts_[name].second);
  for (uint32_t i = 0; i < gpus_[name].first; ++i) {
    registration.add_gpus()->set_index(i);
    registration.set_ranks_per_gpu(gpus_[name].second);
  }
  for (uint32_t job : running) registration.add_running_jobs(job);
  const SessionId session(next_session_++);
  sessions_[name] = session;
  names_[session] = name;
  core_->OnConnected(session, now_);
  proto::DaemonMessage message;
  *message.mutable_register_() = std::move(registration);
  registered_[name] = message;
  core_->OnMessage(session, message, now_);
  AnswerTries();
  return session;
}

void CoreHarness::SetHost(const std::string& name, const std::string& host,
                          double link_bytes_per_s) {
  hosts_[name] = {host, link_bytes_per_s};
}

void CoreHarness::SetGpus(const std::string& name, uint32_t gpus, uint32_t ranks_per_gpu) {
  gpus_[name] = {gpus, ranks_per_gpu};
}

void CoreHarness::Repeat(const std::string& name, SessionId session) {
  core_->OnMessage(session, registered_[name], now_);
}

void CoreHarness::Disconnect(const std::string& name) {
  core_->OnDisconnected(sessions_[name], now_);
  names_.erase(sessions_[name]);
  sessions_.erase(name);
}

void CoreHarness::Advance(absl::Duration by, const std::string& silent) {
  for (const absl::Time end = now_ + by; now_ < end;) {
    now_ += std::min(kStep, end - now_);
    for (const auto& [name, session] : sessions_) {
      proto::DaemonMessage message;
      message.mutable_heartbeat();
      if (name != silent) core_->OnMessage(session, message, now_);
    }
    core_->Tick(now_);
    AnswerTries();
  }
}

void CoreHarness::SetReach(const std::string& worker, const std::string& address,
                           std::optional<std::string> error) {
  reach_[worker][address] = std::move(error);
}

void CoreHarness::AnswerTries() {
  for (auto& [worker, tries] : std::exchange(tries_, {})) {
    proto::DaemonMessage answer;
    for (const proto::PeerReach& peer : tries.peers()) {
      const auto& known = reach_[worker];
      const auto it = known.find(peer.address());
      if (it != known.end() && !it->second.has_value()) continue;
      proto::PeerReach* tried = answer.mutable_peers_tried()->add_peers();
      *tried = peer;
      if (it != known.end()) tried->set_error(*it->second);
    }
    if (answer.has_peers_tried() && sessions_.contains(worker)) Send(worker, answer);
  }
}

void CoreHarness::Stall(absl::Duration by) {
  now_ += by;
  core_->Tick(now_);
}

void CoreHarness::Send(const std::string& daemon, const proto::DaemonMessage& message) {
  core_->OnMessage(sessions_[daemon], message, now_);
}

void CoreHarness::Ready(const std::string& worker, uint32_t job) { Ready(worker, SomeLayout(job)); }

void CoreHarness::Ready(const std::string& worker, const proto::NodeReady& ready) {
  proto::DaemonMessage message;
  *message.mutable_node_ready() = ready;
  message.mutable_node_ready()->set_attempt(attempts_[ready.job_id()]);
  message.mutable_node_ready()->set_incarnation(incarnations_[{worker, ready.job_id()}]);
  Send(worker, message);
}

void CoreHarness::Installed(const std::string& server, uint32_t job, const std::string& error,
                            bool is_damaged) {
  proto::DaemonMessage message;
  message.mutable_job_installed()->set_job_id(job);
  message.mutable_job_installed()->set_attempt(attempts_[job]);
  message.mutable_job_installed()->set_error(error);
  message.mutable_job_installed()->set_is_damaged(is_damaged);
  Send(server, message);
}

void CoreHarness::WritePart(const std::string& server, uint32_t job, uint64_t clock, uint32_t shard,
                            const std::string& error) {
  proto::DaemonMessage message;
  proto::CheckpointPart* part = message.mutable_checkpoint_part();
  part->set_job_id(job);
  part->set_token(stored_[job].record().token());
  part->set_clock(clock);
  part->set_shard(shard);
  part->set_error(error);
  if (error.empty()) {
    part->mutable_object()->set_name(
        absl::StrFormat("clock-%020d/shard-%d-%d.%d", clock, shard, job, attempts_[job]));
    part->mutable_object()->set_bytes(100);
  }
  Send(server, message);
}

void CoreHarness::Finished(const std::string& worker, uint32_t job, std::optional<uint64_t> steps) {
  proto::DaemonMessage message;
  message.mutable_node_finished()->set_job_id(job);
  message.mutable_node_finished()->set_attempt(attempts_[job]);
  message.mutable_node_finished()->set_incarnation(incarnations_[{worker, job}]);
  if (steps) message.mutable_node_finished()->set_steps_made(*steps);
  Send(worker, message);
}

void CoreHarness::Failed(const std::string& worker, uint32_t job, const std::string& reason,
                         bool has_diverged) {
  proto::DaemonMessage message;
  message.mutable_node_failed()->set_job_id(job);
  message.mutable_node_failed()->set_attempt(attempts_[job]);
  message.mutable_node_failed()->set_incarnation(incarnations_[{worker, job}]);
  message.mutable_node_failed()->set_reason(reason);
  message.mutable_node_failed()->set_has_diverged(has_diverged);
  Send(worker, message);
}

void CoreHarness::Report(const std::string& worker, uint32_t job, uint32_t rank,
                         uint64_t end_step) {
  proto::DaemonMessage message;
  proto::RankReport* report = message.mutable_rank_report();
  report->set_job_id(job);
  report->set_attempt(attempts_[job]);
  report->set_rank(rank);
  report->set_first_step(end_step - 10);
  report->set_end_step(end_step);
  report->set_samples(100);
  report->set_loss_sum(200);
  report->set_wall_s(1);
  Send(worker, message);
}

void CoreHarness::SayActivity(const std::string& worker, uint32_t job, uint32_t node,
                              uint64_t steps, std::optional<uint64_t> rejoined_step) {
  proto::DaemonMessage message;
  proto::NodeActivity* activity = message.mutable_heartbeat()->add_nodes();
  activity->set_job_id(job);
  activity->set_attempt(attempts_[job]);
  activity->set_incarnation(incarnations_[{worker, job}]);
  activity->set_node(node);
  activity->add_ranks()->set_clock(steps);
  if (rejoined_step) activity->set_rejoined_step(*rejoined_step);
  Send(worker, message);
}

uint32_t CoreHarness::Train(const proto::Job& job, const std::vector<std::string>& workers,
                            const std::vector<std::string>& servers) {
  const uint32_t id = Submit(job);
  for (const std::string& worker : workers) Ready(worker, id);
  for (const std::string& server : servers) Installed(server, id);
  return id;
}

proto::Job CoreHarness::SomeJob(uint32_t ranks) {
  proto::Job job;
  job.set_name("job");
  job.mutable_program()->set_path("program");
  job.set_ranks(ranks);
  return job;
}

proto::NodeReady CoreHarness::SomeLayout(uint32_t job) {
  proto::NodeReady ready;
  ready.set_job_id(job);
  ready.set_samples_per_epoch(1000);
  ready.set_total_steps(100);
  ready.set_run_dir("/runs");
  ready.mutable_layout()->set_elements(1000);
  proto::Segment* segment = ready.mutable_layout()->add_segments();
  segment->set_name("w");
  segment->add_shape(1000);
  segment->set_lr_multiplier(1);
  segment->set_decay_multiplier(1);
  return ready;
}

uint32_t CoreHarness::Submit(const proto::Job& job, const std::string& resume_dir) {
  proto::ResumeFrom resume;
  resume.set_dir(resume_dir);
  return core_->Submit(job, resume, /*token=*/77, now_)->value();
}

proto::JobStatus CoreHarness::Status(uint32_t job) { return *core_->GetJob(JobId(job)); }

std::vector<std::string> CoreHarness::Sent(const std::string& daemon) {
  std::vector<std::string> texts;
  const std::vector<proto::CoordinatorMessage>& sent = sent_[daemon];
  for (size_t& i = returned_[daemon]; i < sent.size(); ++i) texts.push_back(Text(sent[i]));
  return texts;
}

proto::CoordinatorMessage CoreHarness::Newest(const std::string& daemon,
                                              proto::CoordinatorMessage::MessageCase kind) {
  proto::CoordinatorMessage newest;
  for (const proto::CoordinatorMessage& message : sent_[daemon]) {
    if (message.message_case() == kind) newest = message;
  }
  return newest;
}

bool CoreHarness::IsClosed(SessionId session) const {
  return std::find(closed_.begin(), closed_.end(), session) != closed_.end();
}

void CoreHarness::Send(SessionId session, const proto::CoordinatorMessage& message) {
  if (message.has_try_peers()) {
    tries_.emplace_back(names_.at(session), message.try_peers());
    return;
  }
  if (message.has_start_node()) {
    const proto::JobRecord& record = message.start_node().record();
    attempts_[record.job_id()] = record.attempt();
    incarnations_[{names_[session], record.job_id()}] = message.start_node().incarnation();
  }
  sent_[names_[session]].push_back(message);
}

void CoreHarness::Close(SessionId session) { closed_.push_back(session); }

absl::Status CoreHarness::Persist(const proto::StoredJob& job) {
  if (std::exchange(fail_persist_, false)) return absl::InternalError("disk full");
  stored_[job.record().job_id()] = job;
  next_job_id_ = std::max(next_job_id_, job.record().job_id() + 1);
  return absl::OkStatus();
}

absl::Status CoreHarness::PersistSeen(const std::vector<SeenRegistrations::Entry>& seen) {
  seen_.insert(seen_.end(), seen.begin(), seen.end());
  return absl::OkStatus();
}

absl::Status CoreHarness::PersistDraining(const std::vector<std::string>& daemons) {
  if (std::exchange(fail_persist_, false)) return absl::InternalError("disk full");
  draining_ = daemons;
  return absl::OkStatus();
}

absl::StatusOr<proto::DrainReply> CoreHarness::Drain(const std::string& daemon,
                                                     proto::DrainRequest::Action action) {
  proto::DrainRequest request;
  request.set_daemon(daemon);
  request.set_action(action);
  return core_->Drain(request, now_);
}

void CoreHarness::Forget(JobId job) { stored_.erase(job.value()); }

void CoreHarness::Notify(JobId, const proto::FollowEvent& event) { events_.push_back(event); }

}  // namespace strata::server
