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
    // The keys that the coordinator shows, and so whom it believes; none: it has no port, or takes
    // everybody.
    std::optional<keys::KeyFile> own = {};
    bool takes_everybody = false;
    // Issues certificates; none: another authority does.
    std::optional<keys::Authority> authority = {};
    proto::KeyBookRecord book = {};
    // The policy at that time; empty function: an empty policy.
    std::function<std::shared_ptr<const Policy>(absl::Time)> policy = {};
    // Called with every change before it counts, one call at a time.
    std::function<absl::Status(const proto::KeyBookRecord&)> save = {};
  };
  explicit Access(Options options);

  const std::optional<keys::KeyFile>& own() const { return options_.own; }
  // SHA-256 of the newest root of the authority here, in hex; empty: there is none.
  std::string authority() const;
  // The same of all roots that its members are to trust, the newest first.
  std::vector<std::string> authorities() const;
  // Returns what protects the way to the coordinator's port, in words.
  std::string Describe() const;

  // Whom a chain of certificates, the leaf first, shows; none: a stranger. TLS has shown by then
  // that the other side has the leaf's key. Errors, with what to do: Unauthenticated;
  // PermissionDenied: it was revoked.
  absl::StatusOr<Caller> Identify(const std::vector<keys::Certificate>& chain,
                                  absl::Time now) const;
  // Checks that an identified caller still counts. Errors: PermissionDenied: it was revoked.
  absl::Status StillCounts(const Caller& caller) const;
  // The same caller with what they may do now. Errors: the same.
  absl::StatusOr<Caller> Anew(const Caller& caller, absl::Time now) const;

  // Returns whether users may be in different namespaces: else all of them see all jobs.
  bool has_tenants(absl::Time now) const;
  // The policy's rules for how jobs protect what they send.
  ProtectionRules rules(absl::Time now) const;
  // The rights that decide which of the user's jobs may leave the queue now.
  QueueRights SlotsOf(const std::string& user, absl::Time now) const;

  // The calls of Keys, past Allow. List tells what users may do, as the policy says it. Errors
  // besides: Unimplemented: no authority is here.
  absl::StatusOr<proto::IssuedCertificate> Join(const proto::JoinRequest& request, absl::Time now);
  // That there is a new one is saved by SaveRenewals, as many may come at once and none of them
  // takes or gives a right.
  absl::StatusOr<proto::IssuedCertificate> Renew(const Caller& caller,
                                                 const std::string& request_pem, absl::Time now);
  absl::Status SaveRenewals();
  absl::StatusOr<std::string> MakeToken(const proto::MakeTokenRequest& request, absl::Time now);
  // A page has at most `bytes_max` of keys, but one at least.
  proto::ListKeysReply List(absl::Time now, const proto::ListKeysRequest& request = {},
                            size_t bytes_max = kPageBytesMax);
  // Returns whose certificates are refused from now on, and how many tokens were closed.
  absl::StatusOr<proto::RevokeReply> Revoke(const proto::RevokeRequest& request, absl::Time now);

 private:
  std::shared_ptr<const Policy> PolicyAt(absl::Time now) const;
  UserRights RightsOf(const std::string& user, const Policy& policy) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status HasAuthority() const;
  // The root that has signed what the coordinator shows: during a rotation the one before.
  std::string ShownRoot(absl::Time now) const;
  absl::Status StillCountsNow(const Caller& caller) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<proto::IssuedCertificate> Issue(const keys::CertificateRequest& request,
                                                 keys::Role role, const KeyBook::Grant& grant)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes `book` in the place of the one that is there, once it is saved.
  absl::Status Change(KeyBook book) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;  // without the book
  mutable absl::Mutex mutex_;
  KeyBook book_ ABSL_GUARDED_BY(mutex_);
  bool unsaved_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_COORDINATOR_ACCESS_ACCESS_H_
