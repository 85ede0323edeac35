#include "server/coordinator/jobs/daemon_commands.h"

#include <cstdint>

#include "common/require.h"
#include "server/coordinator/placement/shard_homes.h"

namespace strata::server {

void DaemonCommands::SendStart(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  proto::StartNode* start = message.mutable_start_node();
  *start->mutable_record() = entry.stored.record();
  // A node that is replaced hears of them as all do, with RunNode.
  start->mutable_record()->clear_layout();
  start->mutable_record()->clear_placement();
  start->set_node(node.node);
  start->set_incarnation(node.incarnation);
  SendTo(node.daemon, message);
}

void DaemonCommands::SendMeasure(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  *message.mutable_measure_link()->mutable_record() = entry.stored.record();
  SendTo(node.daemon, message);
}

void DaemonCommands::SendInstall(const JobEntry& entry, const JobServer& server) {
  proto::CoordinatorMessage message;
  *message.mutable_install_job()->mutable_record() = entry.stored.record();
  for (uint32_t shard : server.job_shards) message.mutable_install_job()->add_own_shards(shard);
  for (const proto::OwnBackup& backup : server.backups) {
    *message.mutable_install_job()->add_own_backups() = backup;
  }
  SendTo(server.daemon, message);
}

void DaemonCommands::SendRun(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  *message.mutable_run_node()->mutable_record() = entry.stored.record();
  SendTo(node.daemon, message);
}

void DaemonCommands::SendMove(const JobEntry& entry, ShardId shard, const std::string& daemon) {
  proto::CoordinatorMessage message;
  *message.mutable_move_shard() = PlaceOf(entry.stored.record(), shard);
  SendTo(daemon, message);
}

void DaemonCommands::SendMetrics(const JobEntry& entry, const proto::MetricsRecord& record) {
  STRATA_REQUIRE(!entry.nodes.empty());
  if (!entry.nodes[0].ready) return;
  proto::CoordinatorMessage message;
  message.mutable_job_metrics()->set_job_id(entry.id().value());
  *message.mutable_job_metrics()->mutable_record() = record;
  SendTo(entry.nodes[0].daemon, message);
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

void DaemonCommands::SendTo(const std::string& daemon, const proto::CoordinatorMessage& message) {
  const Daemon* found = membership_->Find(daemon);
  if (found == nullptr || found->session == SessionId()) return;
  actions_->Send(found->session, message);
}

}  // namespace strata::server
