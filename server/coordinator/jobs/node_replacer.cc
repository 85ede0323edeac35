#include "server/coordinator/jobs/node_replacer.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "common/job/consistency.h"
#include "common/job/encoding.h"
#include "common/log.h"
#include "common/require.h"
#include "server/coordinator/jobs/job_node.h"
#include "server/coordinator/jobs/job_queue.h"

namespace strata::server {
namespace {

// Returns the newest replacement of a node.
proto::ReplacementStatus* NewestOf(const JobNode& node, JobEntry* entry) {
  auto* const all = entry->status().mutable_replacements();
  const auto newest = std::find_if(all->rbegin(), all->rend(),
                                   [&](const auto& one) { return one.node() == node.node(); });
  STRATA_REQUIRE(newest != all->rend());
  return &*newest;
}

// Returns the least step that the node is known to have reached.
uint64_t KnownStep(const JobNode& node, const JobEntry& entry) {
  return std::max(node.steps(), entry.metrics().SlowestStep(node.first_rank(), node.ranks()));
}

int64_t CountWithinAnHour(const JobEntry& entry, absl::Time now) {
  const auto& all = entry.stored().status().replacements();
  return std::count_if(all.begin(), all.end(), [&](const proto::ReplacementStatus& one) {
    return absl::FromUnixMillis(one.lost_ms()) > now - absl::Hours(1);
  });
}

std::string TimeOf(absl::Time time) {
  return absl::FormatTime("%H:%M:%S UTC", time, absl::UTCTimeZone());
}

// Returns whether the replacement is still starting: its worker is lost, too, or a stand-in lacks
// the room, before its processes train. That does not count as another death of the node.
bool IsUnderWay(const NodeReplacer::Loss& loss, const JobNode& node, const Membership& membership) {
  const bool may_fail = !loss.is_own_end || membership.StandsIn(node.daemon());
  return node.replaced() && !node.ready() && may_fail;
}

// Returns what is lost with a node's processes besides their step; empty: nothing.
std::string LostWithIt(const proto::Job& job) {
  std::string lost;
  if (NodesMakeLocalSteps(job) && StateVectors(MakeOptimizerParams(job.optimizer()).kind) > 0) {
    lost = "; its optimizer's state is lost, and begins with zeros";
  }
  if (IsEncoded(job.push())) {
    absl::StrAppend(&lost, "; what its ", EncodingName(job.push()), " pushes had left out is lost");
  }
  return lost;
}

// Drops the oldest replacements beyond the limit, but keeps those that count: of the last hour, and
// the newest of each node.
void DropOld(absl::Time now, JobEntry* entry) {
  constexpr int kKept = 100;
  auto* const all = entry->status().mutable_replacements();
  for (int i = 0; i < all->size() && all->size() > kKept;) {
    const bool counts = absl::FromUnixMillis(all->Get(i).lost_ms()) > now - absl::Hours(1);
    const bool has_newer = std::any_of(all->begin() + i + 1, all->end(), [&](const auto& other) {
      return other.node() == all->Get(i).node();
    });
    if (counts) return;
    if (has_newer) {
      all->DeleteSubrange(i, 1);
    } else {
      ++i;
    }
  }
}

// Describes which nodes do not train, and why; empty: all do.
std::string DescribeReplaced(const Membership& membership, const JobEntry& entry) {
  std::vector<std::string> texts;
  for (const JobNode& node : entry.nodes()) {
    if (node.ready() || node.finished() || !node.replaced()) continue;
    if (node.waits_for_worker()) {
      texts.push_back(absl::StrFormat("%s waits since %s for a worker with %s: %s",
                                      node.DescribeAlone(), TimeOf(node.waits_since()),
                                      Counted(node.ranks(), "free slot"), node.waits_for()));
      continue;
    }
    texts.push_back(
        absl::StrFormat("%s is begun again on worker %s%s", node.DescribeAlone(), node.daemon(),
                        membership.StandsIn(node.daemon()) ? ", which only stands in" : ""));
  }
  return absl::StrJoin(texts, "; ");
}

}  // namespace

std::string NodeReplacer::WhyNot(const Loss& loss, const JobNode& node, const JobEntry& entry,
                                 absl::Time now) const {
  if (!entry.job().has_replace() || entry.stage() != JobStage::kTraining || !entry.needs_servers())
    return loss.reason;
  const uint64_t step = KnownStep(node, entry);
  if (IsUnderWay(loss, node, *membership_)) return "";
  if (loss.is_own_end && node.died_at_step() && step <= *node.died_at_step()) {
    return absl::StrFormat("%s; it was begun again before, and has come no further than step %d",
                           loss.reason, step);
  }
  const int64_t lately = CountWithinAnHour(entry, now);
  if (lately < entry.job().replace().per_hour()) return "";
  return absl::StrFormat("%s; %s begun again within an hour, and replace.per_hour allows no more",
                         loss.reason,
                         lately == 1 ? "a node was" : absl::StrCat(lately, " nodes were"));
}

void NodeReplacer::OnLost(const Loss& loss, JobNode* node, JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->running() && !node->finished());
  const std::string why_not = WhyNot(loss, *node, *entry, now);
  if (!why_not.empty()) return life_->Fail(why_not, entry, now, loss.is_death);
  const std::string from = node->daemon();
  NoteLoss(loss, node, entry, now);
  announcer_->Warn(absl::StrFormat("job %d (%s): node %d is begun again: %s", entry->id().value(),
                                   entry->job().name(), node->node(),
                                   NewestOf(*node, entry)->reason()));
  const Look look = LookForWorkers(entry, now);
  const bool is_elsewhere = node->daemon() != from;
  const JobId id = entry->id();
  UpdateReason(entry);
  const bool is_saved = life_->SaveOrFail(entry, now);
  if (is_elsewhere) commands_->SendStop(from, id, loss.reason);
  if (!is_saved) return;
  TellDaemons(look.begun, *entry);
  announcer_->TellStatus(entry);
}

