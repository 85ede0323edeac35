#include "server/coordinator/jobs/job_announcer.h"

#include "common/log.h"

namespace strata::server {

absl::Status JobAnnouncer::Save(const JobEntry& entry) {
  bool& is_unsaved = announced_[entry.id()].is_unsaved;
  const absl::Status saved = actions_->Persist(entry.stored());
  if (!saved.ok() && !is_unsaved) {
    LogError("job %d is not saved: %s", entry.id().value(), saved.ToString());
  }
  is_unsaved = !saved.ok();
  return saved;
}

void JobAnnouncer::SaveAgain(const JobEntry& entry) {
  if (announced_[entry.id()].is_unsaved) Save(entry).IgnoreError();  // repeated
}

void JobAnnouncer::TellStatus(JobEntry* entry) {
  entry->RefreshProgress();
  announced_[entry->id()].has_news = false;
  proto::FollowEvent event;
  *event.mutable_status() = entry->Shown();
  actions_->Notify(entry->id(), event);
}

void JobAnnouncer::SetReason(const std::string& reason, JobEntry* entry) {
  if (entry->status().reason() == reason) return;
  entry->status().set_reason(reason);
  TellStatus(entry);
}

void JobAnnouncer::TellNews(JobEntry* entry) {
  if (announced_[entry->id()].has_news) TellStatus(entry);
}

void JobAnnouncer::TellReport(JobId job, const proto::RankReport& report) {
  proto::FollowEvent event;
  *event.mutable_report() = report;
  actions_->Notify(job, event);
}

void JobAnnouncer::TellRecords(const std::vector<proto::MetricsRecord>& records, JobEntry* entry) {
  if (records.empty()) return;
  TellStatus(entry);
  std::deque<proto::MetricsRecord>& kept = announced_[entry->id()].records;
  for (const proto::MetricsRecord& record : records) {
    kept.push_back(record);
    if (kept.size() > records_max_) kept.pop_front();
    commands_->SendMetrics(*entry, record);
    proto::FollowEvent event;
    *event.mutable_metrics() = record;
    actions_->Notify(entry->id(), event);
  }
}

void JobAnnouncer::SendRecordsAgain(const JobEntry& entry) {
  for (const proto::MetricsRecord& record : announced_[entry.id()].records) {
    commands_->SendMetrics(entry, record);
  }
}

void JobAnnouncer::Forget(JobId job) {
  announced_.erase(job);
  actions_->Forget(job);
}

}  // namespace strata::server
