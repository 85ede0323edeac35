#include "server/coordinator/access/own_keys.h"

#include "absl/strings/str_cat.h"
#include "common/keys/verify.h"

namespace strata::server {

absl::Status CheckOwnKeys(const keys::KeyFile& own, const std::string& origin,
                          const std::string& renewal, absl::Time now) {
  const std::string who = keys::IdentityText(own.identity);
  if (own.identity.role != keys::Role::kCoordinator) {
    return absl::FailedPreconditionError(absl::StrCat(
        origin, ": is of ", who,
        ", not of a coordinator: `strata keys init` makes its keys in the state's folder, and "
        "`strata keys import` makes a file of them with an authority of your own"));
  }
  // Verify cannot know what renews it here.
  const absl::Time ends = own.chain.front().not_after();
  if (ends < now) {
    return absl::FailedPreconditionError(absl::StrCat(
        origin, ": the certificate of ", who, " expired at ", keys::TimeText(ends), ": ", renewal));
  }
  const auto counts = keys::Verify(own.chain, own.trust(), now, {.makes_tokens = false});
  if (counts.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(origin, ": ", counts.status().message()));
}

}  // namespace strata::server
