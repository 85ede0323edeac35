#ifndef STRATA_SERVER_COORDINATOR_ACCESS_CALLER_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_CALLER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/keys/identity.h"
#include "proto/control.pb.h"

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
};

// "worker w1", "the coordinator's user", "a stranger".
std::string CallerText(const Caller& caller);

// What a call is about.
enum class Right {
  kJoin,   // to become a member, with a token
  kRenew,  // to get a new certificate in place of one's own
  kServe,  // to be a server or worker
  kUse,    // to submit, cancel, follow and list jobs
  kRule,   // to make tokens, list keys and revoke them
};
// Whether somebody may. Errors: Unauthenticated: a stranger; PermissionDenied; each in one line.
absl::Status Allow(const Caller& caller, Right right);
// Whether a daemon may register under that role and name: only its own. Errors: PermissionDenied.
absl::Status AllowRegistration(const Caller& caller, const proto::Register& registration);

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_CALLER_H_
