// The part of JobTable for jobs whose nodes all-reduce among themselves.

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/exchange/all_reduce.h"
#include "server/coordinator/jobs/job_table.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {
namespace {

LinkCost SlowestOf(const std::vector<JobNode>& nodes) {
  LinkCost slowest{.latency_s = 0, .bytes_per_s = 1e18};
  for (const JobNode& node : nodes) {
    slowest.latency_s = std::max(slowest.latency_s, node.link->latency_us() / 1e6);
    slowest.bytes_per_s = std::min(slowest.bytes_per_s, node.link->bytes_per_s());
  }
  return slowest;
}

}  // namespace

absl::Status JobTable::CheckRing(const JobEntry& entry) {
  const std::vector<JobNode>& nodes = entry.nodes;
  if (nodes.size() < 2) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "exchange: RING needs two nodes, but all %d ranks are on worker %s: set ranks_per_node, or "
        "use PARAMETER_SERVER",
        entry.job().ranks(), nodes.empty() ? "" : nodes[0].daemon));
  }
  for (const JobNode& node : nodes) {
    if (!node.ready || !node.info.endpoint().empty()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s does not say where its aggregator listens", node.Describe()));
  }
  return absl::OkStatus();
}

// REQUIRES: all nodes are ready.
void JobTable::InstallRing(JobEntry* entry, absl::Time now) {
  if (absl::Status status = CheckRing(*entry); !status.ok()) {
    return Fail(entry, std::string(status.message()), now);
  }
  proto::JobRecord* record = entry->stored.mutable_record();
  const auto nodes = static_cast<uint32_t>(entry->nodes.size());
  const uint64_t elements = record->layout().elements();
  const uint32_t chunk_elements = entry->job().chunk_elements();
  if (elements < nodes || (chunk_elements != 0 && chunk_elements < nodes)) {
    return Fail(entry,
                absl::StrFormat("exchange: RING cuts each chunk into %d slices, one per node, but "
                                "%s has %d elements",
                                nodes, elements < nodes ? "the model" : "a chunk",
                                elements < nodes ? elements : chunk_elements),
                now);
  }
  absl::StatusOr<JobPlacement> placement = PlaceChunks(
      elements,
      chunk_elements != 0 ? chunk_elements : DefaultAllReduceChunkElements(elements, nodes), {});
  if (!placement.ok()) return Fail(entry, std::string(placement.status().message()), now);
  entry->SetPlacement(*placement, {});
  SettleConnections(entry, {});
  proto::Ring* ring = record->mutable_ring();
  ring->Clear();
  for (const JobNode& node : entry->nodes) ring->add_endpoints(node.info.endpoint());
  ring->set_algorithm(entry->job().all_reduce().algorithm());
  if (ring->algorithm() != proto::AllReduce::AUTO) {
    *entry->status().mutable_ring() = *ring;
    return Train(entry, now);
  }
  entry->phase = JobPhase::kMeasuring;
  SetReason(entry, "measures its links");
  for (const JobNode& node : entry->nodes) SendMeasure(*entry, node);
}

void JobTable::OnLinkMeasured(const std::string& daemon, const proto::LinkMeasured& message,
                              absl::Time now) {
  JobEntry* entry = Running(message.job_id());
  JobNode* node = entry == nullptr ? nullptr : entry->NodeOn(daemon);
  if (node == nullptr || entry->phase != JobPhase::kMeasuring || node->link) return;
  // As it is to be divided by.
  if (!(message.bytes_per_s() > 0) || !(message.latency_us() >= 0)) return;
  node->link = message;
  const bool all = std::all_of(entry->nodes.begin(), entry->nodes.end(),
                               [](const JobNode& other) { return other.link.has_value(); });
  if (!all) return;
  const LinkCost link = SlowestOf(entry->nodes);
  const AllReduceWork work = {.nodes = static_cast<uint32_t>(entry->nodes.size()),
                              .bytes = entry->stored.record().layout().elements() * sizeof(float),
                              .chunks = entry->status().chunks(),
                              .window = entry->job().window()};
  proto::Ring* ring = entry->stored.mutable_record()->mutable_ring();
  ring->set_algorithm(FasterAllReduce(work, link));
  ring->set_latency_us(link.latency_s * 1e6);
  ring->set_bytes_per_s(link.bytes_per_s);
  entry->status().mutable_job()->mutable_all_reduce()->set_algorithm(ring->algorithm());
  *entry->status().mutable_ring() = *ring;
  Train(entry, now);
}

}  // namespace strata::server
