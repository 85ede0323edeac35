#include "common/job/views.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/require.h"

namespace strata {
namespace {

absl::Status Refuse(const proto::ViewChange& change, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrFormat("change %d of the job's nodes: %s", change.number(), what));
}

bool IsEmpty(const proto::ViewChange& change) {
  return change.joined().empty() && change.left().empty();
}

}  // namespace

absl::StatusOr<Views> Views::Of(const proto::JobRecord& record) {
  Views views;
  views.nodes_.assign(record.view().nodes().begin(), record.view().nodes().end());
  std::sort(views.nodes_.begin(), views.nodes_.end(),
            [](const auto& a, const auto& b) { return a.first_rank() < b.first_rank(); });
  views.number_ = record.view().number();
  views.first_clock_ = record.resume().clock();
  std::vector<bool> has;
  for (const proto::LogicalNode& node : views.nodes_) has.push_back(!node.absent());
  views.Append(0, views.number_, std::move(has));
  for (const proto::ViewChange& change : record.view_changes()) {
    if (absl::Status added = views.Add(change); !added.ok()) return added;
  }
  return views;
}

absl::Status Views::Add(const proto::ViewChange& change) {
  const auto known = std::lower_bound(
      changes_.begin(), changes_.end(), change.number(),
      [](const proto::ViewChange& one, uint32_t number) { return one.number() < number; });
  if (known != changes_.end() && known->number() == change.number()) {
    if (known->SerializeAsString() == change.SerializeAsString()) return absl::OkStatus();
    return Refuse(change, "it is another one than before");
  }
  if (stretches_.empty()) return Refuse(change, "the job has none");
  if (change.number() <= number_) {
    return Refuse(change, absl::StrFormat("it comes after number %d", number_));
  }
  if (!IsEmpty(change)) {
    absl::StatusOr<std::vector<bool>> has = Apply(change);
    if (!has.ok()) return has.status();
    Append(change.at_clock(), change.number(), *std::move(has));
  }
  number_ = change.number();
  changes_.push_back(change);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<bool>> Views::Apply(const proto::ViewChange& change) const {
  const uint64_t at = change.at_clock(), before = newest_clock();
  // A job may resume from a checkpoint with other nodes than those that reached it.
  if (at == 0 || at < before || (at == before && at > first_clock_)) {
    return Refuse(change, absl::StrFormat("it is at clock %d, after that at clock %d", at, before));
  }
  std::vector<bool> has = stretches_.back().has;
  std::vector<bool> named(nodes_.size(), false);
  for (const bool joins : {false, true}) {
    for (const uint32_t node : joins ? change.joined() : change.left()) {
      const std::optional<size_t> place = PlaceOf(node);
      if (!place) return Refuse(change, absl::StrCat("the job has no node ", node));
      if (named[*place]) return Refuse(change, absl::StrFormat("node %d stands there twice", node));
      if (has[*place] == joins) {
        return Refuse(change, absl::StrFormat("node %d is %s", node,
                                              joins ? "in the job already" : "not in the job"));
      }
      named[*place] = true;
      has[*place] = joins;
    }
  }
  if (std::find(has.begin(), has.end(), true) != has.end()) return has;
  return Refuse(change, "it leaves no node in the job");
}

void Views::Append(uint64_t from, uint32_t number, std::vector<bool> has) {
  Stretch next{.from = from, .number = number, .has = std::move(has)};
  for (size_t place = 0; place < nodes_.size(); ++place) {
    if (next.has[place]) next.ranks += nodes_[place].ranks();
  }
  if (!stretches_.empty()) next.rank_steps_before = RankStepsBefore(from);
  stretches_.push_back(std::move(next));
}

const Views::Stretch& Views::At(uint64_t clock) const {
  STRATA_REQUIRE(!stretches_.empty());
  const auto after =
      std::upper_bound(stretches_.begin() + 1, stretches_.end(), clock,
                       [](uint64_t value, const Stretch& stretch) { return value < stretch.from; });
  return *(after - 1);
}

std::optional<size_t> Views::PlaceOf(uint32_t node) const {
  for (size_t place = 0; place < nodes_.size(); ++place) {
    if (nodes_[place].node() == node) return place;
  }
  return std::nullopt;
}

bool Views::Has(NodeId node, uint64_t clock) const {
  const std::optional<size_t> place = PlaceOf(node.value());
  return place && At(clock).has[*place];
}

bool Views::HasEver(NodeId node) const {
  if (Has(node, first_clock_)) return true;
  return JoinedAt(node) > 0;
}

std::vector<NodeId> Views::NodesAt(uint64_t clock) const {
  std::vector<NodeId> nodes;
  const Stretch& stretch = At(clock);
  for (size_t place = 0; place < nodes_.size(); ++place) {
    if (stretch.has[place]) nodes.push_back(NodeId(nodes_[place].node()));
  }
  return nodes;
}

std::optional<uint32_t> Views::IndexOf(RankId rank, uint64_t clock) const {
  const Stretch& stretch = At(clock);
  uint32_t before = 0;
  for (size_t place = 0; place < nodes_.size(); ++place) {
    const proto::LogicalNode& node = nodes_[place];
    const bool is_its_node =
        rank.value() >= node.first_rank() && rank.value() - node.first_rank() < node.ranks();
    if (is_its_node) {
      if (!stretch.has[place]) return std::nullopt;
      return before + (rank.value() - node.first_rank());
    }
    if (stretch.has[place]) before += node.ranks();
  }
  return std::nullopt;
}

uint64_t Views::RankStepsBefore(uint64_t clock) const {
  const Stretch& stretch = At(clock);
  return stretch.rank_steps_before + (clock - stretch.from) * stretch.ranks;
}

uint64_t Views::JoinedAt(NodeId node) const {
  const std::optional<size_t> place = PlaceOf(node.value());
  if (!place) return 0;
  for (size_t i = stretches_.size(); i-- > 1;) {
    if (stretches_[i].from <= first_clock_) break;
    if (stretches_[i].has[*place] && !stretches_[i - 1].has[*place]) return stretches_[i].from;
  }
  return 0;
}

std::optional<uint64_t> Views::LeavesAt(NodeId node) const {
  const std::optional<size_t> place = PlaceOf(node.value());
  if (!place || stretches_.back().has[*place]) return std::nullopt;
  for (size_t i = stretches_.size(); i-- > 1;) {
    if (stretches_[i - 1].has[*place]) return stretches_[i].from;
  }
  return std::nullopt;
}

absl::StatusOr<proto::JobRecord> WithRing(const proto::JobRecord& record,
                                          const proto::FormRing& forming, NodeId node) {
  const proto::View& view = record.view();
  if (record.ring().endpoints_size() != view.nodes_size()) {
    return absl::InvalidArgumentError(absl::StrFormat("ring.endpoints has %d entries for %d nodes",
                                                      record.ring().endpoints_size(),
                                                      view.nodes_size()));
  }
  proto::JobRecord formed = record;
  formed.mutable_view()->clear_nodes();
  formed.mutable_ring()->clear_endpoints();
  formed.mutable_view()->set_number(forming.change().number());
  const auto& members = forming.nodes();
  for (int i = 0; i < view.nodes_size(); ++i) {
    if (std::find(members.begin(), members.end(), view.nodes(i).node()) == members.end()) continue;
    *formed.mutable_view()->add_nodes() = view.nodes(i);
    formed.mutable_ring()->add_endpoints(record.ring().endpoints(i));
  }
  if (formed.view().nodes_size() != members.size()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("ring %d is to have %d nodes, of which the job has %d",
                        forming.change().number(), members.size(), formed.view().nodes_size()));
  }
  if (std::find(members.begin(), members.end(), node.value()) == members.end()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("ring %d does not have node %d", forming.change().number(), node.value()));
  }
  return formed;
}

}  // namespace strata
