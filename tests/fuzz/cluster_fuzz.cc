// A cluster file and a trace: refused with one line, or a cluster on which a job has a place or one
// line why not, and whose ranks compute for no negative time.
//
// Input: the cluster's text; after a 0 byte, the trace's.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "compare/virtual_time/cluster_file.h"
#include "compare/virtual_time/compute_time.h"
#include "compare/virtual_time/job_hosts.h"
#include "tests/fuzz/check.h"

namespace strata::compare {
namespace {

void CheckRefusal(const absl::Status& status) {
  FUZZ_CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  FUZZ_CHECK(!status.message().empty());
}

void Place(const proto::Cluster& cluster) {
  proto::Job job;
  job.set_ranks(3);
  job.set_window(4);
  proto::Layout layout;
  layout.set_elements(100000);
  for (const proto::Job::Exchange exchange : {proto::Job::PARAMETER_SERVER, proto::Job::RING}) {
    job.set_exchange(exchange);
    const absl::StatusOr<JobPlaces> places = PlaceJob(job, cluster, layout, 64);
    if (!places.ok()) {
      CheckRefusal(places.status());
      continue;
    }
    uint32_t ranks = 0;
    for (const proto::LogicalNode& node : places->record.view().nodes()) ranks += node.ranks();
    FUZZ_CHECK(ranks == 3);
  }
}

void Fuzz(const std::string& text, const std::string& trace) {
  const absl::StatusOr<std::vector<double>> times = ParseTrace(trace, "trace");
  if (!times.ok()) CheckRefusal(times.status());
  absl::StatusOr<proto::Cluster> cluster = ParseCluster(text, "fuzz");
  if (!cluster.ok()) return CheckRefusal(cluster.status());
  FillClusterDefaults(&*cluster);
  if (absl::Status valid = CheckCluster(*cluster); !valid.ok()) return CheckRefusal(valid);
  ClusterFile file{.cluster = *std::move(cluster), .traces = {}};
  for (const proto::NodeGroup& group : file.cluster.nodes()) {
    if (!group.compute().has_trace_file()) continue;
    file.traces[group.compute().trace_file()] = times.ok() ? *times : std::vector<double>{1.0};
  }
  FUZZ_CHECK(!DescribeCluster(file).empty());
  for (int group = 0; group < file.cluster.nodes_size(); ++group) {
    const ComputeTime time(file, group, 1, 0);
    for (const uint64_t step : {uint64_t{0}, uint64_t{1}, UINT64_MAX}) {
      FUZZ_CHECK(time.Of(step) >= absl::ZeroDuration());
    }
  }
  Place(file.cluster);
}

}  // namespace
}  // namespace strata::compare

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string input(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(input.find('\0'), size);
  strata::compare::Fuzz(input.substr(0, end), end < size ? input.substr(end + 1) : "");
  return 0;
}
