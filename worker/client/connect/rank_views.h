#ifndef STRATA_WORKER_CLIENT_CONNECT_RANK_VIEWS_H_
#define STRATA_WORKER_CLIENT_CONNECT_RANK_VIEWS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/job/views.h"
#include "proto/processes.pb.h"
#include "worker/client/client_parts.h"
#include "worker/client/rank_link.h"

namespace strata::client {

// The ranks of each step, as the rank's link learns them.
//
// Threads: one.
class RankViews final : public ClientViews {
 public:
  // Both outlive it; `link` may be null until Begin.
  RankViews(const proto::Launch& launch, RankLink* link) : launch_(launch), link_(link) {}

  // The link has started. Errors: InvalidArgument: its changes are inconsistent.
  absl::Status Begin(const RunFacts& run);

  absl::StatusOr<StepRanks> At(uint64_t step) override;
  absl::StatusOr<std::optional<StepRanks>> AtIfKnown(uint64_t step) override;
  // The rank has finished after `steps` steps. Ranks that have died meanwhile (Job.on_loss) do not
  // count for the next step, whose ranks share the final work. Errors: InvalidArgument: as of
  // Begin.
  absl::Status End(uint64_t steps);
  // Like At, for a step that this rank must make. Errors: those of At; OutOfRange.
  absl::StatusOr<StepRanks> Expect(uint64_t step);

 private:
  StepRanks Of(uint64_t step) const;

  const proto::Launch& launch_;
  RankLink* const link_;
  std::optional<Views> views_;     // of a job whose nodes may change
  std::optional<uint64_t> ended_;  // steps, if ranks that died are left out after them
};

}  // namespace strata::client

#endif  // STRATA_WORKER_CLIENT_CONNECT_RANK_VIEWS_H_
