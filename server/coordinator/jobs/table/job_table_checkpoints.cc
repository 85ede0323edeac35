// The part of JobTable that sees to checkpoints: what jobs write, and what they go on from.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/log.h"
#include "server/coordinator/checkpoints/go_on.h"
#include "server/coordinator/jobs/table/job_table.h"
#include "server/coordinator/jobs/views/view_layout.h"

namespace strata::server {
namespace {

// All that a job had written is of no use.
void ShowThatItBeginsAnew(JobEntry* entry) {
  if (!entry->status().has_checkpoints()) return;
  proto::CheckpointStatus* shown = entry->status().mutable_checkpoints();
  shown->clear_resumed_dir();
  shown->clear_resumed_step();
  shown->clear_complete();
  shown->clear_newest_step();
  shown->clear_newest_ms();
  shown->clear_newest_bytes();
}

// Later ones of the job itself are of no use any more.
void ShowNewest(const Manifest& manifest, uint64_t step, proto::CheckpointStatus* shown) {
  if (shown->newest_step() <= step) return;
  shown->set_newest_step(step);
  shown->set_newest_ms(absl::ToUnixMillis(manifest.written));
  uint64_t bytes = 0;
  for (const ObjectFacts& object : manifest.objects) bytes += object.bytes;
  shown->set_newest_bytes(bytes);
}

// Members of a namespace are told of its own jobs, those of the default one of all that are of no
// namespace that is known.
NamedJobs NamedFor(const JobEntry& reader, const std::map<JobId, JobEntry>& jobs) {
  const std::string& tenant = reader.stored.status().tenant();
  NamedJobs named{.all_but = tenant.empty()};
  for (const auto& [id, entry] : jobs) {
    const bool is_same = entry.stored.status().tenant() == tenant;
    if (is_same != named.all_but) named.listed.insert(id.value());
  }
  return named;
}

// Between looks into a store that does not answer.
constexpr absl::Duration kLookEvery = absl::Seconds(5);

}  // namespace

absl::StatusOr<std::string> JobTable::ResumeDir(const proto::ResumeFrom& resume,
                                                const Submitter& by) const {
  if (resume.job_id() == 0) {
    if (resume.dir().empty() || resume.dir()[0] == '/' || absl::StartsWith(resume.dir(), "s3://")) {
      return resume.dir();
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "resume: \"%s\" is neither an absolute path nor s3://BUCKET/PREFIX", resume.dir()));
  }
  const JobEntry* from = Find(JobId(resume.job_id()));
  if (from == nullptr || !by.Sees(from->owner().tenant)) {
    return absl::InvalidArgumentError(absl::StrFormat("resume: no job %d", resume.job_id()));
  }
  if (!from->job().has_checkpoint()) {
    return absl::InvalidArgumentError(absl::StrFormat("resume: job %d (%s) writes no checkpoints",
                                                      resume.job_id(), from->job().name()));
  }
  return from->job().checkpoint().dir();
}

absl::Status JobTable::CheckFolderIsFree(const proto::Job& job, const Submitter& by) const {
  if (!job.has_checkpoint()) return absl::OkStatus();
  for (const auto& [id, other] : jobs_) {
    if (other.ended() || other.job().checkpoint().dir() != job.checkpoint().dir()) continue;
    if (!by.Sees(other.owner().tenant)) {
      return absl::InvalidArgumentError(
          absl::StrFormat("checkpoint.dir: another job writes to %s", job.checkpoint().dir()));
    }
    return absl::InvalidArgumentError(absl::StrFormat("checkpoint.dir: job %d (%s) writes to %s",
                                                      id.value(), other.job().name(),
                                                      job.checkpoint().dir()));
  }
  return absl::OkStatus();
}

bool JobTable::HoldsBack(JobEntry* entry, absl::Time now) {
  const proto::StoredResume& resume = entry->stored.resume();
  if (!entry->awaits_checkpoint()) return absl::FromUnixMillis(resume.not_before_ms()) > now;
  // A manifest that is being written may make one more.
  if (entry->looks_for_checkpoint || entry->looks_again > now || entry->ledger.is_keeping()) {
    return true;
  }
  entry->looks_for_checkpoint = true;
  actions_->FindCheckpoint({.job = entry->id().value(),
                            .cluster = cluster_,
                            .own_dir = entry->job().checkpoint().dir(),
                            .resume_dir = resume.dir(),
                            .below = resume.below(),
                            .or_begin = resume.or_begin(),
                            .named = NamedFor(*entry, jobs_)});
  return true;
}

void JobTable::OnCheckpointFound(JobId job, const absl::StatusOr<CheckpointFound>& found,
                                 absl::Time now) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end() || !it->second.looks_for_checkpoint) return;
  JobEntry* entry = &it->second;
  entry->looks_for_checkpoint = false;
  if (!entry->awaits_checkpoint()) return;  // cancelled meanwhile
  proto::StoredResume* resume = entry->stored.mutable_resume();
  absl::Status status = found.status();
  if (status.ok() && !resume->dir().empty()) status = TakeCheckpoint(*found, entry);
  if (absl::IsNotFound(status) && resume->or_begin()) {
    const bool has_origin = !resume->origin_dir().empty() && resume->origin_dir() != resume->dir();
    if (entry->status().checkpoints().complete() > 0 && resume->below() == 0) {
      status = absl::UnavailableError(
          absl::StrCat(status.message(), ", where the job has written some: is the folder there?"));
    } else {
      status = absl::OkStatus();
      ShowThatItBeginsAnew(entry);
    }
    if (status.ok() && has_origin) {
      resume->set_dir(resume->origin_dir());
      resume->set_or_begin(false);
      return StartQueued(now);
    }
  }
  if (status.ok()) {
    resume->set_is_settled(true);
    if (std::exchange(entry->looks_again, absl::InfinitePast()) != absl::InfinitePast()) {
      entry->status().set_reason("has found its checkpoints");
    }
    announcer_.Save(*entry).IgnoreError();  // repeated
    announcer_.TellStatus(entry);
  } else if (absl::IsAborted(status)) {
    life_.FailWithoutCheckpoint(std::string(status.message()), entry, now);
  } else if (absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
             absl::IsDataLoss(status)) {
    life_.Fail(std::string(status.message()), entry, now);
  } else {
    entry->looks_again = now + kLookEvery;
    announcer_.SetReason(absl::StrCat("waits for its checkpoints: ", status.message()), entry);
  }
  StartQueued(now);
}

