#include "worker/client/c/strata_client_views.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/client/c/client_calls.h"
#include "worker/client/c/sized.h"
#include "worker/client/client_views.h"

namespace {

using strata::client::Run;
using strata::client::StepRanks;

// Whether the job has begun, and so has its nodes, and the caller has room for the answer.
absl::Status ExpectStarted(const strata_client& client, const void* answer, const char* name) {
  if (answer == nullptr) return absl::InvalidArgumentError(absl::StrCat(name, ": ranks: is null"));
  if (client.has_started) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(name, ": before strata_start"));
}

void Write(const StepRanks& from, strata_step_ranks* to) {
  strata::client::WriteSized({.makes_it = from.makes_it ? 1 : 0,
                              .rank = from.rank,
                              .ranks = from.ranks,
                              .rank_steps_before = from.rank_steps_before},
                             to);
}

}  // namespace

extern "C" {

strata_code strata_ranks_at(strata_client* client, uint64_t step, strata_step_ranks* ranks) {
  constexpr char kName[] = "strata_ranks_at";
  return Run(client, kName, [&] {
    if (absl::Status status = ExpectStarted(*client, ranks, kName); !status.ok()) return status;
    const absl::StatusOr<StepRanks> found = client->client->views().At(step);
    if (!found.ok()) return found.status();
    Write(*found, ranks);
    return absl::OkStatus();
  });
}

strata_code strata_ranks_at_if_known(strata_client* client, uint64_t step, int* known,
                                     strata_step_ranks* ranks) {
  constexpr char kName[] = "strata_ranks_at_if_known";
  return Run(client, kName, [&] {
    if (known == nullptr)
      return absl::InvalidArgumentError(absl::StrCat(kName, ": known: is null"));
    *known = 0;
    if (absl::Status status = ExpectStarted(*client, ranks, kName); !status.ok()) return status;
    const absl::StatusOr<std::optional<StepRanks>> found = client->client->views().AtIfKnown(step);
    if (!found.ok()) return found.status();
    if (!found->has_value()) return absl::OkStatus();
    *known = 1;
    Write(**found, ranks);
    return absl::OkStatus();
  });
}

}  // extern "C"
