#ifndef STRATA_COMMON_CONTROL_RENEWAL_H_
#define STRATA_COMMON_CONTROL_RENEWAL_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/control/credentials.h"
#include "common/keys/private_key.h"
#include "proto/control.pb.h"

namespace strata::control {

// Replaces a daemon's certificate over its session before it ends. Only one in a file is replaced:
// what keeps keys in memory does not live so long.
//
// Threads: one.
class Renewal {
 public:
  explicit Renewal(Credentials credentials) : credentials_(std::move(credentials)) {}

  // A session has begun. `authorities`: SHA-256 in hex of each of the cluster's roots, with commas
  // between; empty: the coordinator issues no certificates.
  void OnRegistered(const std::string& authorities, absl::Time now);
  // Returns what is to be sent once a new certificate is due; while an answer is awaited, nothing.
  std::optional<proto::DaemonMessage> Due(absl::Time now);
  // Takes the answer and writes the file. Errors: the coordinator's; those of keys::WriteKeyFile;
  // it is tried again after a while.
  absl::Status OnRenewed(const proto::CertificateRenewed& answer, absl::Time now);

 private:
  absl::Status Replace(const proto::CertificateRenewed& answer, const keys::PrivateKey& key) const;

  const Credentials credentials_;
  absl::Time due_at_ = absl::InfiniteFuture();
  std::optional<keys::PrivateKey> key_;  // that a certificate was asked for
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_RENEWAL_H_
