#include "server/coordinator/jobs/hang_watch.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/os/process.h"
#include "server/coordinator/members/membership.h"

namespace strata::server {
namespace {

constexpr int kStepsOfPatience = 10;
// The limit for a rank's first step if the duration of the job's first step is unknown.
constexpr int kPatienceWithUnknown = 10;
// The kernel counts CPU time in hundredths of a second.
constexpr absl::Duration kCpuWindow = absl::Seconds(5);
constexpr double kBusyShare = 0.01;

bool Trains(const NodeScene& node) {
  return node.activity != nullptr && node.activity->phase() == "training";
}

// Returns the age of the aggregator's report.
absl::Duration ActivityAge(const NodeScene& node, absl::Time now) {
  return now - node.activity_at + absl::Milliseconds(node.activity->silent_ms());
}

// Returns how long the aggregator had been silent when its daemon was last heard.
absl::Duration QuietTime(const NodeScene& node) {
  return node.heard_at - node.activity_at + absl::Milliseconds(node.activity->silent_ms());
}

uint64_t SlowestStep(const NodeScene& node) {
  uint64_t step = UINT64_MAX;
  for (const proto::RankActivity& rank : node.activity->ranks()) {
    step = std::min<uint64_t>(step, rank.clock());
  }
  return step == UINT64_MAX ? node.reported_step : step;
}

bool WaitsForOthers(const NodeScene& node) {
  if (node.finished) return true;
  return node.activity != nullptr &&
         std::all_of(node.activity->ranks().begin(), node.activity->ranks().end(),
                     [](const proto::RankActivity& rank) {
                       return rank.waiting() || rank.process_state() == kProcessGone;
                     });
}

// Returns the one node that all waits are about; null: they are about several, or about a server.
const NodeScene* OnlyNode(const JobScene& scene, const std::vector<proto::Wait>& waits) {
  if (waits.empty()) return nullptr;
  const auto found =
      std::find_if(scene.nodes.begin(), scene.nodes.end(), [&](const NodeScene& node) {
        return std::all_of(waits.begin(), waits.end(), [&](const proto::Wait& wait) {
          return wait.node() == node.node && wait.daemon() == node.daemon;
        });
      });
  return found == scene.nodes.end() ? nullptr : &*found;
}

constexpr size_t kObservationsMax = 31;
// A first observation within this time of the start counts as having seen the first step.
constexpr absl::Duration kSoon = absl::Seconds(10);

}  // namespace

void HangWatch::Observe(const JobScene& scene, absl::Time now) {
  if (scene.phase != JobScene::Phase::kTraining) return;
  uint64_t slowest = UINT64_MAX;
  for (const NodeScene& node : scene.nodes) {
    if (node.finished) continue;
    if (node.activity == nullptr) return;  // its progress is unknown
    ObserveCpu(node);
    // The node's report may be from before it trained.
    slowest =
        std::min(slowest, std::max({SlowestStep(node), node.reported_step, scene.first_step}));
  }
  if (slowest == UINT64_MAX) return;
  pace_.Observe(scene.first_step, scene.training_since, slowest, now);
}

void HangWatch::ObserveCpu(const NodeScene& node) {
  for (const proto::RankActivity& rank : node.activity->ranks()) {
    const auto [it, is_new] = uses_.try_emplace(rank.rank());
    CpuUse& use = it->second;
    if (is_new || rank.cpu_ms() < use.ms) {  // another process
      use = {.ms = rank.cpu_ms(), .at = node.activity_at, .busy_at = node.activity_at};
      continue;
    }
    const absl::Duration window = node.activity_at - use.at;
    if (window < kCpuWindow) continue;
    if (absl::Milliseconds(rank.cpu_ms() - use.ms) >= kBusyShare * window) {
      use.busy_at = node.activity_at;
    }
    use.ms = rank.cpu_ms();
    use.at = node.activity_at;
  }
}

void HangWatch::Excuse(absl::Duration gap, absl::Time now) {
  pace_.Excuse(gap, now);
  for (auto& [rank, use] : uses_) {
    use.at = Excused(use.at, gap, now);
    use.busy_at = Excused(use.busy_at, gap, now);
  }
}

absl::Duration HangWatch::PatienceWith(const JobScene& scene, const NodeScene& node) const {
  const std::optional<absl::Duration> step = pace_.Median();
  if (!step) return absl::InfiniteDuration();
  const absl::Duration patience = std::max(scene.hang_after, kStepsOfPatience * *step);
  const bool has_made_a_step = node.first_step && SlowestStep(node) > *node.first_step;
  if (has_made_a_step) return patience;
  const std::optional<absl::Duration> first = pace_.first_step();
  return std::max(patience, first ? 2 * *first : kPatienceWithUnknown * scene.hang_after);
}

absl::Duration HangWatch::IdleTime(const NodeScene& node, const proto::RankActivity& rank,
                                   absl::Time now) const {
  const absl::Duration idle = absl::Milliseconds(rank.idle_ms()) + ActivityAge(node, now);
  if (rank.published() > 0 || rank.process_state() == kProcessStopped) return idle;
  const auto use = uses_.find(rank.rank());
  if (use == uses_.end() || use->second.ms == 0) return absl::ZeroDuration();
  return std::min(idle, use->second.at - use->second.busy_at);
}

std::optional<HangWatch::Culprit> HangWatch::FindCulprit(const NodeScene& node,
                                                         const DiagnosisTiming& timing,
                                                         absl::Time now) const {
  // A silent daemon reports nothing about its processes.
  if (now - node.heard_at >= timing.silent_after) return std::nullopt;
  const std::string& state = node.activity->process_state();
  if (QuietTime(node) >= timing.silent_after) {
    if (state == kProcessDebugged || state == kProcessGone) return std::nullopt;
    return Culprit{.rank = std::nullopt, .idle = ActivityAge(node, now)};
  }
  std::optional<Culprit> culprit;
  for (const proto::RankActivity& rank : node.activity->ranks()) {
    if (rank.process_state() == kProcessDebugged) return std::nullopt;
    if (rank.waiting() || rank.process_state() == kProcessGone) continue;
    const absl::Duration idle = IdleTime(node, rank, now);
    if (!culprit || idle > culprit->idle) culprit = {.rank = rank.rank(), .idle = idle};
  }
  return culprit;
}

std::optional<HungNode> HangWatch::Find(const JobScene& scene,
                                        const std::vector<proto::Wait>& waits,
                                        const DiagnosisTiming& timing, absl::Time now) const {
  if (scene.hang_after <= absl::ZeroDuration() || !scene.all_nodes_train) return std::nullopt;
  const NodeScene* const node = OnlyNode(scene, waits);
  if (node == nullptr || !Trains(*node)) return std::nullopt;
  const bool all_others_wait = std::all_of(
      scene.nodes.begin(), scene.nodes.end(),
      [&](const NodeScene& other) { return other.node == node->node || WaitsForOthers(other); });
  if (!all_others_wait) return std::nullopt;
  const std::optional<Culprit> culprit = FindCulprit(*node, timing, now);
  if (!culprit || culprit->idle < PatienceWith(scene, *node)) return std::nullopt;
  return HungNode{.node = node->node, .idle = culprit->idle, .culprit = Describe(*culprit, waits)};
}

std::string HangWatch::Describe(const Culprit& culprit, const std::vector<proto::Wait>& waits) {
  auto wait = std::find_if(waits.begin(), waits.end(), [&](const proto::Wait& one) {
    return culprit.rank ? one.has_rank() && one.rank() == *culprit.rank : !one.has_rank();
  });
  if (wait == waits.end()) wait = waits.begin();  // known only by the servers' clocks
  const std::string who =
      culprit.rank ? absl::StrCat("rank ", *culprit.rank) : std::string("aggregator");
  return absl::StrFormat("its %s at step %d: %s", who, wait->clock(), wait->doing());
}

void StepPace::Observe(uint64_t first, absl::Time since, uint64_t steps, absl::Time now) {
  if (!steps_) {
    steps_ = first;
    at_ = since;
    sees_first_step_ = steps == first || now - since <= kSoon;
  }
  if (steps <= *steps_) return;
  const uint64_t count = steps - *steps_;
  newest_.push_back({.each = (now - at_) / static_cast<int64_t>(count), .count = count});
  if (*steps_ == first && sees_first_step_) first_step_ = now - at_;
  if (newest_.size() > kObservationsMax) newest_.pop_front();
  steps_ = steps;
  at_ = now;
}

void StepPace::Excuse(absl::Duration gap, absl::Time now) { at_ = Excused(at_, gap, now); }

std::optional<absl::Duration> StepPace::Median() const {
  if (newest_.empty()) return std::nullopt;
  std::vector<Made> sorted(newest_.begin(), newest_.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const Made& a, const Made& b) { return a.each < b.each; });
  uint64_t all = 0, passed = 0;
  for (const Made& made : sorted) all += made.count;
  for (const Made& made : sorted) {
    passed += made.count;
    if (passed > all / 2) return made.each;
  }
  return sorted.back().each;
}

}  // namespace strata::server
