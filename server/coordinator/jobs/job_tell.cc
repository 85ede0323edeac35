// The part of JobTable that tells others: daemons, followers and the store.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/log.h"
#include "server/coordinator/jobs/job_table.h"

namespace strata::server {

void JobTable::Publish(JobEntry* entry, const std::vector<proto::MetricsRecord>& records) {
  if (records.empty()) return;
  NotifyStatus(entry);
  for (const proto::MetricsRecord& record : records) {
    entry->recent.push_back(record);
    if (entry->recent.size() > options_.recent_max) entry->recent.pop_front();
    SendMetrics(*entry, record);
    proto::FollowEvent event;
    *event.mutable_metrics() = record;
    actions_->Notify(entry->id(), event);
  }
}

void JobTable::SendMetrics(const JobEntry& entry, const proto::MetricsRecord& record) {
  proto::CoordinatorMessage message;
  message.mutable_job_metrics()->set_job_id(entry.id().value());
  *message.mutable_job_metrics()->mutable_record() = record;
  SendTo(entry.nodes[0].daemon, message);
}

void JobTable::SendTo(const std::string& daemon, const proto::CoordinatorMessage& message) {
  const Daemon* found = membership_->Find(daemon);
  if (found == nullptr || found->session == SessionId()) return;
  actions_->Send(found->session, message);
}

void JobTable::SendStart(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  proto::StartNode* start = message.mutable_start_node();
  *start->mutable_record() = entry.stored.record();
  start->set_node(node.node);
  start->set_incarnation(1);
  SendTo(node.daemon, message);
}

void JobTable::SendInstall(const JobEntry& entry, const JobServer& server) {
  proto::CoordinatorMessage message;
  *message.mutable_install_job()->mutable_record() = entry.stored.record();
  for (uint32_t shard : server.job_shards) message.mutable_install_job()->add_own_shards(shard);
  SendTo(server.daemon, message);
}

void JobTable::SendMeasure(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  *message.mutable_measure_link()->mutable_record() = entry.stored.record();
  SendTo(node.daemon, message);
}

void JobTable::SendRun(const JobEntry& entry, const JobNode& node) {
  proto::CoordinatorMessage message;
  *message.mutable_run_node()->mutable_record() = entry.stored.record();
  SendTo(node.daemon, message);
}

void JobTable::SendStop(const std::string& daemon, JobId job, const std::string& reason) {
  proto::CoordinatorMessage message;
  message.mutable_stop_node()->set_job_id(job.value());
  message.mutable_stop_node()->set_reason(reason);
  SendTo(daemon, message);
}

void JobTable::SendRemove(const std::string& daemon, JobId job) {
  proto::CoordinatorMessage message;
  message.mutable_remove_job()->set_job_id(job.value());
  SendTo(daemon, message);
}

absl::Status JobTable::Save(JobEntry* entry) {
  const absl::Status saved = actions_->Persist(entry->stored);
  if (!saved.ok() && !entry->unsaved) {
    LogError("job %d is not saved: %s", entry->id().value(), saved.ToString());
  }
  entry->unsaved = !saved.ok();
  return saved;
}

std::string JobTable::NotSaved(const absl::Status& error) {
  return absl::StrCat("the coordinator cannot save the job: ", error.message());
}

void JobTable::NotifyStatus(JobEntry* entry) {
  entry->RefreshProgress();
  entry->has_news = false;
  proto::FollowEvent event;
  *event.mutable_status() = entry->status();
  entry->AddWaits(event.mutable_status());
  actions_->Notify(entry->id(), event);
}

void JobTable::SetReason(JobEntry* entry, const std::string& reason) {
  if (entry->status().reason() == reason) return;
  entry->status().set_reason(reason);
  NotifyStatus(entry);
}

}  // namespace strata::server