void NodeReplacer::ReplaceHung(JobEntry* entry, absl::Time now) {
  const std::optional<HungNode> hung = entry->waits().hung();
  if (!hung) return;
  const auto node =
      std::find_if(entry->nodes().begin(), entry->nodes().end(),
                   [&](const JobNode& one) { return one.node() == hung->node && one.ready(); });
  if (node == entry->nodes().end() || node->finished()) return;
  const std::string reason =
      absl::StrFormat("%s made no progress for %d s: all waited for %s", node->DescribeAlone(),
                      absl::ToInt64Seconds(hung->idle), hung->culprit);
  OnLost({.reason = reason, .is_own_end = true, .hangs = true}, &*node, entry, now);
}

void NodeReplacer::NoteLoss(const Loss& loss, JobNode* node, JobEntry* entry, absl::Time now) {
  proto::ReplacementStatus* shown = nullptr;
  const bool is_under_way = IsUnderWay(loss, *node, *membership_);
  if (is_under_way) {
    shown = NewestOf(*node, entry);
  } else {
    shown = entry->status().add_replacements();
    shown->set_node(node->node());
    shown->set_from(node->daemon());
  }
  shown->set_lost_ms(absl::ToUnixMillis(now));
  shown->set_reason(absl::StrCat(loss.reason, LostWithIt(entry->job())));
  shown->clear_to();
  DropOld(now, entry);
  if (loss.is_own_end && !is_under_way) node->SetDiedAt(KnownStep(*node, *entry));
  // Only its processes are gone, so its worker has room for it. If they failed to start, or hung,
  // another worker may do better.
  const bool is_at_fault = !node->ready() || loss.hangs;
  node->Prefer(loss.is_own_end && !is_at_fault ? node->daemon() : "");
  if (loss.is_own_end && is_at_fault) node->Avoid(node->daemon());
  node->Lose(now);
  entry->agreement().ForgetPromise(node->node());
  entry->waits().activity().ForgetNode(node->node());
  proto::JobNodeStatus* row = entry->status().mutable_nodes(static_cast<int>(node->node()));
  row->clear_memory_bytes();
  row->clear_memory_limit_bytes();
  row->clear_gpu_memory_bytes();
  row->clear_gpu_memory_limit_bytes();
  entry->StoreNode(*node);
}

NodeReplacer::Look NodeReplacer::LookForWorkers(JobEntry* entry, absl::Time now) const {
  Look look;
  for (JobNode& node : entry->nodes()) {
    if (!node.waits_for_worker()) continue;
    const SpareWorker spare = FindWorkerOrStandIn(node, *entry, *queue_, *reached_, now);
    if (spare.daemon.empty()) {
      node.WaitFor(spare.reason);
      look.waits_for_slots |= spare.waits_for_slots;
      const auto patience = absl::Seconds(entry->job().replace().patience_s());
      if (now - node.waits_since() < patience) continue;
      look.late = absl::StrFormat("%s; for %s no worker had room to begin the node again: %s",
                                  NewestOf(node, entry)->reason(), absl::FormatDuration(patience),
                                  spare.reason);
      continue;
    }
    node.BeginOn(spare.daemon);
    NewestOf(node, entry)->set_to(node.daemon());
    entry->StoreNode(node);
    look.begun.push_back(&node);
  }
  return look;
}

