#ifndef STRATA_SERVER_COORDINATOR_ACCESS_ACCESS_H_
#define STRATA_SERVER_COORDINATOR_ACCESS_ACCESS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/keys/authority.h"
#include "common/keys/certificate.h"
#include "common/keys/key_file.h"
#include "common/os/message_bounds.h"
#include "proto/keys.pb.h"
#include "server/coordinator/access/call_table.h"
#include "server/coordinator/access/key_book.h"
#include "server/coordinator/access/policy.h"
#include "server/coordinator/members/job_owner.h"
#include "server/coordinator/placement/job_protection.h"

namespace strata::server {

// The members of the cluster, and how one becomes a member.
//
// Threads: any.
class Access {
 public:
  struct Options {
    // The keys that the coordinator shows; they also decide whom it trusts. If absent, it either
    // has no port or accepts everybody.
    std::optional<keys::KeyFile> own = {};
    bool takes_everybody = false;
    // Issues certificates. If absent, another authority issues them.
    std::optional<keys::Authority> authority = {};
    proto::KeyBookRecord book = {};
    // Returns the policy at that time. If the function is empty, the policy is empty.
    std::function<std::shared_ptr<const Policy>(absl::Time)> policy = {};
    // Called with every change before it takes effect, one call at a time.
    std::function<absl::Status(const proto::KeyBookRecord&)> save = {};
  };
  explicit Access(Options options);

  const std::optional<keys::KeyFile>& own() const { return options_.own; }
  // SHA-256 of this coordinator's newest root, in hex; empty without an authority.
  std::string authority() const;
  // SHA-256 of every root that its members must trust, newest first.
  std::vector<std::string> authorities() const;
  // Describes how connections to the coordinator's port are protected.
  std::string Describe() const;

  // Identifies the caller by its chain of certificates, leaf first; an empty chain is a stranger.
  // TLS has already proved that the peer holds the leaf's key. Errors, with what to do:
  // Unauthenticated; PermissionDenied: the certificate was revoked.
  absl::StatusOr<Caller> Identify(const std::vector<keys::Certificate>& chain,
                                  absl::Time now) const;
  // Checks that an identified caller is still a member. Errors: PermissionDenied: it was revoked.
  absl::Status StillCounts(const Caller& caller) const;
  // Returns the same caller with its current rights. Errors: as StillCounts.
  absl::StatusOr<Caller> Anew(const Caller& caller, absl::Time now) const;

  // Returns whether users may be in different namespaces; otherwise everybody sees all jobs.
  bool has_tenants(absl::Time now) const;
  // Returns the policy's rules for the protection of job traffic.
  ProtectionRules rules(absl::Time now) const;
  // Returns the rights that decide which of the user's queued jobs may start now.
  QueueRights SlotsOf(const std::string& user, absl::Time now) const;

  // The calls of Keys; the caller has passed Allow. List shows what the policy grants each user.
  // Further errors: Unimplemented: there is no authority here.
  absl::StatusOr<proto::IssuedCertificate> Join(const proto::JoinRequest& request, absl::Time now);
  // SaveRenewals saves the renewal later: many may come at once, and none grants or removes a
  // right.
  absl::StatusOr<proto::IssuedCertificate> Renew(const Caller& caller,
                                                 const std::string& request_pem, absl::Time now);
  absl::Status SaveRenewals();
  absl::StatusOr<std::string> MakeToken(const proto::MakeTokenRequest& request, absl::Time now);
  // A page holds at most `bytes_max` of keys, but at least one.
  proto::ListKeysReply List(absl::Time now, const proto::ListKeysRequest& request = {},
                            size_t bytes_max = kPageBytesMax);
  // Returns whose certificates are refused from now on, and how many tokens were closed.
  absl::StatusOr<proto::RevokeReply> Revoke(const proto::RevokeRequest& request, absl::Time now);

 private:
  std::shared_ptr<const Policy> PolicyAt(absl::Time now) const;
  UserRights RightsOf(const std::string& user, const Policy& policy) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status HasAuthority() const;
  // Returns the root that signed the coordinator's own certificate: the previous one during a
  // rotation.
  std::string ShownRoot(absl::Time now) const;
  absl::Status StillCountsNow(const Caller& caller) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<proto::IssuedCertificate> Issue(const keys::CertificateRequest& request,
                                                 keys::Role role, const KeyBook::Grant& grant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Saves `book`, then replaces the current one with it.
  absl::Status Change(KeyBook book) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;  // key book excluded
  mutable absl::Mutex mutex_;
  KeyBook book_ ABSL_GUARDED_BY(mutex_);
  bool unsaved_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_ACCESS_H_
