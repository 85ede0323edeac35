#include "server/coordinator/jobs/wait_diagnosis.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/os/process.h"

namespace strata::server {
namespace {

// The parts of a Wait's text: where, for how long and what.
struct Words {
  std::string who;
  bool at_step = true;
  std::string doing;
};

class Diagnosis {
 public:
  Diagnosis(const JobScene& scene, absl::Time now, const DiagnosisTiming& timing)
      : scene_(scene), now_(now), timing_(timing) {
    for (const ShardScene& shard : scene.shards) shard_at_[shard.address] = &shard;
  }

  std::vector<proto::Wait> Find() {
    if (scene_.phase == JobScene::Phase::kInstalling) FindInstalling();
    FindChanging();
    const bool goes_on = QuorumContinues();
    for (const NodeScene& node : scene_.nodes) {
      if (!node.finished && !goes_on) FindOn(node);
    }
    for (const auto& [shard, owed] : owed_) AddServer(*shard, owed);
    if (waits_.empty() && !goes_on && scene_.phase == JobScene::Phase::kTraining) FindLagging();
    std::stable_sort(waits_.begin(), waits_.end(),
                     [](const auto& a, const auto& b) { return a.seconds() > b.seconds(); });
    if (waits_.size() > timing_.waits_max) waits_.resize(timing_.waits_max);
    return std::move(waits_);
  }

 private:
  // Answers that a server owes to nodes.
  struct Owed {
    std::vector<uint32_t> nodes;
    uint64_t clock = UINT64_MAX;
    absl::Duration for_time;
    std::string what;
  };

  static std::string NodeName(const NodeScene& node) {
    return absl::StrFormat("node %d (%s)", node.node, node.daemon);
  }
  // Returns null if the shard has reported nothing about the node.
  static const proto::NodeClock* FindClock(const NodeScene& node, const ShardScene& shard) {
    if (shard.nodes == nullptr) return nullptr;
    for (const proto::NodeClock& clock : *shard.nodes) {
      if (clock.node() == node.node) return &clock;
    }
    return nullptr;
  }
  static bool InPhase(const NodeScene& node, const char* phase) {
    return node.activity->phase() == phase;
  }
  bool IsSilent(absl::Time heard_at) const { return now_ - heard_at >= timing_.silent_after; }
  bool Shows(int64_t ms) const { return absl::Milliseconds(ms) >= timing_.show_after; }
  // Returns whether this rank blocks its job, by its aggregator's report and the kernel.
  bool StandsStill(const proto::RankActivity& rank) const {
    const bool is_stopped = rank.process_state() == kProcessStopped;
    const auto after = is_stopped ? timing_.show_stopped_after : timing_.show_after;
    return absl::Milliseconds(rank.idle_ms()) >= after;
  }
  // Returns the age of the aggregator's report.
  absl::Duration ActivityAge(const NodeScene& node) const {
    return now_ - node.activity_at + absl::Milliseconds(node.activity->silent_ms());
  }
  // Returns how long the aggregator had been silent when its daemon was last heard.
  static absl::Duration QuietTime(const NodeScene& node) {
    return node.heard_at - node.activity_at + absl::Milliseconds(node.activity->silent_ms());
  }
  // Returns whether the rank is known to be ahead of its node's newest report.
  bool IsOutdated(const NodeScene& node, const proto::RankActivity& rank) const {
    const bool trains = scene_.phase == JobScene::Phase::kTraining;
    return (trains && InPhase(node, "starting")) || rank.clock() < node.reported_step;
  }
  static uint64_t SlowestStep(const proto::NodeActivity& activity) {
    uint64_t step = UINT64_MAX;
    for (const proto::RankActivity& rank : activity.ranks()) step = std::min(step, rank.clock());
    return activity.ranks().empty() ? 0 : step;
  }

  proto::Wait* Add(const Words& words, uint32_t node, const std::string& daemon, uint64_t clock,
                   absl::Duration for_time) {
    proto::Wait& wait = waits_.emplace_back();
    wait.set_node(node);
    wait.set_daemon(daemon);
    wait.set_clock(clock);
    wait.set_seconds(absl::ToDoubleSeconds(for_time));
    wait.set_doing(words.doing);
    const std::string step = words.at_step ? absl::StrCat(" at step ", clock) : "";
    wait.set_text(absl::StrFormat("%s%s for %d s: %s", words.who, step,
                                  absl::ToInt64Seconds(for_time), words.doing));
    return &wait;
  }

