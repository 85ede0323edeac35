#include "server/coordinator/jobs/ring_placement.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_format.h"
#include "common/job/arena.h"
#include "common/job/exchange/all_reduce.h"
#include "common/require.h"
#include "server/coordinator/placement/placement.h"

namespace strata::server {
namespace {

LinkCost SlowestLink(const std::vector<JobNode>& nodes) {
  LinkCost slowest{.latency_s = 0, .bytes_per_s = 1e18};
  for (const JobNode& node : nodes) {
    STRATA_REQUIRE(node.link.has_value());
    slowest.latency_s = std::max(slowest.latency_s, node.link->latency_us() / 1e6);
    slowest.bytes_per_s = std::min(slowest.bytes_per_s, node.link->bytes_per_s());
  }
  return slowest;
}

}  // namespace

absl::Status CheckRing(const JobEntry& entry) {
  const std::vector<JobNode>& nodes = entry.nodes;
  const bool one_is_enough = entry.job().has_program();
  if (nodes.empty() || (nodes.size() < 2 && !one_is_enough)) {
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

absl::Status PlaceRing(JobEntry* entry) {
  STRATA_REQUIRE(entry->all_ready());
  if (absl::Status status = CheckRing(*entry); !status.ok()) return status;
  proto::JobRecord* record = entry->stored.mutable_record();
  const auto nodes = static_cast<uint32_t>(entry->nodes.size());
  const uint64_t elements = record->layout().elements();
  const uint32_t chunk_elements = entry->job().chunk_elements();
  if (elements < nodes || (chunk_elements != 0 && chunk_elements < nodes)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "exchange: RING cuts each chunk into %d slices, one per node, but %s has %d elements",
        nodes, elements < nodes ? "the model" : "a chunk",
        elements < nodes ? elements : chunk_elements));
  }
  const uint32_t placed_elements =
      chunk_elements != 0 ? chunk_elements : DefaultAllReduceChunkElements(elements, nodes);
  absl::StatusOr<JobPlacement> placement = PlaceChunks(elements, placed_elements, {});
  if (!placement.ok()) return placement.status();
  entry->SetPlacement(*placement, {});
  proto::Ring* ring = record->mutable_ring();
  ring->Clear();
  for (const JobNode& node : entry->nodes) ring->add_endpoints(node.info.endpoint());
  // Alone there is nothing to choose by.
  ring->set_algorithm(nodes > 1 ? entry->job().all_reduce().algorithm() : proto::AllReduce::RING);
  const proto::JobRecord& from = entry->stored.resume().from();
  const bool is_measured = ring->algorithm() == proto::AllReduce::AUTO && record->has_resume();
  if (is_measured && static_cast<uint32_t>(from.view().nodes_size()) == nodes) {
    // Sums in another order would have other bits.
    ring->set_algorithm(from.ring().algorithm());
  }
  return absl::OkStatus();
}

void ChooseRingAlgorithm(JobEntry* entry) {
  const LinkCost link = SlowestLink(entry->nodes);
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
}

}  // namespace strata::server
