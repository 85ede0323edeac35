#include "server/coordinator/access/caller.h"

namespace strata::server {

std::string CallerText(const Caller& caller) {
  if (caller.kind == Caller::Kind::kMember) return keys::IdentityText(caller.identity);
  return caller.kind == Caller::Kind::kOwner ? "the coordinator's user" : "a stranger";
}

}  // namespace strata::server
