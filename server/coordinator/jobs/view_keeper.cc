#include "server/coordinator/jobs/view_keeper.h"

#include <algorithm>
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
#include "server/coordinator/jobs/job_queue.h"
#include "server/coordinator/jobs/view_layout.h"
#include "server/coordinator/placement/shard_homes.h"

namespace strata::server {
namespace {

// Returns whether all nodes train and will continue: none is being restarted, about to leave, or
// done.
bool AllTrain(const JobEntry& entry) {
  return std::all_of(entry.nodes().begin(), entry.nodes().end(), [](const JobNode& node) {
    return !node.takes_part() ||
           (node.ready() && !node.finished() && !node.leaves_at() && !node.steps_made());
  });
}

bool NearsItsEnd(const JobEntry& entry) {
  return std::any_of(entry.nodes().begin(), entry.nodes().end(), [](const JobNode& node) {
    return node.takes_part() && !node.leaves_at() && (node.finished() || node.steps_made());
  });
}

// A change with only a number: one that was cancelled.
proto::ViewChange Void(const JobEntry& entry) {
  proto::ViewChange change;
  change.set_job_id(entry.id().value());
  change.set_attempt(entry.stored().record().attempt());
  change.set_number(entry.stored().view_proposed());
  return change;
}

std::string NameNodes(const google::protobuf::RepeatedField<uint32_t>& nodes) {
  return absl::StrCat(nodes.size() == 1 ? "node " : "nodes ", absl::StrJoin(nodes, ", "));
}

// "node 2 joins from step 40 on" for the log.
std::string Describe(const proto::ViewChange& change) {
  const bool both = !change.joined().empty() && !change.left().empty();
  const std::string joined = NameNodes(change.joined()), left = NameNodes(change.left());
  return absl::StrFormat(
      "%s%s%s from step %d on", change.joined().empty() ? "" : absl::StrCat(joined, " in"),
      both ? ", " : "", change.left().empty() ? "" : absl::StrCat(left, " out"), change.at_clock());
}

// "worker w2 is being drained", "workers w2, w3 are being drained, worker w9 only stands in"
std::string WhyTheyLeave(const Membership& membership, const JobEntry& entry) {
  std::vector<std::string> drained, reasons;
  for (const JobNode& node : entry.nodes()) {
    if (!node.leaves_at()) continue;
    if (membership.StandsIn(node.daemon())) {
      reasons.push_back(membership.WhyDraining(node.daemon()));
    } else {
      drained.push_back(node.daemon());
    }
  }
  if (!drained.empty()) {
    const bool is_one = drained.size() == 1;
    reasons.insert(reasons.begin(),
                   absl::StrCat(is_one ? "worker " : "workers ", absl::StrJoin(drained, ", "),
                                is_one ? " is" : " are", " being drained"));
  }
  return absl::StrJoin(reasons, ", ");
}

void ShowChange(const Membership& membership, const proto::ViewChange& change, JobEntry* entry,
                absl::Time now) {
  uint32_t ranks = 0;
  for (const JobNode& node : entry->nodes()) {
    if (node.takes_part() && !node.leaves_at()) ranks += node.ranks();
  }
  entry->ShowChange(change, ranks, WhyTheyLeave(membership, *entry), now);
}

}  // namespace

ViewKeeper::OfJob& ViewKeeper::Of(const JobEntry& entry) {
  OfJob& job = jobs_[entry.id()];
  const uint32_t attempt = entry.stored().record().attempt();
  if (job.attempt != attempt) job.keeps.clear();
  job.attempt = attempt;
  return job;
}

std::string ViewKeeper::WhyStays(const std::string& worker, const JobEntry& entry) const {
  const auto it = jobs_.find(entry.id());
  if (it == jobs_.end() || it->second.attempt != entry.stored().record().attempt()) return "";
  const auto why = it->second.keeps.find(worker);
  return why == it->second.keeps.end() ? "" : why->second;
}

// ---- joining nodes ----

void ViewKeeper::AddNodes(UserSlots* slots, JobEntry* entry, absl::Time now) {
  if (entry->stage() != JobStage::kTraining || !entry->has_joiners()) return;
  if (now < Of(*entry).next_joiner_at || NearsItsEnd(*entry)) return;
  // A node that starts on a stand-in may fail to, and then needs the available room.
  const bool may_need_room =
      std::any_of(entry->nodes().begin(), entry->nodes().end(), [&](const JobNode& node) {
        return node.takes_part() && !node.ready() && membership_->StandsIn(node.daemon());
      });
  if (may_need_room) return;
  std::vector<JobNode*> begun;
  for (JobNode& node : entry->nodes()) {
    if (!node.absent()) continue;
    if (!slots->MayTakeMore(*entry, node.ranks())) break;
    const SpareWorker spare = FindWorker(node, *entry, *queue_, *reached_, now);
    if (spare.daemon.empty()) break;
    node.BeginToJoin(spare.daemon);
    entry->StoreNode(node);
    slots->OnStarted(*entry, node.ranks());
    begun.push_back(&node);
  }
  if (begun.empty() || !life_->SaveOrFail(entry, now)) return;
  for (const JobNode* node : begun) {
    LogInfo("job %d (%s): %s is to join, and begins on worker %s", entry->id().value(),
            entry->job().name(), node->DescribeAlone(), node->daemon());
    commands_->SendStart(*entry, *node);
  }
  announcer_->TellStatus(entry);
}

void ViewKeeper::OnJoinerReady(const proto::NodeReady& message, JobNode* node, JobEntry* entry,
                               absl::Time now) {
  STRATA_REQUIRE(node->joins());
  node->SetInfo(message);
  const absl::Status same =
      CheckTakesPlace(entry->stored().record(), entry->stored().total_steps(), *node);
  if (!same.ok()) return OnJoinerLost(std::string(same.message()), node, entry, now);
  node->BeReadyToJoin();
  Step(entry, now);
}

void ViewKeeper::OnJoinerLost(const std::string& reason, JobNode* node, JobEntry* entry,
                              absl::Time now) {
  STRATA_REQUIRE(node->joins());
  announcer_->Warn(absl::StrFormat("job %d (%s): node %d does not join: %s", entry->id().value(),
                                   entry->job().name(), node->node(), reason));
  const std::string daemon = node->daemon();
  entry->MakeAbsent(node);
  Of(*entry).next_joiner_at = now + options_.joiner_pause;
  commands_->SendStop(daemon, entry->id(), reason);
  announcer_->Save(*entry).IgnoreError();  // repeated
  announcer_->TellStatus(entry);
  if (!entry->agreement().is_proposing()) return;
  if (!entry->agreement().RemoveJoiner(node->node())) {
    GiveUp(absl::StrFormat("node %d does not join", node->node()), entry, now);
  }
}

// ---- one change ----

void ViewKeeper::Step(JobEntry* entry, absl::Time now) {
  if (entry->stage() != JobStage::kTraining) return;
  if (entry->agreement().is_idle()) return Begin(entry, now);
  if (entry->agreement().is_proposing()) {
    if (const std::string why = WhyVoid(*entry); !why.empty()) return GiveUp(why, entry, now);
    if (now - entry->agreement().since() >= options_.promise_patience) {
      return GiveUp(
          absl::StrCat("no answer from ", Counted(entry->agreement().Unanswered().size(), "node")),
          entry, now);
    }
    return Ask(entry, now);
  }
  const std::set<std::string> servers = entry->server_names(),
                              waited = entry->agreement().uninstalled();
  for (const std::string& server : waited) {
    if (!servers.contains(server)) entry->agreement().OnInstalled(server);
  }
  if (entry->agreement().is_installed()) return Tell(entry, now);
  Ask(entry, now);
}

void ViewKeeper::LeaveStandIns(JobEntry* entry, absl::Time now) {
  const bool plays_on_one =
      std::any_of(entry->nodes().begin(), entry->nodes().end(), [&](const JobNode& node) {
        return !node.finished() && membership_->StandsIn(node.daemon());
      });
  if (plays_on_one) Step(entry, now);
}

void ViewKeeper::Begin(JobEntry* entry, absl::Time now) {
  Of(*entry).keeps.clear();
  proto::ViewChange change;
  uint32_t ranks = 0;
  for (JobNode& node : entry->nodes()) {
    if (node.joins() && membership_->IsDraining(node.daemon())) {
      return OnJoinerLost(membership_->WhyDraining(node.daemon()), &node, entry, now);
    }
    if (node.joins() && node.waits_to_run()) change.add_joined(node.node());
    if (node.takes_part() || node.waits_to_run()) ranks += node.ranks();
  }
  for (const uint32_t node : ChooseLeavers(ranks, entry)) change.add_left(node);
  if (change.joined().empty() && change.left().empty()) return MoveOne(entry, now);
  if (now < Of(*entry).next_change_at || !AllTrain(*entry)) return;
  change.set_job_id(entry->id().value());
  change.set_attempt(entry->stored().record().attempt());
  change.set_number(
      std::max(HighestViewNumber(entry->stored().record()), entry->stored().view_proposed()) + 1);
  entry->mutable_stored()->set_view_proposed(change.number());
  if (!life_->SaveOrFail(entry, now)) return;
  std::set<uint32_t> asked;
  for (const JobNode& node : entry->nodes()) {
    if (node.takes_part()) asked.insert(node.node());
  }
  entry->agreement().Propose(change, asked, now);
  Of(*entry).asks_again_at = now;
  Ask(entry, now);
}

std::vector<uint32_t> ViewKeeper::ChooseLeavers(uint32_t ranks, JobEntry* entry) {
  std::vector<uint32_t> leavers;
  for (const JobNode& node : entry->nodes()) {
    if (!node.takes_part() || node.finished() || !membership_->IsDraining(node.daemon())) continue;
    if (node.leaves_at()) continue;
    if (entry->drops_lost()) {
      Of(*entry).keeps[node.daemon()] = absl::StrFormat(
          "node %d stays to its end: it leaves the others' ring only where it dies (on_loss)",
          node.node());
    } else if (!entry->is_elastic()) {
      Of(*entry).keeps[node.daemon()] = absl::StrFormat(
          "node %d stays to its end: none may leave it (ranks_min) or be begun again (replace)",
          node.node());
    } else if (ranks - node.ranks() < entry->job().ranks_min()) {
      Of(*entry).keeps[node.daemon()] = absl::StrFormat(
          "node %d stays until another one has joined: the job has %s, and goes on with no less "
          "than ranks_min: %d",
          node.node(), Counted(ranks, "rank"), entry->job().ranks_min());
    } else {
      ranks -= node.ranks();
      leavers.push_back(node.node());
    }
  }
  return leavers;
}

void ViewKeeper::MoveOne(JobEntry* entry, absl::Time now) {
  if (!entry->job().has_replace() || Of(*entry).keeps.empty() || !AllTrain(*entry)) return;
  for (JobNode& node : entry->nodes()) {
    if (!node.takes_part() || !Of(*entry).keeps.contains(node.daemon())) continue;
    const NodeReplacer::Loss loss{.reason = membership_->WhyDraining(node.daemon())};
    std::string why = replacer_->WhyNot(loss, node, *entry, now);
    if (why.empty()) why = FindWorker(node, *entry, *queue_, *reached_, now).reason;
    if (why.empty()) return replacer_->OnLost(loss, &node, entry, now);
    Of(*entry).keeps[node.daemon()] =
        absl::StrFormat("node %d stays for now: %s", node.node(), why);
  }
}

void ViewKeeper::Ask(JobEntry* entry, absl::Time now) {
  if (now < Of(*entry).asks_again_at) return;
  Of(*entry).asks_again_at = now + options_.ask_every;
  entry->agreement().OnAsked(now);
  const ViewAgreement& agreement = entry->agreement();
  if (agreement.is_installing()) {
    for (const std::string& server : agreement.uninstalled()) {
      commands_->SendChange(agreement.change(), server);
    }
    return;
  }
  for (const uint32_t number : agreement.Unanswered()) {
    const JobNode& node = entry->nodes()[number];
    if (node.ready()) commands_->SendPropose(*entry, node, agreement.change().number());
  }
}

void ViewKeeper::OnPromised(const proto::ViewPromised& message, const JobNode& node,
                            JobEntry* entry, absl::Time now) {
  ViewAgreement& agreement = entry->agreement();
  if (entry->stage() != JobStage::kTraining || !node.ready()) return;
  agreement.OnPromised(node.node(), message.number(), message.from_clock());
  if (agreement.is_proposing() && agreement.is_agreed()) Decide(entry, now);
}

std::string ViewKeeper::WhyVoid(const JobEntry& entry) const {
  for (const uint32_t number : entry.agreement().change().left()) {
    const JobNode& node = entry.nodes()[number];
    if (membership_->IsDraining(node.daemon())) continue;
    return node.waits_for_worker()
               ? absl::StrFormat("node %d is begun again", number)
               : absl::StrFormat("worker %s of node %d is in service", node.daemon(), number);
  }
  return "";
}

void ViewKeeper::Decide(JobEntry* entry, absl::Time now) {
  if (const std::string why = WhyVoid(*entry); !why.empty()) return GiveUp(why, entry, now);
  proto::JobRecord* const record = entry->mutable_stored()->mutable_record();
  absl::StatusOr<Views> views = Views::Of(*record);
  STRATA_REQUIRE(views.ok());
  const proto::ViewChange change = entry->agreement().Decide(views->newest_clock());
  const uint64_t total = entry->stored().total_steps();
  if (total > 0 && change.at_clock() >= total) return GiveUp("the job ends before", entry, now);
  STRATA_REQUIRE(views->Add(change).ok());
  *record->add_view_changes() = change;
  if (entry->job().has_checkpoint()) entry->RenewLedgerRecord();
  for (const uint32_t number : change.joined()) {
    entry->nodes()[number].Join(change.at_clock());
  }
  for (const uint32_t number : change.left()) {
    entry->nodes()[number].LeaveAt(change.at_clock());
  }
  for (const JobNode& node : entry->nodes()) {
    if (node.joined_at() == change.at_clock() || node.leaves_at()) entry->StoreNode(node);
  }
  ShowChange(*membership_, change, entry, now);
  if (!life_->SaveOrFail(entry, now)) return;
  LogInfo("job %d (%s): %s (change %d)", entry->id().value(), entry->job().name(), Describe(change),
          change.number());
  entry->agreement().Install(change, entry->server_names());
  Of(*entry).asks_again_at = now;
  Ask(entry, now);
}

void ViewKeeper::OnInstalled(const std::string& daemon, const proto::ViewInstalled& message,
                             JobEntry* entry, absl::Time now) {
  ViewAgreement& agreement = entry->agreement();
  if (!agreement.is_installing() || message.number() != agreement.change().number()) return;
  if (!message.error().empty() && HoldsAny(daemon, entry->status())) {
    return life_->Fail(absl::StrFormat("server %s does not take in that the job's nodes change: %s",
                                       daemon, message.error()),
                       entry, now);
  }
  agreement.OnInstalled(daemon);
  if (agreement.is_installed()) Tell(entry, now);
}

void ViewKeeper::Tell(JobEntry* entry, absl::Time now) {
  const proto::ViewChange change = entry->agreement().change();
  entry->agreement().End();
  entry->mutable_stored()->set_view_told(change.number());
  const auto& shown = entry->stored().status().nodes_changes();
  if (!shown.empty()) entry->status().set_ranks(shown.rbegin()->ranks());
  if (!life_->SaveOrFail(entry, now)) return;
  for (const uint32_t number : change.joined()) {
    const JobNode& node = entry->nodes()[number];
    entry->metrics().Join(node.first_rank(), node.ranks(), change.at_clock());
  }
  for (const uint32_t number : change.left()) {
    const JobNode& node = entry->nodes()[number];
    entry->metrics().Leave(node.first_rank(), node.ranks(), change.at_clock());
  }
  for (const JobNode& node : entry->nodes()) {
    if (node.ready() && !node.finished()) commands_->SendChange(change, node.daemon());
  }
  for (JobNode& node : entry->nodes()) {
    if (node.waits_to_run() && node.takes_part()) replacer_->LetRun(&node, entry, now);
    if (!entry->running()) return;
  }
  announcer_->TellStatus(entry);
}

void ViewKeeper::GiveUp(const std::string& why, JobEntry* entry, absl::Time now) {
  LogWarning("job %d (%s): change %d of its nodes is given up: %s", entry->id().value(),
             entry->job().name(), entry->agreement().change().number(), why);
  entry->agreement().End();
  Of(*entry).next_change_at = now + options_.change_pause;
  for (const JobNode& node : entry->nodes()) {
    if (node.takes_part() && !node.finished()) commands_->SendChange(Void(*entry), node.daemon());
  }
}

void ViewKeeper::TellAgain(const JobNode& node, const JobEntry& entry) {
  if (entry.stage() != JobStage::kTraining || !entry.has_joiners() || !node.ready()) return;
  for (const proto::ViewChange& change : entry.stored().record().view_changes()) {
    const bool is_told = change.number() <= entry.stored().view_told();
    if (is_told && change.at_clock() > entry.stored().record().resume().clock()) {
      commands_->SendChange(change, node.daemon());
    }
  }
  if (entry.agreement().is_proposing()) {
    commands_->SendPropose(entry, node, entry.agreement().change().number());
  } else if (entry.stored().view_proposed() > HighestViewNumber(entry.stored().record())) {
    commands_->SendChange(Void(entry), node.daemon());
  }
}

// ---- leaving nodes ----

void ViewKeeper::OnLeft(JobNode* node, JobEntry* entry) {
  STRATA_REQUIRE(node->leaves_at().has_value());
  LogInfo("job %d (%s): %s has left worker %s, before step %d", entry->id().value(),
          entry->job().name(), node->DescribeAlone(), node->daemon(), *node->leaves_at());
  const bool led = node == &entry->leader();
  entry->MakeAbsent(node);
  const std::string& run_dir = entry->leader().info().run_dir();
  if (led && !run_dir.empty()) entry->status().set_run_dir(run_dir);
  announcer_->Save(*entry).IgnoreError();  // repeated
  if (led) announcer_->SendRecordsAgain(*entry);
  announcer_->TellStatus(entry);
}

}  // namespace strata::server
