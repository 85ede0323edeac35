#include "server/coordinator/jobs/daemon_commands.h"

#include <cstdint>

namespace strata::server {
namespace {

// Returns the job's record for its daemons. Ranks of those before protocol version 6 refuse a
// launch file with fields that are new to them; later worker daemons leave such fields out.
proto::JobRecord RecordFor(const JobEntry& entry) {
  proto::JobRecord record = entry.stored().record();
  proto::Job* const job = record.mutable_job();
  if (entry.protocol() < 5) job->clear_tensorboard();
  if (entry.protocol() < 6) {
    job->clear_rank_log_bytes();
    if (job->has_consistency()) job->mutable_consistency()->clear_preset_name();
  }
  return record;
}

}  // namespace

void DaemonCommands::SendStart(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  proto::StartNode* start = message.mutable_start_node();
  *start->mutable_record() = RecordFor(entry);
  // A replacement node gets it with RunNode, like all others.
  start->mutable_record()->clear_layout();
  start->mutable_record()->clear_placement();
  start->set_node(node.node());
  start->set_incarnation(node.incarnation());
  start->set_ranks_on_machine(RanksOnMachineOf(node.daemon()));
  start->set_owner(entry.owner().user);
  SendTo(node.daemon(), message);
}

void DaemonCommands::SendMeasure(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  *message.mutable_measure_link()->mutable_record() = RecordFor(entry);
  SendTo(node.daemon(), message);
}

void DaemonCommands::SendInstall(const JobEntry& entry, const JobServer& server) {
  proto::CoordinatorMessage message;
  *message.mutable_install_job()->mutable_record() = RecordFor(entry);
  for (uint32_t shard : server.job_shards) message.mutable_install_job()->add_own_shards(shard);
  for (const proto::OwnBackup& backup : server.backups) {
    *message.mutable_install_job()->add_own_backups() = backup;
  }
  SendTo(server.daemon, message);
}

void DaemonCommands::SendRun(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  *message.mutable_run_node()->mutable_record() = RecordFor(entry);
  SendTo(node.daemon(), message);
}

void DaemonCommands::SendPropose(const JobEntry& entry, const JobNode& node, uint32_t number) {
  proto::CoordinatorMessage message;
  proto::ProposeView* const propose = message.mutable_propose_view();
  propose->set_job_id(entry.id().value());
  propose->set_attempt(entry.stored().record().attempt());
  propose->set_number(number);
  SendTo(node.daemon(), message);
}

void DaemonCommands::SendChange(const proto::ViewChange& change, const std::string& daemon) {
  proto::CoordinatorMessage message;
  *message.mutable_change_view() = change;
  SendTo(daemon, message);
}

void DaemonCommands::SendStopRing(const JobEntry& entry, const JobNode& node, uint32_t number) {
  proto::CoordinatorMessage message;
  proto::StopRing* const stop = message.mutable_stop_ring();
  stop->set_job_id(entry.id().value());
  stop->set_attempt(entry.stored().record().attempt());
  stop->set_number(number);
  SendTo(node.daemon(), message);
}

void DaemonCommands::SendFormRing(const proto::FormRing& forming, const std::string& daemon) {
  proto::CoordinatorMessage message;
  *message.mutable_form_ring() = forming;
  SendTo(daemon, message);
}

void DaemonCommands::SendMove(const JobEntry& entry, ShardId shard, const std::string& daemon) {
  proto::CoordinatorMessage message;
  *message.mutable_move_shard() = PlaceOf(entry.stored().record(), entry.stored().status(), shard);
  SendTo(daemon, message);
}

void DaemonCommands::SendInstallBackup(const JobEntry& entry, ShardId shard) {
  const proto::JobShardStatus& home =
      entry.stored().status().shards(static_cast<int>(shard.value()));
  proto::CoordinatorMessage message;
  proto::InstallBackup* const install = message.mutable_install_backup();
  *install->mutable_record() = RecordFor(entry);
  install->mutable_backup()->set_thread(home.backup_shard());
  install->mutable_backup()->set_shard(shard.value());
  SendTo(home.backup(), message);
}

void DaemonCommands::SendInstallNext(const JobEntry& entry, ShardId shard) {
  const int index = static_cast<int>(shard.value());
  const proto::JobShardStatus& home = entry.stored().status().shards(index);
  proto::CoordinatorMessage message;
  proto::InstallBackup* const install = message.mutable_install_backup();
  *install->mutable_record() = RecordFor(entry);
  // The placement as it will be once the copy is the backup.
  proto::Placement* const placement = install->mutable_record()->mutable_placement();
  placement->set_backup_endpoints(index, home.next_endpoint());
  placement->set_shard_generations(index, home.next_generation());
  install->mutable_backup()->set_thread(home.next_backup_shard());
  install->mutable_backup()->set_shard(shard.value());
  SendTo(home.next_backup(), message);
}

void DaemonCommands::SendFillNext(const JobEntry& entry, ShardId shard, const std::string& server) {
  const proto::JobShardStatus& home =
      entry.stored().status().shards(static_cast<int>(shard.value()));
  proto::CoordinatorMessage message;
  proto::FillNext* const fill = message.mutable_fill_next();
  fill->set_job_id(entry.id().value());
  fill->set_attempt(entry.stored().record().attempt());
  fill->set_shard(shard.value());
  fill->set_generation(home.next_generation());
  fill->set_endpoint(home.next_endpoint());
  SendTo(server, message);
}

void DaemonCommands::SendFillNothing(const JobEntry& entry, const proto::BackupReport& report,
                                     const std::string& server) {
  proto::CoordinatorMessage message;
  proto::FillNext* const fill = message.mutable_fill_next();
  fill->set_job_id(entry.id().value());
  fill->set_attempt(entry.stored().record().attempt());
  fill->set_shard(report.shard());
  fill->set_generation(report.generation());
  SendTo(server, message);
}

void DaemonCommands::SendRemoveShard(const JobEntry& entry, const DroppedCopy& copy) {
  proto::CoordinatorMessage message;
  proto::RemoveShard* const remove = message.mutable_remove_shard();
  remove->set_job_id(entry.id().value());
  remove->set_attempt(entry.stored().record().attempt());
  remove->set_shard(copy.shard.value());
  remove->set_generation(copy.generation);
  SendTo(copy.server, message);
}

void DaemonCommands::SendMetrics(const JobEntry& entry, const proto::MetricsRecord& record) {
  const JobNode& leader = entry.leader();
  if (!leader.ready()) return;
  proto::CoordinatorMessage message;
  message.mutable_job_metrics()->set_job_id(entry.id().value());
  *message.mutable_job_metrics()->mutable_record() = record;
  SendTo(leader.daemon(), message);
}

void DaemonCommands::SendStop(const std::string& daemon, JobId job, const std::string& reason) {
  proto::CoordinatorMessage message;
  message.mutable_stop_node()->set_job_id(job.value());
  message.mutable_stop_node()->set_reason(reason);
  SendTo(daemon, message);
}

void DaemonCommands::SendRemove(const std::string& daemon, JobId job) {
  proto::CoordinatorMessage message;
  message.mutable_remove_job()->set_job_id(job.value());
  SendTo(daemon, message);
}

uint32_t DaemonCommands::RanksOnMachineOf(const std::string& daemon) const {
  const auto host_of = [this](const std::string& name) {
    const Daemon* const found = membership_->Find(name);
    return found == nullptr ? "" : found->registration.host();
  };
  const std::string machine = host_of(daemon);
  uint32_t ranks = 0;
  for (const auto& [id, entry] : *jobs_) {
    if (!entry.running()) continue;
    for (const JobNode& node : entry.nodes()) {
      if (node.finished() || node.daemon().empty()) continue;
      const bool is_here =
          node.daemon() == daemon || (!machine.empty() && host_of(node.daemon()) == machine);
      if (is_here) ranks += node.ranks();
    }
  }
  return ranks;
}

void DaemonCommands::SendTo(const std::string& daemon, const proto::CoordinatorMessage& message) {
  const Daemon* found = membership_->Find(daemon);
  if (found == nullptr || found->session == SessionId()) return;
  actions_->Send(found->session, message);
}

}  // namespace strata::server
