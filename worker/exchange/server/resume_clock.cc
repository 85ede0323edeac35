#include "worker/exchange/server/resume_clock.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "common/job/consistency.h"
#include "common/require.h"

namespace strata::worker {
namespace {

bool MayDiffer(const proto::Consistency& consistency) {
  const proto::Lazy& lazy = consistency.lazy();
  return consistency.has_async() || lazy.apply() == proto::Lazy::ON_ARRIVAL || lazy.has_quorum();
}

}  // namespace

absl::StatusOr<uint64_t> FindResumeClock(const proto::JobRecord& record,
                                         absl::Span<const uint64_t> received) {
  STRATA_REQUIRE(!received.empty());
  const auto [least, most] = std::minmax_element(received.begin(), received.end());
  if (*least == *most || MayDiffer(record.job().consistency())) {
    const bool is_the_checkpoints = NodesKeepState(record.job()) || record.ranks_keep_state();
    if (is_the_checkpoints && *least < record.resume().clock()) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "the job goes on from a checkpoint of clock %d, which has %d pushes of this node only",
          record.resume().clock(), *least));
    }
    return is_the_checkpoints ? record.resume().clock() : *least;
  }
  const auto place = [&](absl::Span<const uint64_t>::iterator of) {
    const auto chunk = static_cast<int>(of - received.begin());
    const proto::Placement& placement = record.placement();
    return absl::StrFormat(
        "clock %d with chunk %d (server %s)", *of, chunk,
        placement.shard_endpoints(static_cast<int>(placement.shard_of_chunk(chunk))));
  };
  return absl::FailedPreconditionError(absl::StrFormat(
      "the job goes on from a checkpoint at %s, but at %s", place(least), place(most)));
}

}  // namespace strata::worker
