#include "server/coordinator/jobs/ring_keeper.h"

#include <algorithm>
#include <cstdint>
#include <set>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/counted.h"
#include "common/job/views.h"
#include "common/log.h"
#include "common/require.h"
#include "server/coordinator/jobs/job_node.h"
#include "server/coordinator/jobs/view_layout.h"

namespace strata::server {
namespace {

bool Trains(const JobEntry& entry) {
  return entry.drops_lost() && entry.stage() == JobStage::kTraining;
}

std::vector<const JobNode*> NodesLeft(const JobEntry& entry) {
  std::vector<const JobNode*> left;
  for (const JobNode& node : entry.nodes()) {
    if (node.takes_part() && !node.finished()) left.push_back(&node);
  }
  return left;
}

uint32_t CountRanks(const JobEntry& entry) {
  uint32_t ranks = 0;
  for (const JobNode& node : entry.nodes()) {
    if (node.takes_part()) ranks += node.ranks();
  }
  return ranks;
}

// Returns why nodes are gone that no change has named yet.
std::string WhyDropped(const JobEntry& entry) {
  std::vector<std::string> reasons;
  for (const JobNode& node : entry.nodes()) {
    if (!node.dropped().empty()) reasons.push_back(node.dropped());
  }
  return absl::StrJoin(reasons, "; ");
}

std::string DescribeDropped(const JobEntry& entry) {
  std::vector<uint32_t> numbers;
  for (const JobNode& node : entry.nodes()) {
    if (!node.dropped().empty()) numbers.push_back(node.node());
  }
  return absl::StrFormat(
      "%s %s left out: %s; the others form a ring of %s",
      absl::StrCat(numbers.size() == 1 ? "node " : "nodes ", absl::StrJoin(numbers, ", ")),
      numbers.size() == 1 ? "is" : "are", WhyDropped(entry),
      Counted(NodesLeft(entry).size(), "node"));
}

// Returns the nodes that are gone although all changes so far include them.
std::vector<uint32_t> NotNamedYet(const JobEntry& entry, const Views& views) {
  std::vector<uint32_t> gone;
  for (const JobNode& node : entry.nodes()) {
    if (node.absent() && views.Has(NodeId(node.node()), views.newest_clock())) {
      gone.push_back(node.node());
    }
  }
  return gone;
}

}  // namespace

// ---- nodes that die ----

void RingKeeper::OnLost(const std::string& reason, JobNode* node, JobEntry* entry, absl::Time now) {
  STRATA_REQUIRE(entry->drops_lost() && entry->running() && !node->finished());
  if (!Trains(*entry)) return life_->Fail(reason, entry, now, /*is_death=*/true);
  Drop({{.node = node, .reason = reason}}, entry, now);
}

void RingKeeper::Drop(const std::vector<Loss>& losses, JobEntry* entry, absl::Time now) {
  std::vector<std::string> daemons, reasons;
  uint32_t ranks = CountRanks(*entry);
  for (const Loss& loss : losses) {
    daemons.push_back(loss.node->daemon());
    reasons.push_back(loss.reason);
    ranks -= loss.node->ranks();
  }
  const std::string reason = absl::StrJoin(reasons, "; ");
  const JobId id = entry->id();
  if (ranks < entry->job().ranks_min()) {
    life_->Fail(absl::StrFormat("%s; %s would be left, and the job goes on with no less than "
                                "ranks_min: %d",
                                reason, Counted(ranks, "rank"), entry->job().ranks_min()),
                entry, now);
  } else {
    GoOnWithout(losses, entry, now);
  }
  for (const std::string& daemon : daemons) commands_->SendStop(daemon, id, reason);
}

void RingKeeper::GoOnWithout(const std::vector<Loss>& losses, JobEntry* entry, absl::Time now) {
  const uint32_t led = entry->leader().node();
  for (const Loss& loss : losses) {
    announcer_->Warn(absl::StrFormat("job %d (%s): node %d is left out: %s", entry->id().value(),
                                     entry->job().name(), loss.node->node(), loss.reason));
    entry->MakeAbsent(loss.node);
    loss.node->SetDropped(loss.reason);
    entry->StoreNode(*loss.node);
    entry->metrics().Drop(loss.node->first_rank(), loss.node->ranks());
  }
  const JobNode& leads = entry->leader();
  if (leads.node() != led && !leads.info().run_dir().empty()) {
    entry->status().set_run_dir(leads.info().run_dir());
  }
  if (!NodesLeft(*entry).empty()) return Begin(entry, now);
  if (leads.node() == led) return life_->End(proto::FINISHED, "", entry, now);
  // Nobody is left for the work after the last step.
  life_->Fail(absl::StrCat(WhyDropped(*entry), "; all other nodes have finished"), entry, now);
}

// ---- one ring ----

void RingKeeper::Begin(JobEntry* entry, absl::Time now) {
  const uint32_t number =
      std::max(HighestViewNumber(entry->stored().record()), entry->stored().view_proposed()) + 1;
  entry->mutable_stored()->set_view_proposed(number);
  std::set<uint32_t> asked;
  for (const JobNode* node : NodesLeft(*entry)) asked.insert(node->node());
  entry->ring().Ask(number, asked, now);
  for (const JobNode& node : entry->nodes()) {
    if (node.takes_part() && node.finished()) entry->ring().OnFinished(node.node());
  }
  asks_again_at_[entry->id()] = now;
  entry->status().set_reason(DescribeDropped(*entry));
  if (!life_->SaveOrFail(entry, now)) return;
  Ask(entry, now);
  announcer_->TellStatus(entry);
}

void RingKeeper::Step(JobEntry* entry, absl::Time now) {
  if (!Trains(*entry)) return;
  const proto::StoredJob& stored = entry->stored();
  if (!entry->ring().is_asking()) {
    // A previous coordinator has asked.
    if (stored.view_proposed() > HighestViewNumber(stored.record())) Begin(entry, now);
    return;
  }
  std::vector<Loss> late;
  for (const uint32_t number : entry->ring().UnansweredSince(now - options_.ring_patience)) {
    JobNode* const node = &entry->nodes()[number];
    if (!node->present()) continue;  // its worker is on its way back, with a deadline of its own
    late.push_back(
        {.node = node,
         .reason = absl::StrFormat("%s has not stopped its all-reduce within %s", node->Describe(),
                                   absl::FormatDuration(options_.ring_patience))});
  }
  if (!late.empty()) return Drop(late, entry, now);
  Ask(entry, now);
}

void RingKeeper::Ask(JobEntry* entry, absl::Time now) {
  absl::Time& at = asks_again_at_.try_emplace(entry->id(), absl::InfinitePast()).first->second;
  if (now < at) return;
  at = now + options_.ring_ask_every;
  for (const uint32_t number : entry->ring().Unanswered()) {
    commands_->SendStopRing(*entry, entry->nodes()[number], entry->ring().number());
  }
}

void RingKeeper::OnStopped(const proto::RingStopped& message, const JobNode& node, JobEntry* entry,
                           absl::Time now) {
  if (!Trains(*entry) || !entry->ring().is_asking()) return;
  if (const absl::Status heard = entry->ring().OnStopped(message); !heard.ok()) {
    return life_->Fail(absl::StrFormat("%s; %s does not go on: %s", WhyDropped(*entry),
                                       node.Describe(), heard.message()),
                       entry, now);
  }
  if (entry->ring().is_agreed()) Decide(entry, now);
}

void RingKeeper::OnFinished(const JobNode& node, JobEntry* entry, absl::Time now) {
  if (!Trains(*entry) || !entry->ring().is_asking()) return;
  entry->ring().OnFinished(node.node());
  if (entry->ring().is_agreed()) Decide(entry, now);
}

void RingKeeper::Decide(JobEntry* entry, absl::Time now) {
  proto::JobRecord* const record = entry->mutable_stored()->mutable_record();
  absl::StatusOr<Views> views = Views::Of(*record);
  STRATA_REQUIRE(views.ok());
  absl::StatusOr<proto::FormRing> decided = entry->ring().Decide(views->newest_clock());
  const std::string why = WhyDropped(*entry);
  absl::Status valid = decided.status();
  if (valid.ok() && entry->job().exchange() == proto::Job::NCCL && !decided->is_over()) {
    valid = CheckNcclId(entry->nodes()[decided->nodes(0)], decided->nccl_id());
  }
  if (!valid.ok()) return life_->Fail(absl::StrCat(why, "; ", valid.message()), entry, now);
  proto::ViewChange* const change = decided->mutable_change();
  change->set_job_id(record->job_id());
  change->set_attempt(record->attempt());
  decided->set_job_id(record->job_id());
  decided->set_attempt(record->attempt());
  for (const uint32_t node : NotNamedYet(*entry, *views)) {
    change->add_left(node);
    entry->nodes()[node].SetDropped("");
    entry->StoreNode(entry->nodes()[node]);
  }
  STRATA_REQUIRE(views->Add(*change).ok());
  *record->add_view_changes() = *change;
  *entry->mutable_stored()->mutable_ring() = *decided;
  entry->mutable_stored()->set_view_told(change->number());  // no server must have it first
  entry->ring().End();
  const uint32_t ranks = CountRanks(*entry);
  entry->status().set_ranks(ranks);
  entry->status().set_reason("");
  entry->ShowChange(*change, ranks, why, now);
  if (!life_->SaveOrFail(entry, now)) return;
  LogInfo("job %d (%s): ring %d of %s goes on after step %d, without %s", entry->id().value(),
          entry->job().name(), change->number(), Counted(decided->nodes_size(), "node"),
          decided->clock(), absl::StrJoin(change->left(), ", "));
  for (const uint32_t node : decided->nodes()) {
    commands_->SendFormRing(*decided, entry->nodes()[node].daemon());
  }
  const uint32_t leader = entry->leader().node();
  const bool leads_anew = std::any_of(change->left().begin(), change->left().end(),
                                      [&](uint32_t node) { return node < leader; });
  if (leads_anew) announcer_->SendRecordsAgain(*entry);
  announcer_->TellStatus(entry);
}

void RingKeeper::TellAgain(const JobNode& node, JobEntry* entry, absl::Time now) {
  if (!Trains(*entry) || node.finished()) return;
  if (entry->stored().has_ring()) commands_->SendFormRing(entry->stored().ring(), node.daemon());
  if (!entry->ring().is_asking()) return;
  entry->ring().AskAgain(node.node(), now);
  commands_->SendStopRing(*entry, node, entry->ring().number());
}

}  // namespace strata::server
