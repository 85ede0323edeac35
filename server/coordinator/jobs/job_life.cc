#include "server/coordinator/jobs/job_life.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/log.h"
#include "common/require.h"
#include "server/coordinator/jobs/go_on.h"
#include "server/coordinator/jobs/job_placer.h"

namespace strata::server {
namespace {

bool MayContinue(const JobEntry& entry, bool is_death, absl::Time now) {
  return server::MayContinue(entry.job(), entry.stored().status(),
                             is_death || entry.stored().resume().has_trained(), now);
}

}  // namespace

void JobLife::Start(const std::vector<RankBlock>& blocks, JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->queued());
  entry->SetView(blocks);
  if (entry->is_ring()) {
    const absl::Status status = CheckRing(*entry);
    if (!status.ok()) return Fail(std::string(status.message()), entry, now);
  }
  entry->BeginStarting(now);
  if (!SaveOrFail(entry, now)) return;
  for (const JobNode& node : entry->nodes()) commands_->SendStart(*entry, node);
  announcer_->TellStatus(entry);
}

void JobLife::Install(JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->stage() == JobStage::kStarting && entry->all_ready());
  if (entry->is_ring()) return InstallOnRing(entry, now);
  if (!entry->needs_servers()) return InstallOnServers({}, {}, entry, now);
  const JobPlacer::Verdict verdict = placer_->Choose(*entry, now);
  switch (verdict.kind) {
    case JobPlacer::Verdict::Kind::kWaits:
      return announcer_->SetReason(verdict.reason, entry);
    case JobPlacer::Verdict::Kind::kFails:
      return Fail(verdict.reason, entry, now);
    case JobPlacer::Verdict::Kind::kPlaced:
      break;
  }
  entry->SetLeftOut(verdict.left_out);
  if (!verdict.left_out.empty()) {
    announcer_->Warn(absl::StrFormat("job %d (%s) runs %s", entry->id().value(),
                                     entry->job().name(), verdict.left_out));
  }
  LogInfo("job %d (%s): placement %s", entry->id().value(), entry->job().name(),
          verdict.choice.reason);
  InstallOnServers(verdict.choice, verdict.others, entry, now);
}

void JobLife::InstallOnServers(const PlacementChoice& choice,
                               const std::vector<ServerShards>& others, JobEntry* entry,
                               absl::Time now) {
  const absl::Status placed = placer_->Place(choice, others, entry);
  if (!placed.ok()) return Fail(std::string(placed.message()), entry, now);
  if (choice.servers.empty()) return Train(entry, now);
  entry->BeginInstalling();
  announcer_->SetReason("waits for its servers", entry);
  for (const JobServer& server : entry->servers()) commands_->SendInstall(*entry, server);
}

void JobLife::InstallOnRing(JobEntry* entry, absl::Time now) {
  const absl::Status placed = placer_->PlaceOnRing(entry);
  if (!placed.ok()) return Fail(std::string(placed.message()), entry, now);
  const proto::Ring& ring = entry->stored().record().ring();
  if (ring.algorithm() != proto::AllReduce::AUTO) {
    *entry->status().mutable_ring() = ring;
    return Train(entry, now);
  }
  entry->BeginMeasuring();
  announcer_->SetReason("measures its links", entry);
  for (const JobNode& node : entry->nodes()) commands_->SendMeasure(*entry, node);
}

void JobLife::Train(JobEntry* entry, absl::Time now) {
  entry->BeginTraining(now);
  if (!SaveOrFail(entry, now)) return;
  for (const JobNode& node : entry->nodes()) commands_->SendRun(*entry, node);
  announcer_->TellStatus(entry);
}

bool JobLife::SaveOrFail(JobEntry* entry, absl::Time now) {
  const absl::Status saved = announcer_->Save(*entry);
  if (saved.ok()) return true;
  Fail(absl::StrCat("the coordinator cannot save the job: ", saved.message()), entry, now);
  return false;
}

void JobLife::Fail(const std::string& reason, JobEntry* entry, absl::Time now, bool is_death,
                   bool has_diverged) {
  const bool goes_on = entry->running() && MayContinue(*entry, is_death, now);
  if (!goes_on) {
    entry->status().set_has_diverged(has_diverged);
    return End(proto::FAILED, reason, entry, now);
  }
  NoteRestart(reason, entry, now);
  StartOver(absl::StrCat("goes on after it failed: ", reason), entry, now);
}

