#ifndef STRATA_SERVER_COORDINATOR_ACCESS_CALLER_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_CALLER_H_

#include <string>

#include "absl/time/time.h"
#include "common/keys/identity.h"
#include "server/coordinator/access/policy.h"

namespace strata::server {

// Who asks the coordinator for something.
struct Caller {
  enum class Kind {
    kStranger,  // has shown no certificate
    kMember,    // has one of the cluster that counts
    kOwner,     // a process of the coordinator's user on its host, or whoever reaches a coordinator
                // that was told to take everybody
  };
  Kind kind = Kind::kStranger;
  keys::Identity identity = {};        // of a member
  absl::Time certificate_begins = {};  // of a member
  UserRights rights = {};              // of a member that is a user

  bool is_user() const { return kind == Kind::kMember && identity.role == keys::Role::kUser; }
};

// "worker w1", "the coordinator's user", "a stranger".
std::string CallerText(const Caller& caller);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_CALLER_H_
