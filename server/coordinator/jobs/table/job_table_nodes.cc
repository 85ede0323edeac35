// The part of JobTable that takes in what workers say of the nodes that they play.
#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/coordinator/jobs/table/job_table.h"

namespace strata::server {

template <typename Message>
JobNode* JobTable::FindNode(const std::string& daemon, const Message& message, JobEntry** entry) {
  *entry = FindRunning(message);
  JobNode* node = *entry == nullptr ? nullptr : (*entry)->NodeOn(daemon);
  return node == nullptr || !node->IsMeant(message) ? nullptr : node;
}

void JobTable::OnNodeReady(const std::string& daemon, const proto::NodeReady& message,
                           absl::Time now) {
  JobEntry* entry = nullptr;
  JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr || node->ready) return;
  if (entry->stage() == JobStage::kTraining) {
    if (node->joins) {
      views_.OnJoinerReady(message, node, entry, now);
    } else {
      replacer_.OnReady(message, node, entry, now);
    }
    return StartQueued(now);
  }
  if (entry->stage() != JobStage::kStarting) return;
  node->ready = true;
  node->info = message;
  if (!entry->all_ready()) return;
  const absl::Status taken = entry->TakeLayout();
  if (!taken.ok()) {
    life_.Fail(std::string(taken.message()), entry, now);
    StartQueued(now);
    return;
  }
  life_.Install(entry, now);
}

void JobTable::OnNodeFinished(const std::string& daemon, const proto::NodeFinished& message,
                              absl::Time now) {
  JobEntry* entry = nullptr;
  JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr || node->finished) return;
  if (node->joins) {
    views_.OnJoinerLost("its processes have ended", node, entry, now);
    return StartQueued(now);
  }
  if (message.has_steps_made()) node->steps_made = message.steps_made();
  if (entry->stage() != JobStage::kTraining || !node->ready) {
    life_.Fail(absl::StrCat(node->Describe(), " ended before training began"), entry, now);
  } else if (absl::Status equal = CheckEqualSteps(entry->nodes); !equal.ok()) {
    life_.Fail(std::string(equal.message()), entry, now);
  } else {
    const bool leaves =
        node->leaves_at && node->steps_made.value_or(*node->leaves_at) >= *node->leaves_at;
    if (leaves) {
      views_.OnLeft(node, entry);
    } else {
      node->finished = true;
      entry->stored.set_node_finished(node->node, true);
    }
    const bool all_finished = std::all_of(entry->nodes.begin(), entry->nodes.end(),
                                          [](const JobNode& n) { return n.finished || n.joins; });
    if (all_finished) {
      life_.End(proto::FINISHED, "", entry, now);
    } else {
      announcer_.Save(*entry).IgnoreError();  // repeated
      rings_.OnFinished(*node, entry, now);
    }
  }
  StartQueued(now);
}

void JobTable::OnNodeFailed(const std::string& daemon, const proto::NodeFailed& message,
                            absl::Time now) {
  JobEntry* entry = nullptr;
  JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr) return;
  const bool names_daemon = absl::StrContains(message.reason(), daemon);
  const std::string reason =
      names_daemon ? message.reason() : absl::StrCat(node->Describe(), ": ", message.reason());
  // A node that joins is given weights of now.
  if (message.is_damaged() && entry->stored.record().has_resume() && !node->joins) {
    life_.GoOnFromEarlier(reason, entry, now);
  } else if (node->finished || (entry->drops_lost() && !message.is_death())) {
    life_.Fail(reason, entry, now);
  } else {
    LoseNode({.reason = reason, .is_own_end = true}, node, entry, now);
  }
  StartQueued(now);
}

void JobTable::OnNodeActivity(const std::string& daemon, const proto::NodeActivity& activity,
                              absl::Time now) {
  JobEntry* entry = nullptr;
  const JobNode* node = FindNode(daemon, activity, &entry);
  if (node == nullptr) return;
  reports_.OnNodeActivity(daemon, activity, entry, now);
  if (entry->stage() != JobStage::kTraining) return;
  replacer_.OnActivity(activity, *node, entry);
  const absl::Status equal = CheckEqualSteps(entry->nodes);
  if (equal.ok()) return;
  life_.Fail(std::string(equal.message()), entry, now);
  StartQueued(now);
}

void JobTable::OnViewPromised(const std::string& daemon, const proto::ViewPromised& message,
                              absl::Time now) {
  JobEntry* entry = nullptr;
  const JobNode* node = FindNode(daemon, message, &entry);
  if (node != nullptr && node->node == message.node()) {
    views_.OnPromised(message, *node, entry, now);
  }
}

void JobTable::OnViewInstalled(const std::string& daemon, const proto::ViewInstalled& message,
                               absl::Time now) {
  JobEntry* entry = FindRunning(message);
  if (entry == nullptr || entry->stage() != JobStage::kTraining) return;
  views_.OnInstalled(daemon, message, entry, now);
  StartQueued(now);
}

void JobTable::OnRingStopped(const std::string& daemon, const proto::RingStopped& message,
                             absl::Time now) {
  JobEntry* entry = nullptr;
  const JobNode* node = FindNode(daemon, message, &entry);
  if (node == nullptr || node->node != message.node()) return;
  rings_.OnStopped(message, *node, entry, now);
  StartQueued(now);
}

void JobTable::LoseNode(const NodeReplacer::Loss& loss, JobNode* node, JobEntry* entry,
                        absl::Time now) {
  if (node->joins) return views_.OnJoinerLost(loss.reason, node, entry, now);
  if (entry->drops_lost()) return rings_.OnLost(loss.reason, node, entry, now);
  replacer_.OnLost(loss, node, entry, now);
}

void JobTable::TakeMemory(const std::string& daemon, const proto::Heartbeat& heartbeat) {
  for (const proto::JobCounters& counters : heartbeat.jobs()) {
    JobEntry* entry = FindRunning(counters.job_id());
    if (entry != nullptr) reports_.OnShardMemory(daemon, counters, entry);
  }
  for (const proto::NodeActivity& activity : heartbeat.nodes()) {
    JobEntry* entry = nullptr;
    if (FindNode(daemon, activity, &entry) != nullptr) {
      reports_.OnNodeMemory(daemon, activity, entry);
    }
  }
}

}  // namespace strata::server
