#include "server/coordinator/jobs/view_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "common/job/job.h"
#include "common/job/views.h"
#include "common/require.h"

namespace strata::server {
namespace {

constexpr uint32_t kViewNumberMax = uint32_t{1} << 30;

void AddNode(uint32_t first_rank, uint32_t ranks, proto::View* view) {
  const auto number = static_cast<uint32_t>(view->nodes_size());
  proto::LogicalNode* const node = view->add_nodes();
  node->set_node(number);
  node->set_first_rank(first_rank);
  node->set_ranks(ranks);
}

// Adds the vacant places of an elastic job.
void AddAbsent(proto::JobRecord* record) {
  const proto::Job& job = record->job();
  proto::View* const view = record->mutable_view();
  for (uint32_t first = view->nodes_size() * job.ranks_per_node(); first < job.ranks_max();
       first += job.ranks_per_node()) {
    AddNode(first, job.ranks_per_node(), view);
    view->mutable_nodes(view->nodes_size() - 1)->set_absent(true);
  }
}

// Copies into the record who participated in the job that it resumes from.
void TakeHistory(const proto::JobRecord& from, proto::JobRecord* record) {
  const uint32_t began =
      IsElastic(from.job()) ? 0 : record->job().ranks() / record->job().ranks_per_node();
  for (proto::LogicalNode& node : *record->mutable_view()->mutable_nodes()) {
    const int place = static_cast<int>(node.node());
    const bool was_there = place < from.view().nodes_size() && !from.view().nodes(place).absent();
    node.set_absent(IsElastic(from.job()) ? !was_there : node.node() >= began);
  }
  for (const proto::ViewChange& change : from.view_changes()) {
    const bool is_past = change.at_clock() <= record->resume().clock();
    if (is_past) *record->add_view_changes() = change;
  }
}

// Makes the nodes that continue, among the first `count`, participate from the checkpoint's clock.
void ChangeTo(size_t count, proto::JobRecord* record) {
  const absl::StatusOr<Views> views = Views::Of(*record);
  STRATA_REQUIRE(views.ok());
  proto::ViewChange change;
  change.set_number(HighestViewNumber(*record) + 1);
  change.set_at_clock(record->resume().clock());
  for (const proto::LogicalNode& node : record->view().nodes()) {
    const bool has = views->Has(NodeId(node.node()), record->resume().clock());
    const bool goes_on = node.node() < count;
    if (goes_on && !has) change.add_joined(node.node());
    if (!goes_on && has) change.add_left(node.node());
  }
  if (change.joined().empty() && change.left().empty()) return;
  *record->add_view_changes() = change;
}

}  // namespace

void LayOutNodes(const std::vector<RankBlock>& blocks, const proto::JobRecord& from,
                 proto::JobRecord* record) {
  proto::View* const view = record->mutable_view();
  view->Clear();
  view->set_number(1);
  record->clear_view_changes();
  for (const RankBlock& block : blocks) AddNode(block.first_rank, block.ranks, view);
  const proto::Job& job = record->job();
  if (!IsElastic(job)) return;
  STRATA_REQUIRE(job.ranks_per_node() > 0);
  for (const RankBlock& block : blocks) STRATA_REQUIRE(block.ranks == job.ranks_per_node());
  AddAbsent(record);
  if (!record->has_resume()) return;
  TakeHistory(from, record);
  ChangeTo(blocks.size(), record);
  for (proto::ViewChange& change : *record->mutable_view_changes()) {
    change.set_job_id(record->job_id());
    change.set_attempt(record->attempt());
  }
}

absl::Status CheckHistory(const proto::JobRecord& from, proto::JobRecord record) {
  STRATA_REQUIRE(record.has_resume());
  if (!IsElastic(record.job())) return absl::OkStatus();
  if (record.resume().clock() == 0) {
    return absl::InvalidArgumentError("the checkpoint is of clock 0, before which no node trains");
  }
  record.mutable_view()->set_number(1);
  AddAbsent(&record);
  TakeHistory(from, &record);
  // Every further change needs a number.
  if (const uint32_t number = HighestViewNumber(record); number > kViewNumberMax) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "change %d of the job's nodes: at most %d are possible", number, kViewNumberMax));
  }
  return Views::Of(record).status();
}

uint32_t HighestViewNumber(const proto::JobRecord& record) {
  uint32_t highest = record.view().number();
  for (const proto::ViewChange& change : record.view_changes()) {
    highest = std::max(highest, change.number());
  }
  return highest;
}

}  // namespace strata::server
