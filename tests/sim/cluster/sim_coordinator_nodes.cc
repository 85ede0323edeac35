// The part of SimCoordinator that sees to nodes that come and go, and to its own death when it has
// saved something.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "tests/sim/check/ring_checker.h"
#include "tests/sim/cluster/sim_coordinator.h"
#include "tests/sim/cluster/sim_operator.h"
#include "tests/sim/cluster/world.h"

namespace strata::sim {
namespace {

constexpr absl::Duration kDownMax = absl::Seconds(20);
constexpr uint32_t kDeathsAtSaveMax = 8;

// A node leaves one.
bool NamesStandIn(const std::string& reason) {
  return absl::StrContains(reason, " only stands in");
}

}  // namespace

void SimCoordinator::NoteChanges(const proto::StoredJob& before, const proto::StoredJob& job) {
  const uint32_t id = job.record().job_id();
  if (world_->plan(id).drops_lost) NoteLosses(before, job);
  const auto& changes = job.record().view_changes();
  for (int i = before.record().view_changes_size(); i < changes.size(); ++i) {
    if (JobChecker* const checker = world_->shard_checker(id)) checker->OnChangeDecided(changes[i]);
    if (!changes[i].joined().empty()) world_->Count(Rare::kJoined);
    if (!changes[i].left().empty()) world_->Count(Rare::kLeft);
  }
  for (int i = before.status().nodes_changes_size(); i < job.status().nodes_changes_size(); ++i) {
    if (NamesStandIn(job.status().nodes_changes(i).reason())) world_->Count(Rare::kLeavesStandIn);
  }
  for (int i = before.status().replacements_size(); i < job.status().replacements_size(); ++i) {
    if (NamesStandIn(job.status().replacements(i).reason())) world_->Count(Rare::kLeavesStandIn);
  }
  bool begins = false;
  for (int n = 0; n < job.status().nodes_size(); ++n) {
    const bool joined = n < before.status().nodes_size() && before.status().nodes(n).joins();
    if (job.status().nodes(n).joins() && !joined) begins = true;
  }
  if (begins) world_->Count(Rare::kJoinerBegins);
  const bool is_step = changes.size() != before.record().view_changes_size() || begins ||
                       job.view_proposed() != before.view_proposed() ||
                       job.view_told() != before.view_told();
  if (!is_step || (world_->plan(id).drops_lost && !before.training())) return;
  MaybeDieAtSave(Rare::kRestartAtChange);
  if (world_->plan(id).drops_lost) return world_->operators().OnRing(id);
  world_->operators().OnChange(job);
}

void SimCoordinator::NoteLosses(const proto::StoredJob& before, const proto::StoredJob& job) {
  const uint32_t id = job.record().job_id();
  RingChecker* const checker = world_->ring_checker(id);
  if (checker == nullptr) return;
  bool some_are_dropped = false;
  for (int n = 0; n < before.status().nodes_size(); ++n) {
    const proto::JobNodeStatus& was = before.status().nodes(n);
    if (was.absent() || !job.status().nodes(n).absent()) continue;
    some_are_dropped = true;
    world_->Count(Rare::kDropped);
    checker->OnDropped(was.node());
    if (world_->causes().MayDrop(id, was.node(), was.daemon())) continue;
    world_->Fail(absl::StrFormat("only nodes that are gone are left out: job %d node %d (%s)", id,
                                 was.node(), was.daemon()));
  }
  const uint32_t decided =
      std::max(before.record().view().number(), before.ring().change().number());
  const bool was_asking = before.view_proposed() > decided;
  if (some_are_dropped && was_asking) world_->Count(Rare::kRingAgain);
  if (job.ring().change().number() == before.ring().change().number()) return;
  world_->Count(Rare::kRingFormed);
  if (job.ring().some_lack()) world_->Count(Rare::kRingLacks);
  if (job.ring().is_over()) world_->Count(Rare::kRingIsOver);
  checker->OnRingFormed(job.ring());
}

// Between saving and telling.
void SimCoordinator::MaybeDieAtSave(Rare rare) {
  // Who dies again and again waits for nobody long enough to give it up.
  const bool is_elastic = world_->scenario().jobs[0].changes_nodes();
  if (dies_ || (is_elastic && deaths_at_save_ >= kDeathsAtSaveMax) || !world_->Takes(rare)) return;
  ++deaths_at_save_;
  dies_ = stands_still_ = true;
  world_->network().After(absl::ZeroDuration(), [this] {
    if (dies_) Restart(world_->random().Between(absl::ZeroDuration(), kDownMax));
  });
}

absl::Status SimCoordinator::PersistDraining(const std::vector<std::string>& daemons) {
  if (!dies_) draining_ = daemons;
  return absl::OkStatus();
}

absl::Status SimCoordinator::Drain(const std::string& daemon, bool undo) {
  if (core_ == nullptr || stands_still_) return absl::UnavailableError("nobody answers");
  proto::DrainRequest request;
  request.set_daemon(daemon);
  request.set_action(undo ? proto::DrainRequest::UNDO : proto::DrainRequest::DRAIN);
  return core_->Drain(request, world_->network().Now()).status();
}

}  // namespace strata::sim