absl::Status JobTable::TakeCheckpoint(const CheckpointFound& found, JobEntry* entry) {
  const std::string& dir = entry->stored.resume().dir();
  if (absl::Status same = CheckGoesOn(entry->job(), found.record); !same.ok()) {
    const bool may_name =
        NamedFor(*entry, jobs_).Has(found.manifest.job, found.record.cluster() == cluster_);
    const std::string whose =
        may_name ? absl::StrFormat("job %d, %s", found.manifest.job, found.manifest.job_name)
                 : "another job";
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot go on from %s (%s): %s", dir, whose, same.message()));
  }
  absl::StatusOr<proto::Resume> resume = MakeResume(dir, found.manifest, found.record);
  if (!resume.ok()) return resume.status();
  proto::JobRecord goes_on = entry->stored.record();
  *goes_on.mutable_resume() = *resume;
  if (absl::Status fits = CheckHistory(found.record, goes_on); !fits.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cannot go on from %s: %s", dir, fits.message()));
  }
  *entry->stored.mutable_resume()->mutable_from() = found.record;
  proto::JobRecord* record = entry->stored.mutable_record();
  *record = std::move(goes_on);
  record->mutable_job()->set_chunk_elements(found.record.placement().chunk_elements());
  const uint64_t step = resume->step();
  proto::CheckpointStatus* shown = entry->status().mutable_checkpoints();
  shown->set_resumed_dir(dir);
  shown->set_resumed_step(step);
  if (dir == entry->job().checkpoint().dir()) ShowNewest(found.manifest, step, shown);
  for (const std::string& one : found.passed_over) {
    const auto& known = shown->passed_over();
    if (std::find(known.begin(), known.end(), one) == known.end()) shown->add_passed_over(one);
  }
  if (const int restarts = entry->status().restarts_size(); restarts > 0) {
    entry->status().mutable_restarts(restarts - 1)->set_step(step);
  }
  LogInfo("job %d (%s): goes on from step %d in %s", entry->id().value(), entry->job().name(), step,
          dir);
  return absl::OkStatus();
}

// Also of a job that has ended: the last one that it wrote tells where it stood.
void JobTable::OnCheckpointPart(const std::string& daemon, const proto::CheckpointPart& part,
                                absl::Time now) {
  const auto it = jobs_.find(JobId(part.job_id()));
  if (it == jobs_.end() || part.token() != it->second.stored.record().token()) return;
  JobEntry* entry = &it->second;
  std::string who;
  if (entry->ServerOn(daemon) != nullptr) {
    if (part.has_shard()) who = absl::StrCat("server ", daemon);
  } else if (const JobNode* node = entry->NodeOn(daemon)) {
    const bool is_slices = part.has_shard() && entry->is_ring() && part.shard() == node->node;
    const bool is_weights =
        part.has_shard() && RanksKeepWeights(entry->job()) && part.shard() == 0 && node->HasRank(0);
    if (is_slices || is_weights || (part.has_node() && part.node() == node->node))
      who = node->Describe();
    if (part.has_rank() && node->HasRank(part.rank())) {
      who = absl::StrFormat("rank %d on %s", part.rank(), daemon);
    }
  }
  if (who.empty()) return;
  entry->ledger.OnPart(who, part, entry->status().mutable_checkpoints());
  KeepIfWhole(entry, now);
  announcer_.AddNews(entry->id());
}

void JobTable::KeepIfWhole(JobEntry* entry, absl::Time now) {
  std::optional<CheckpointLedger::Whole> whole = entry->ledger.TakeWhole();
  if (!whole) return;
  actions_->KeepCheckpoint(
      MakeCheckpointToKeep(entry->id(), entry->job(), entry->ledger_record, *whole, now));
}

void JobTable::OnCheckpointKept(JobId job, uint64_t clock, const absl::Status& kept,
                                absl::Time now) {
  const auto it = jobs_.find(job);
  if (it == jobs_.end()) return;
  JobEntry* entry = &it->second;
  entry->ledger.OnKept(clock, kept, now, entry->status().mutable_checkpoints());
  const uint64_t step = clock * StepsPerClock(entry->job());
  if (kept.ok()) {
    LogInfo("job %d (%s): checkpoint of step %d is complete", job.value(), entry->job().name(),
            step);
  } else if (absl::IsOutOfRange(kept)) {
    LogInfo("job %d (%s): checkpoint of step %d: %s", job.value(), entry->job().name(), step,
            kept.message());
  } else {
    announcer_.Warn(absl::StrFormat("job %d (%s): checkpoint of step %d: %s", job.value(),
                                    entry->job().name(), step, kept.message()));
  }
  announcer_.Save(*entry).IgnoreError();  // repeated
  announcer_.AddNews(job);
  KeepIfWhole(entry, now);
  StartQueued(now);
}

}  // namespace strata::server