bool NodeReplacer::PlaceWaiting(bool may_return, JobEntry* entry, absl::Time now) {
  const bool waits = std::any_of(entry->nodes().begin(), entry->nodes().end(),
                                 [](const JobNode& node) { return node.waits_for_worker(); });
  if (!waits || entry->stage() != JobStage::kTraining) return false;
  const Look look = LookForWorkers(entry, now);
  if (!look.late.empty() && !may_return) {
    life_->Fail(look.late, entry, now);
    return false;
  }
  const bool has_news = UpdateReason(entry) || !look.begun.empty();
  if (!look.begun.empty()) {
    if (!life_->SaveOrFail(entry, now)) return false;
    TellDaemons(look.begun, *entry);
  }
  if (has_news) announcer_->TellStatus(entry);
  return look.waits_for_slots;
}

void NodeReplacer::TellDaemons(const std::vector<const JobNode*>& begun, const JobEntry& entry) {
  for (const JobNode* node : begun) {
    LogInfo("job %d (%s): %s, incarnation %d, begins on worker %s", entry.id().value(),
            entry.job().name(), node->DescribeAlone(), node->incarnation(), node->daemon());
    commands_->SendStart(entry, *node);
  }
}

void NodeReplacer::Restore(const JobEntry& entry) {
  const std::string& reason = entry.stored().status().reason();
  if (!entry.stored().training()) return;
  for (const JobNode& node : entry.nodes()) {
    if (node.ready() || !absl::StartsWith(reason, node.DescribeAlone())) continue;
    said_[entry.id()] = {.attempt = entry.stored().record().attempt(), .reason = reason};
  }
}

bool NodeReplacer::UpdateReason(JobEntry* entry) {
  const std::string shown = entry->status().reason();
  Said& said = said_[entry->id()];
  const uint32_t attempt = entry->stored().record().attempt();
  const bool is_of_now = said.attempt == attempt && !said.reason.empty();
  if (!is_of_now || shown != said.reason) entry->mutable_stored()->set_reason_besides(shown);
  said = {.attempt = attempt, .reason = DescribeReplaced(*membership_, *entry)};
  entry->status().set_reason(said.reason.empty() ? entry->stored().reason_besides() : said.reason);
  return entry->status().reason() != shown;
}

void NodeReplacer::OnReady(const proto::NodeReady& message, JobNode* node, JobEntry* entry,
                           absl::Time now) {
  STRATA_REQUIRE(entry->stage() == JobStage::kTraining && !node->ready());
  node->SetInfo(message);
  const absl::Status same =
      CheckTakesPlace(entry->stored().record(), entry->stored().total_steps(), *node);
  if (!same.ok()) return life_->Fail(std::string(same.message()), entry, now);
  // It has promised nothing, so it could begin clocks of the changed set of nodes.
  if (!entry->agreement().is_installing()) return LetRun(node, entry, now);
  node->WaitForChange();
}

void NodeReplacer::LetRun(JobNode* node, JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->stage() == JobStage::kTraining && !node->ready() && node->takes_part());
  node->Run();
  if (!membership_->StandsIn(node->daemon())) node->Avoid("");
  entry->metrics().StartOver(node->first_rank(), node->ranks());
  const bool leads = node == &entry->leader();
  if (leads) entry->status().set_run_dir(node->info().run_dir());
  entry->StoreNode(*node);
  UpdateReason(entry);
  if (!life_->SaveOrFail(entry, now)) return;
  commands_->SendRun(*entry, *node);
  if (leads) announcer_->SendRecordsAgain(*entry);
  announcer_->TellStatus(entry);
}

void NodeReplacer::OnActivity(const proto::NodeActivity& activity, const JobNode& node,
                              JobEntry* entry) {
  if (activity.has_rejoined_step()) NoteStep(activity.rejoined_step(), node, entry);
}

// A rank's report says with which step it begins. A job of fast steps may end before its nodes
// report activity.
void NodeReplacer::OnReport(const proto::RankReport& report, const JobNode& node, JobEntry* entry) {
  const bool only_says_where = report.first_step() == report.end_step() && !report.final() &&
                               !report.has_test_accuracy() && !report.has_test_loss() &&
                               report.values().empty();
  if (!only_says_where || !node.replaced() || NewestOf(node, entry)->step() > 0) return;
  NoteStep(report.end_step(), node, entry);
}

void NodeReplacer::NoteStep(uint64_t step, const JobNode& node, JobEntry* entry) {
  if (!node.replaced() || !node.ready()) return;
  proto::ReplacementStatus* shown = NewestOf(node, entry);
  if (shown->step() == step) return;
  shown->set_step(step);
  LogInfo("job %d (%s): %s goes on from step %d on worker %s", entry->id().value(),
          entry->job().name(), node.DescribeAlone(), shown->step(), node.daemon());
  announcer_->Save(*entry).IgnoreError();  // repeated
  announcer_->AddNews(entry->id());
}

}  // namespace strata::server