void JobLife::FailWithoutCheckpoint(const std::string& reason, JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->queued());
  if (!MayContinue(*entry, /*is_death=*/false, now)) return End(proto::FAILED, reason, entry, now);
  NoteRestart(reason, entry, now);
  entry->status().mutable_checkpoints()->mutable_passed_over()->RemoveLast();
  entry->status().set_reason(absl::StrCat("tries again: ", reason));
  announcer_->Save(*entry).IgnoreError();  // repeated
  announcer_->TellStatus(entry);
}

void JobLife::NoteRestart(const std::string& reason, JobEntry* entry, absl::Time now) {
  const absl::Duration delay = DelayBeforeGoingOn(entry->stored().status());
  proto::RestartStatus* restart = entry->status().add_restarts();
  restart->set_failed_ms(absl::ToUnixMillis(now));
  restart->set_reason(reason);
  proto::StoredResume* resume = entry->mutable_stored()->mutable_resume();
  resume->set_dir(entry->job().checkpoint().dir());
  resume->set_or_begin(true);
  resume->set_below(0);
  resume->set_not_before_ms(absl::ToUnixMillis(now + delay));
}

void JobLife::GoOnFromEarlier(const std::string& damage, JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->running() && entry->stored().record().has_resume());
  proto::StoredResume* resume = entry->mutable_stored()->mutable_resume();
  resume->set_below(entry->stored().record().resume().clock());
  entry->status().mutable_checkpoints()->add_passed_over(damage);
  StartOver(absl::StrCat("goes on from an earlier checkpoint: ", damage), entry, now);
}

void JobLife::FlushRecords(JobEntry* entry, absl::Time now) {
  if (!entry->stored().training()) return;
  announcer_->TellRecords(entry->metrics().Flush(entry->ElapsedSeconds(now)), entry);
}

void JobLife::TellToRelease(absl::Span<const JobNode> nodes, const std::vector<JobServer>& servers,
                            JobId job, const std::string& reason) {
  for (const JobNode& node : nodes) {
    if (!node.finished()) commands_->SendStop(node.daemon(), job, reason);
  }
  for (const JobServer& server : servers) commands_->SendRemove(server.daemon, job);
}

void JobLife::StartOver(const std::string& reason, JobEntry* entry, absl::Time now) {
  FlushRecords(entry, now);
  placer_->Forget(entry->id());
  announcer_->DropRecords(entry->id());
  const std::vector<JobNode> nodes(entry->nodes().begin(), entry->nodes().end());
  const std::vector<JobServer> servers = entry->servers();
  entry->Requeue(reason, new_secret_(), now);
  announcer_->Save(*entry).IgnoreError();  // repeated
  LogWarning("job %d (%s): attempt %d %s", entry->id().value(), entry->job().name(),
             entry->stored().record().attempt(), reason);
  TellToRelease(nodes, servers, entry->id(), reason);
  announcer_->TellStatus(entry);
}

void JobLife::End(proto::JobState state, const std::string& reason, JobEntry* entry,
                  absl::Time now) {
  STRATA_REQUIRE(!entry->ended());
  FlushRecords(entry, now);
  entry->End(state, reason, now);
  placer_->Forget(entry->id());
  announcer_->DropRecords(entry->id());
  announcer_->Save(*entry).IgnoreError();  // repeated
  LogInfo("job %d (%s): %s%s%s", entry->id().value(), entry->job().name(),
          proto::JobState_Name(state), reason.empty() ? "" : ": ", reason);
  TellToRelease(entry->nodes(), entry->servers(), entry->id(), reason);
  announcer_->TellStatus(entry);
}

void JobLife::OnNodeBack(bool holds, JobNode* node, JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(!node->finished());
  const bool starts = !node->ready() && (entry->stage() == JobStage::kStarting ||
                                         entry->stage() == JobStage::kTraining);
  node->ComeBack(holds || starts ? absl::InfiniteFuture() : now);
  if (starts) return commands_->SendStart(*entry, *node);
  if (entry->stage() == JobStage::kMeasuring && !node->link()) {
    return commands_->SendMeasure(*entry, *node);
  }
  if (entry->stage() != JobStage::kTraining || !holds) return;
  // For a replaced node, earlier processes have reported.
  const bool is_known_to_run =
      node->incarnation() == 1 && entry->metrics().HasReported(node->first_rank());
  if (!is_known_to_run) commands_->SendRun(*entry, *node);
  if (node == &entry->leader()) announcer_->SendRecordsAgain(*entry);
}

}  // namespace strata::server
