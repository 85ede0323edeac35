#include "worker/testing/reforming_nodes.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/transport/sim/random.h"
#include "gtest/gtest.h"

namespace strata::worker {
namespace {

constexpr int kDroppingEventsMax = 2'000'000;

AllReduceWorld::Options Dropping(AllReduceWorld::Options options) {
  absl::StrAppend(&options.job, " on_loss: DROP ranks_per_node: 1 ranks: ", options.nodes);
  return options;
}

}  // namespace

absl::Status ReformingNodes::Do(uint32_t node, const WireAction& action, CoreActions* next) {
  ReformingCore& core = *cores_[node];
  if (action.kind == WireAction::Kind::kConnect) {
    const std::string& address = core.address(action.link);
    for (uint32_t peer = 0; peer < cores_.size(); ++peer) {
      if (record_.ring().endpoints(static_cast<int>(peer)) != address) continue;
      if (cores_[peer] == nullptr) break;
      ends_.push_back({node});
      ends_.push_back({peer});
      const transport::ConnectionId connection(ends_.size() - 2);
      return core.OnLinkEvent(LinkEvent::Connected(action.link, connection), kNow, next);
    }
    return core.OnLinkEvent(LinkEvent::ConnectFailed(action.link, absl::UnavailableError("gone")),
                            kNow, next);
  }
  const uint64_t at = action.connection.value(), to = at ^ 1;
  if (action.kind == WireAction::Kind::kAdmit || !ends_[at].open) return absl::OkStatus();
  if (action.kind == WireAction::Kind::kClose) {
    ends_[at].open = false;
    on_the_way_.push_back([this, to] { Lost(to); });
    return absl::OkStatus();
  }
  const wire::Header& header = action.frame.header;
  const bool is_lost = lost_ && header.op == wire::Op::kGather && header.chunk == lost_->first &&
                       ends_[to].node == lost_->second;
  if (is_lost) return absl::OkStatus();
  on_the_way_.push_back([this, to, frame = action.frame] {
    const uint32_t peer = ends_[to].node;
    if (cores_[peer] == nullptr || !ends_[to].open) return;
    failures_[peer].Update(Call(peer, [&](CoreActions* actions) {
      return cores_[peer]->OnLinkEvent(LinkEvent::Frame(transport::ConnectionId(to), frame), kNow,
                                       actions);
    }));
  });
  return absl::OkStatus();
}

void ReformingNodes::Lost(uint64_t end) {
  const uint32_t node = ends_[end].node;
  if (cores_[node] == nullptr || !std::exchange(ends_[end].open, false)) return;
  EXPECT_TRUE(Call(node, [&](CoreActions* actions) {
                return cores_[node]->OnLinkEvent(
                    LinkEvent::Lost(transport::ConnectionId(end), absl::UnavailableError("closed")),
                    kNow, actions);
              }).ok());
}

absl::Status ReformingNodes::Do(uint32_t node, const NodeAction& action, CoreActions* next) {
  switch (action.kind) {
    case NodeAction::Kind::kFirstWeights:
      return cores_[node]->OnPayload(action, Floats(0.5), {}, kNow, next);
    case NodeAction::Kind::kSum:
      ++sums_[node];
      return cores_[node]->OnPayload(action, Floats(static_cast<float>(8 * (node + action.clock))),
                                     {.samples = 8}, kNow, next);
    case NodeAction::Kind::kDeliver:
      if (!action.weights.empty()) last_ = action.weights;  // slices may be empty
      if (!action.lands) break;
      made_[node].push_back(action);
      made_[node].back().weights = last_;
      break;
    default:
      break;
  }
  return absl::OkStatus();
}

DroppingWorld::DroppingWorld(const AllReduceWorld::Options& options)
    : options_(Dropping(options)),
      network_(options.seed),
      record_(AllReduceWorld::RecordOf(options_)),
      courses_(options.nodes),
      number_(record_.view().number()) {
  record_.set_samples_per_epoch(uint64_t{kSamples} * options.nodes * options.clocks);
  network_.set_faults(options.faults);
  for (uint32_t n = 0; n < options.nodes; ++n) {
    members_[0].push_back(n);
    nodes_.push_back(std::make_unique<TrainingNode>(&network_, NodeOptions(n)));
  }
}

TrainingNode::Options DroppingWorld::NodeOptions(uint32_t node) {
  TrainingNode::Options of;
  of.core.record = record_;
  of.core.node = NodeId(node);
  of.core.incarnation = 1;
  of.core.timing = options_.timing;
  of.name = absl::StrCat("n", node);
  of.listen = record_.ring().endpoints(static_cast<int>(node));
  of.clocks = options_.clocks;
  of.in_step = true;
  of.samples = kSamples;
  of.on_step = [this, node](uint64_t clock, const std::vector<float>& weights) {
    courses_[node][clock] = weights;
  };
  of.first_weight = [](uint64_t i) { return AllReduceWorld::FirstWeight(i); };
  of.gradient = [node, seed = options_.seed](uint64_t clock, uint64_t i) {
    return AllReduceWorld::Gradient(seed, node, clock, i);
  };
  return of;
}

absl::Duration DroppingWorld::SomeTime(absl::Duration most) {
  return network_.random().Between(absl::Microseconds(10), most);
}

void DroppingWorld::KillAt(uint32_t node, absl::Duration after) {
  network_.After(after, [this, node] { Kill(node); });
}

void DroppingWorld::KillAfter(uint32_t node, uint64_t frames, bool of_barrier) {
  const auto chunks = static_cast<uint32_t>((options_.elements + options_.chunk_elements - 1) /
                                            options_.chunk_elements);
  network_.set_observer(
      [=, this, name = absl::StrCat("n", node), left = std::make_shared<uint64_t>(frames)](
          transport::SimNote note, const std::string& from, const std::string&,
          transport::ConnectionId, const wire::Header* header) {
        if (note != transport::SimNote::kSent || from != name || header == nullptr) return;
        if (header->op != wire::Op::kReduce && header->op != wire::Op::kGather) return;
        if (of_barrier && header->chunk != chunks) return;
        if ((*left)-- != 1) return;
        network_.After(absl::ZeroDuration(), [this, node] { Kill(node); });
      });
}

void DroppingWorld::Kill(uint32_t node) {
  if (!nodes_[node]->alive() || nodes_[node]->is_over()) return;
  nodes_[node]->Kill();
  network_.After(SomeTime(absl::Milliseconds(20)), [this, node] { OnDeath(node); });
}

void DroppingWorld::Say(uint32_t node, const std::function<void()>& what) {
  const int times = network_.random().Chance(0.2) ? 2 : 1;
  for (int i = 0; i < times; ++i) {
    network_.After(SomeTime(absl::Milliseconds(5)), [this, node, what] {
      if (nodes_[node]->alive() && nodes_[node]->status().ok()) what();
    });
  }
}

std::vector<uint32_t> DroppingWorld::Left() const {
  std::vector<uint32_t> left;
  for (uint32_t n = 0; n < nodes_.size(); ++n) {
    if (!dropped_.contains(n) && !finished_.contains(n)) left.push_back(n);
  }
  return left;
}

std::vector<uint32_t> DroppingWorld::MembersAt(uint64_t step) const {
  return std::prev(members_.upper_bound(step))->second;
}

void DroppingWorld::OnDeath(uint32_t node) {
  dropped_.insert(node);
  AskAll();
}

void DroppingWorld::OnFinished(uint32_t node) {
  finished_.insert(node);
  nodes_[node]->Exit();
  if (is_asking_) DecideIfAllHaveAnswered();
}

void DroppingWorld::AskAll() {
  answers_.clear();
  is_asking_ = true;
  ++number_;
  for (const uint32_t node : Left()) {
    Say(node, [this, node, number = number_] {
      const absl::StatusOr<StoppedRing> stopped = nodes_[node]->StopRing(number);
      network_.After(SomeTime(absl::Milliseconds(5)),
                     [=, this] { OnStopped(node, number, stopped); });
    });
  }
}

void DroppingWorld::OnStopped(uint32_t node, uint32_t number,
                              const absl::StatusOr<StoppedRing>& stopped) {
  if (number != number_ || !is_asking_) return;
  if (!stopped.ok()) {
    failure_ = stopped.status();
    return;
  }
  answers_[node] = *stopped;
  DecideIfAllHaveAnswered();
}

void DroppingWorld::DecideIfAllHaveAnswered() {
  const std::vector<uint32_t> left = Left();
  uint64_t least = UINT64_MAX, most = 0;
  bool is_over = !finished_.empty();
  for (const uint32_t node : left) {
    const auto answer = answers_.find(node);
    if (answer == answers_.end()) return;
    least = std::min(least, answer->second.clock);
    most = std::max(most, answer->second.clock);
    is_over = is_over || answer->second.is_over;
  }
  is_asking_ = false;
  if (left.empty()) return;
  EXPECT_LE(most, least + 1);
  proto::FormRing forming;
  forming.set_clock(most);
  forming.set_some_lack(least < most);
  forming.set_is_over(is_over);
  forming.mutable_change()->set_number(number_);
  forming.mutable_nodes()->Add(left.begin(), left.end());
  if (is_over) {
    EXPECT_EQ(least, options_.clocks);
  } else {
    ++rings_;
    lacking_ += forming.some_lack() ? 1 : 0;
    members_.erase(members_.lower_bound(most), members_.end());
    members_[most] = left;
  }
  for (const uint32_t node : left) {
    Say(node, [this, node, forming] { nodes_[node]->FormRing(forming); });
    if (die_at_forming_.contains(node)) KillAt(node, SomeTime(absl::Milliseconds(10)));
  }
}

bool DroppingWorld::Run() {
  for (const auto& node : nodes_) node->Start();
  for (int events = 0; events < kDroppingEventsMax && failure_.ok(); ++events) {
    bool all_over = true;
    for (uint32_t n = 0; n < nodes_.size(); ++n) {
      TrainingNode& node = *nodes_[n];
      all_over = all_over && node.is_over();
      if (!node.alive() || !node.is_over() || !node.status().ok()) continue;
      if (!ending_.insert(n).second) continue;
      courses_[n][options_.clocks] = node.weights();
      network_.After(SomeTime(absl::Milliseconds(20)), [this, n] { OnFinished(n); });
    }
    if (all_over) return true;
    if (!network_.RunOne()) return false;
  }
  return !failure_.ok();
}

}  // namespace strata::worker
