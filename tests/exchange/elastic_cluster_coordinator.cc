// The part of ElasticCluster that plays the coordinator: changes of nodes, and nodes that die.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/exchange/elastic_cluster.h"

namespace strata::tests {

using server::SimCopy;
using worker::ViewGate;

namespace {

constexpr int kChangesMax = 4;

}  // namespace

void ElasticCluster::Drive() {
  if (stage_ == Stage::kIdle && begun_ < kChangesMax && network_.random().Chance(0.6)) {
    BeginChange();
  } else if (stage_ == Stage::kProposing) {
    Propose();
  } else if (stage_ == Stage::kInstalling) {
    Install();
  }
  network_.After(absl::Milliseconds(4), [this] { Drive(); });
}

void ElasticCluster::BeginChange() {
  const Views views = this->views();
  change_ = proto::ViewChange();
  change_.set_job_id(record_.job_id());
  uint32_t left = 0;
  const std::vector<NodeId> present = views.NodesAt(ViewGate::kOpen - 1);
  for (uint32_t node = 0; node < kNodes; ++node) {
    if (std::count(present.begin(), present.end(), NodeId(node)) > 0) {
      if (left + 1 < present.size() && network_.random().Chance(0.4)) {
        change_.add_left(node);
        ++left;
      }
    } else {
      // One that has left may come back once its processes have ended.
      const Process* const before = processes_[node];
      const bool is_free =
          before == nullptr || (before->training->alive() && before->training->is_over());
      if (is_free && network_.random().Chance(0.5)) change_.add_joined(node);
    }
  }
  if (change_.joined().empty() && change_.left().empty()) return;
  change_.set_number(++numbers_);
  ++begun_;
  promised_.assign(kNodes, std::nullopt);
  stage_ = Stage::kProposing;
}

void ElasticCluster::Propose() {
  bool all = true, some_are_over = false;
  for (const NodeId node : views().NodesAt(ViewGate::kOpen - 1)) {
    Process* const process = processes_[node.value()];
    if (process->training->alive() && process->training->is_over()) some_are_over = true;
    if (promised_[node.value()]) continue;
    all = false;
    ToNode(process, [this, process, number = change_.number()] {
      if (!process->trains) return;  // it answers once it does, as it is asked again
      const std::optional<uint64_t> from =
          process->gate->Promise(number, [process](uint64_t) { return process->told; });
      if (from) Later([this, process, number, from] { OnPromised(*process, number, *from); });
    });
  }
  if (some_are_over || network_.random().Chance(0.01)) return GiveUp();
  if (all) Decide();
}

// What a process that has died has promised is void.
void ElasticCluster::OnPromised(const Process& process, uint32_t number, uint64_t from_clock) {
  const bool is_of_now = stage_ == Stage::kProposing && number == change_.number() &&
                         process.incarnation == incarnations_[process.node] &&
                         process.training->alive();
  if (is_of_now) promised_[process.node] = from_clock;
}

void ElasticCluster::GiveUp() {
  ++given_up_;
  stage_ = Stage::kIdle;
  proto::ViewChange none;
  none.set_job_id(change_.job_id());
  none.set_number(change_.number());
  for (const NodeId node : views().NodesAt(ViewGate::kOpen - 1)) {
    Process* const process = processes_[node.value()];
    ToNode(process, [this, process, none] { TakeChange(process, none); });
  }
}

void ElasticCluster::Decide() {
  uint64_t at = 0;
  for (const std::optional<uint64_t>& from : promised_) at = std::max(at, from.value_or(0));
  change_.set_at_clock(at);
  *record_.add_view_changes() = change_;
  EXPECT_TRUE(Views::Of(record_).ok()) << Views::Of(record_).status();
  installed_.clear();
  stage_ = Stage::kInstalling;
}

// Until every copy has said that it has it, also one that is made meanwhile.
void ElasticCluster::Install() {
  bool all = true;
  for (const Shard& shard : shards_) {
    all = all && !shard.is_lost;
    for (SimCopy* const copy : shard.Current()) {
      if (installed_.count(copy) > 0) continue;
      all = false;
      Later([this, &shard, copy, change = change_] { Install(shard, copy, change); });
    }
  }
  if (all) Tell();
}

void ElasticCluster::Install(const Shard& shard, SimCopy* copy, const proto::ViewChange& change) {
  if (!copy->is_alive()) return;
  const absl::Status changed = copy->core().ChangeView(change);
  const std::vector<SimCopy*> current = shard.Current();
  if (std::count(current.begin(), current.end(), copy) == 0) return;  // it has left
  EXPECT_TRUE(changed.ok()) << changed;
  Later([this, &shard, copy, number = change.number()] {
    if (number != change_.number() || !installed_.insert(copy).second) return;
    if (copy == shard.next) ++changed_while_filled_;
  });
}

void ElasticCluster::Tell() {
  stage_ = Stage::kIdle;
  for (const NodeId node : views().NodesAt(change_.at_clock() - 1)) {
    Process* const process = processes_[node.value()];
    ToNode(process, [this, process, change = change_] { TakeChange(process, change); });
  }
  for (const uint32_t node : change_.joined()) Begin(node);
}

void ElasticCluster::ToNode(Process* process, std::function<void()> what) {
  if (!process->training->alive()) return;
  const auto say = [process, what] {
    if (process->training->alive()) what();
  };
  const absl::Time at =
      network_.Now() + network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(20));
  process->heard_until = std::max(process->heard_until + absl::Nanoseconds(1), at);
  const absl::Duration wait = process->heard_until - network_.Now();
  network_.After(wait, say);
  if (network_.random().Chance(0.2)) {
    network_.After(wait + network_.random().Between(absl::Milliseconds(1), absl::Milliseconds(80)),
                   say);
  }
}

void ElasticCluster::TakeChange(Process* process, const proto::ViewChange& change) {
  const absl::Status taken = process->gate->Take(change, process->told);
  EXPECT_TRUE(taken.ok()) << taken;
  const std::optional<uint64_t> leaves = process->gate->views().LeavesAt(NodeId(process->node));
  if (leaves) process->training->LeaveAt(*leaves);
  process->training->GoOn();
}

void ElasticCluster::KillNode() {
  std::vector<uint32_t> alive;
  for (const Process* process : processes_) {
    const bool may_die = process != nullptr && process->trains && process->training->alive() &&
                         !process->training->is_over();
    if (may_die) alive.push_back(process->node);
  }
  if (alive.empty()) return;
  const uint32_t node = alive[network_.random().Below(alive.size())];
  ++deaths_;
  processes_[node]->training->Kill();
  promised_[node].reset();
  Later([this, node] { BeginAgain(node); });
}

// Not before each copy has a change that its record has: it has promised nothing.
void ElasticCluster::BeginAgain(uint32_t node) {
  if (stage_ == Stage::kInstalling) return Later([this, node] { BeginAgain(node); });
  Begin(node);
}

}  // namespace strata::tests