  // Returns whether every shard gets pushes, so that slow or stopped nodes block nobody.
  bool QuorumContinues() const;
  // Returns when any node last pushed.
  static absl::Time LastPushAt(const ShardScene& shard) {
    absl::Time last = absl::InfinitePast();
    if (shard.nodes_since == nullptr) return last;
    for (const absl::Time since : *shard.nodes_since) last = std::max(last, since);
    return last;
  }
  void FindInstalling();
  void FindChanging();
  void FindOn(const NodeScene& node);
  void AddSilentDaemon(const NodeScene& node);
  void AddSilentAggregator(const NodeScene& node);
  // Returns the clocks of the node that every shard has received.
  uint64_t PushedBy(const NodeScene& node) const;
  void AddRank(const NodeScene& node, const proto::RankActivity& rank);
  void FindAtShard(const NodeScene& node, const proto::ShardActivity& line);
  bool Owes(const NodeScene& node, const proto::ShardActivity& line, const ShardScene& shard) const;
  bool MissesPushes(const NodeScene& node, const proto::ShardActivity& line,
                    const ShardScene& shard, const proto::NodeClock& own) const;
  void FindLagging();
  void AddServer(const ShardScene& shard, const Owed& owed);

  const JobScene& scene_;
  const absl::Time now_;
  const DiagnosisTiming& timing_;
  absl::flat_hash_map<std::string, const ShardScene*> shard_at_;
  std::map<const ShardScene*, Owed> owed_;
  std::vector<proto::Wait> waits_;
};

bool Diagnosis::QuorumContinues() const {
  if (!scene_.has_quorum || scene_.phase != JobScene::Phase::kTraining) return false;
  return std::all_of(scene_.shards.begin(), scene_.shards.end(), [&](const ShardScene& shard) {
    if (shard.nodes == nullptr) return true;  // holds nothing, or has not reported yet
    return !IsSilent(shard.heard_at) && now_ - LastPushAt(shard) < timing_.show_after;
  });
}

void Diagnosis::FindInstalling() {
  const absl::Duration waited = now_ - scene_.phase_since;
  if (waited < timing_.show_after) return;
  std::string named;
  for (const ShardScene& shard : scene_.shards) {
    if (shard.installed || shard.daemon == named) continue;  // shards of one daemon are consecutive
    named = shard.daemon;
    const std::string doing = IsSilent(shard.heard_at) ? "silent" : "installing the job";
    Add({absl::StrCat("server ", shard.daemon), false, doing}, 0, shard.daemon, 0, waited);
  }
}

void Diagnosis::FindChanging() {
  const absl::Duration waited = now_ - scene_.changing_since;
  if (waited < timing_.show_after) return;
  for (const ChangeScene& server : scene_.changing) {
    Add({absl::StrCat("server ", server.daemon), false,
         absl::StrCat(IsSilent(server.heard_at) ? "silent, " : "",
                      "has not taken in that the job's nodes change")},
        0, server.daemon, 0, waited);
  }
}

void Diagnosis::FindOn(const NodeScene& node) {
  if (IsSilent(node.heard_at)) return AddSilentDaemon(node);
  if (node.activity == nullptr) {
    const absl::Duration waited = now_ - scene_.phase_since;
    if (node.ready || scene_.phase != JobScene::Phase::kStarting || waited < timing_.show_after) {
      return;
    }
    Add({NodeName(node), false, "has not started its ranks"}, node.node, node.daemon, 0, waited);
    return;
  }
  if (scene_.has_aggregators && QuietTime(node) >= timing_.silent_after) {
    return AddSilentAggregator(node);
  }
  for (const proto::RankActivity& rank : node.activity->ranks()) {
    if (rank.waiting() || !StandsStill(rank) || IsOutdated(node, rank)) continue;
    AddRank(node, rank);
  }
  for (const proto::ShardActivity& line : node.activity->shards()) FindAtShard(node, line);
}

// The node's state is unknown, so it is named if it may be the one that others wait for.
void Diagnosis::AddSilentDaemon(const NodeScene& node) {
  // Without a server, every node waits for each of the others in every clock.
  const bool all_reduces =
      scene_.has_aggregators && scene_.shards.empty() && scene_.phase == JobScene::Phase::kTraining;
  uint64_t clock = all_reduces ? node.reported_step : 0;
  bool lags = !node.ready || all_reduces;
  for (const ShardScene& shard : scene_.shards) {
    if (shard.nodes == nullptr || now_ - shard.least_since < timing_.show_after) continue;
    const uint64_t least = LeastClock(*shard.nodes);
    const proto::NodeClock* own = FindClock(node, shard);
    if (own == nullptr || own->retired() || own->clock() > least) continue;
    lags = true;
    clock = least;
  }
  if (!lags) return;
  Add({NodeName(node), node.ready, "its worker daemon is silent"}, node.node, node.daemon, clock,
      now_ - node.heard_at);
}

void Diagnosis::AddSilentAggregator(const NodeScene& node) {
  const proto::NodeActivity& activity = *node.activity;
  // Its last report may be from before it trained; the coordinator and the shards know better.
  const bool has_started = scene_.phase == JobScene::Phase::kTraining;
  const uint64_t step = std::max(SlowestStep(activity), PushedBy(node));
  // It ends once its ranks have released it; whatever they do then takes time, too.
  const bool has_ended = activity.process_state() == kProcessGone;
  if (activity.process_state().empty()) {
    Add({NodeName(node), false, "its processes have not started: the run directory is in use"},
        node.node, node.daemon, step, ActivityAge(node));
    return;
  }
  if (!has_ended) {
    Add({absl::StrCat(NodeName(node), " aggregator"), has_started,
         absl::StrCat("silent, its process is ", activity.process_state())},
        node.node, node.daemon, step, ActivityAge(node));
  }
  // Its reports about the ranks are old; the kernel's data is not.
  for (const proto::RankActivity& rank : activity.ranks()) {
    if (has_ended || (!rank.waiting() && rank.process_state() != kProcessRunning))
      AddRank(node, rank);
  }
}

uint64_t Diagnosis::PushedBy(const NodeScene& node) const {
  uint64_t pushed = UINT64_MAX;
  for (const ShardScene& shard : scene_.shards) {
    if (const proto::NodeClock* own = FindClock(node, shard)) {
      pushed = std::min<uint64_t>(pushed, own->clock());
    }
  }
  return pushed == UINT64_MAX ? 0 : pushed;
}

void Diagnosis::AddRank(const NodeScene& node, const proto::RankActivity& rank) {
  const std::string who = absl::StrFormat("%s rank %d", NodeName(node), rank.rank());
  const absl::Duration waited = absl::Milliseconds(rank.idle_ms()) + ActivityAge(node);
  const bool runs = rank.process_state() == kProcessRunning || rank.process_state().empty();
  if (InPhase(node, "starting")) {
    // A program that imports its libraries is busy, which is not a fault.
    constexpr absl::Duration kStartsFor = absl::Seconds(60);
    constexpr int kBusyShare = 4;
    const absl::Duration busy = absl::Milliseconds(rank.cpu_ms());
    if (runs && waited < kStartsFor && busy * kBusyShare >= waited) return;
    proto::Wait* wait =
        Add({who, false, "has not joined the job"}, node.node, node.daemon, 0, waited);
    wait->set_rank(rank.rank());
    if (!runs) wait->set_doing(absl::StrCat("has not joined the job, ", rank.process_state()));
    wait->set_text(absl::StrFormat("%s has not joined the job for %d s%s", who,
                                   absl::ToInt64Seconds(waited),
                                   runs ? "" : absl::StrCat(": ", rank.process_state())));
    return;
  }
  if (rank.process_state() == kProcessGone) return;  // exited normally, or the job would fail
  // Without an aggregator a rank's progress within its report's steps is unknown.
  if (runs && rank.chunks() == 0) return;
  std::string doing = rank.process_state();
  if (runs) {
    doing = InPhase(node, "finishing") ? "finishing"
                                       : absl::StrFormat("computing (published %d of %d chunks)",
                                                         rank.published(), rank.chunks());
    // Until its first chunk it need not compute.
    if (scene_.ranks_meet && rank.clock() == 0 && rank.published() == 0) {
      doing = "meeting the others by NCCL, or in its first step";
    }
  }
  Add({who, true, doing}, node.node, node.daemon, rank.clock(), waited)->set_rank(rank.rank());
}

void Diagnosis::FindAtShard(const NodeScene& node, const proto::ShardActivity& line) {
  if (!Shows(line.oldest_ms()) || (line.connected() && line.unanswered() == 0)) return;
  const auto found = shard_at_.find(line.address());
  const ShardScene* shard = found == shard_at_.end() ? nullptr : found->second;
  const absl::Duration waited = absl::Milliseconds(line.oldest_ms()) + ActivityAge(node);
  const bool silent = shard != nullptr && IsSilent(shard->heard_at);
  if (!line.connected() && !silent) {
    const absl::string_view error =
        absl::StripPrefix(line.error(), absl::StrCat(line.address(), ": "));
    const std::string to = absl::StrCat("connecting to ", line.address());
    proto::Wait* wait = Add({NodeName(node), false, to}, node.node, node.daemon,
                            SlowestStep(*node.activity), waited);
    if (!error.empty()) wait->set_doing(absl::StrCat(to, ": ", error));
    wait->set_text(absl::StrFormat("%s: %s for %d s%s", NodeName(node), to,
                                   absl::ToInt64Seconds(waited),
                                   error.empty() ? "" : absl::StrCat(": ", error)));
    return;
  }
  if (shard == nullptr || !(silent || Owes(node, line, *shard))) return;
  Owed& owed = owed_[shard];
  owed.nodes.push_back(node.node);
  owed.clock =
      std::min(owed.clock, line.connected() ? line.oldest_clock() : SlowestStep(*node.activity));
  owed.for_time = std::max(owed.for_time, waited);
  owed.what = InPhase(node, "seeding")     ? "first weights"
              : InPhase(node, "finishing") ? "last requests"
                                           : "pushes";
}

// Returns whether the node waits for more pushes than the shard has from it, and neither number
// changes.
bool Diagnosis::MissesPushes(const NodeScene& node, const proto::ShardActivity& line,
                             const ShardScene& shard, const proto::NodeClock& own) const {
  if (!InPhase(node, "training") || line.unanswered() <= own.unanswered()) return false;
  if (node.lines_since == nullptr || shard.nodes_since == nullptr) return false;
  const auto& lines = node.activity->shards();
  const auto line_at = std::find_if(lines.begin(), lines.end(),
                                    [&](const proto::ShardActivity& one) { return &one == &line; });
  const size_t own_index = &own - shard.nodes->data();
  return now_ - node.lines_since->at(line_at - lines.begin()) >= timing_.show_after &&
         now_ - shard.nodes_since->at(own_index) >= timing_.show_after;
}

// Returns whether the shard could have answered the node's oldest request, by the reports of both.
// These are of different times; only facts that have held long enough count.
bool Diagnosis::Owes(const NodeScene& node, const proto::ShardActivity& line,
                     const ShardScene& shard) const {
  if (InPhase(node, "seeding")) return true;  // waits for nobody
  const proto::NodeClock* own = FindClock(node, shard);
  if (own == nullptr) return false;
  const absl::Time said_at = now_ - ActivityAge(node);
  const absl::Time asked_at = said_at - absl::Milliseconds(line.oldest_ms());
  const uint64_t clock = line.oldest_clock();
  const bool may_be_there =
      own->clock() > clock || (own->clock() == clock && line.oldest_chunk() != own->chunk() &&
                               (line.oldest_chunk() < own->chunk() || own->unanswered() > 0));
  if (!own->retired() && (!may_be_there || !scene_.staleness)) {
    return shard.nodes_at - asked_at >= timing_.show_after;
  }
  if (MissesPushes(node, line, shard, *own)) return true;
  // A retired node requests the final weights, which exist once all have retired.
  for (const proto::NodeClock& other : *shard.nodes) {
    if (other.node() == node.node || other.retired()) continue;
    // With a quorum the nodes' clocks do not tell who waits for whom.
    const bool may_wait_for_it = scene_.has_quorum || other.clock() + *scene_.staleness <= clock;
    if (own->retired() || may_wait_for_it) return false;
  }
  return said_at - shard.least_since >= timing_.show_after;
}

// Finds waits that the reports of aggregators and ranks do not explain.
void Diagnosis::FindLagging() {
  for (const ShardScene& shard : scene_.shards) {
    const absl::Duration waited =
        now_ - (scene_.has_quorum ? LastPushAt(shard) : shard.least_since);
    if (shard.nodes == nullptr || waited < timing_.unexplained_after) continue;
    const uint64_t least = LeastClock(*shard.nodes);
    const bool anybody_ahead = std::any_of(
        shard.nodes->begin(), shard.nodes->end(),
        [&](const proto::NodeClock& node) { return !node.retired() && node.clock() > least; });
    if (scene_.has_local_steps && !anybody_ahead) continue;
    for (const NodeScene& node : scene_.nodes) {
      for (const proto::NodeClock& clock : *shard.nodes) {
        if (clock.node() != node.node || clock.retired()) continue;
        // With a quorum, others wait for the nodes that wait for nothing.
        if (scene_.has_quorum ? clock.unanswered() > 0 : clock.clock() > least) continue;
        Add({NodeName(node), true,
             absl::StrFormat("has not pushed chunk %d to server %s (shard %d)", clock.chunk(),
                             shard.daemon, shard.shard)},
            node.node, node.daemon, least, waited);
      }
    }
  }
}

void Diagnosis::AddServer(const ShardScene& shard, const Owed& owed) {
  std::string doing = IsSilent(shard.heard_at) ? "silent, does not answer " : "does not answer ";
  if (owed.nodes.size() == 1) {
    absl::StrAppendFormat(&doing, "node %d's %s", owed.nodes[0], owed.what);
  } else {
    absl::StrAppendFormat(&doing, "the %s of %d nodes", owed.what, owed.nodes.size());
  }
  Add({absl::StrFormat("server %s (shard %d, %s)", shard.daemon, shard.shard, shard.address), true,
       doing},
      owed.nodes[0], shard.daemon, owed.clock, owed.for_time);
}

// Identifies the subject of a wait, whatever it does and however long.
std::string WaitKey(const proto::Wait& wait) {
  size_t end = wait.text().size();
  for (const char* next : {" at step ", " for ", ": "}) {
    end = std::min(end, wait.text().find(next));
  }
  return wait.text().substr(0, end);
}

}  // namespace

uint64_t LeastClock(const std::vector<proto::NodeClock>& nodes) {
  uint64_t least = UINT64_MAX;
  for (const proto::NodeClock& node : nodes) {
    if (!node.retired()) least = std::min<uint64_t>(least, node.clock());
  }
  return least;
}

std::vector<proto::Wait> Diagnose(const JobScene& scene, absl::Time now,
                                  const DiagnosisTiming& timing) {
  if (scene.forms_ring) return {};  // the job's reason says who is gone
  return Diagnosis(scene, now, timing).Find();
}

std::vector<std::string> StallLog::OnWaits(const proto::JobStatus& job,
                                           const std::vector<proto::Wait>& waits, absl::Time now) {
  const std::string name = absl::StrFormat("job %d (%s)", job.job_id(), job.name());
  std::vector<std::string> lines;
  const size_t longest = std::min(waits.size(), options_.lines_max);
  bool any = false;
  for (size_t i = 0; i < longest; ++i) {
    const proto::Wait& wait = waits[i];
    if (absl::Seconds(wait.seconds()) < options_.log_after) break;
    any = true;
    seconds_ = std::max(seconds_, wait.seconds());
    const auto [logged, is_new] = logged_at_.try_emplace(WaitKey(wait), now);
    if (!is_new && now - logged->second < options_.again_every) continue;
    logged->second = now;
    stalled_ = true;
    lines.push_back(absl::StrCat(name, " waits: ", wait.text()));
  }
  if (!any) {
    if (stalled_) {
      lines.push_back(
          absl::StrFormat("%s goes on, after it had waited for %d s", name, int64_t(seconds_)));
    }
    stalled_ = false;
    seconds_ = 0;
  }
  std::erase_if(logged_at_,
                [&](const auto& item) { return now - item.second >= 2 * options_.again_every; });
  return lines;
}

}  // namespace strata::server
