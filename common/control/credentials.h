#ifndef STRATA_COMMON_CONTROL_CREDENTIALS_H_
#define STRATA_COMMON_CONTROL_CREDENTIALS_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/keys/key_file.h"

namespace strata::control {

// How a process and the coordinator at a HOST:PORT authenticate each other. A Unix socket needs no
// credentials: there the kernel names the peer's user.
class Credentials {
 public:
  enum class Kind {
    kNone,      // a HOST:PORT is not dialed
    kInsecure,  // no encryption, no authentication
    kKeys,      // mutual TLS
    kJoining,   // TLS; only the coordinator authenticates itself
  };

  Credentials() = default;  // kNone
  static Credentials Insecure();
  // The file is read again for each connection, so that a renewed certificate is used.
  static Credentials File(std::string path);
  static Credentials Of(keys::KeyFile keys);
  // For a process without a certificate. `authority`: SHA-256 of the root that must have signed the
  // coordinator's certificate, 32 bytes.
  static Credentials Joining(std::string authority);

  Kind kind() const { return kind_; }
  // Empty: the keys are in memory.
  const std::string& path() const { return path_; }
  const std::string& authority() const { return authority_; }
  // REQUIRES: kKeys. Errors: those of keys::ReadKeyFile, with what a member can do about them.
  absl::StatusOr<keys::KeyFile> Keys() const;

 private:
  Kind kind_ = Kind::kNone;
  std::string path_;
  std::optional<keys::KeyFile> keys_;
  std::string authority_;
};

// The metadata key of the JoinRequest of a Join call, as bytes; the call's message is empty.
// Anybody with a token may join, so the coordinator reads no message before it has checked the
// token: gRPC limits metadata to 8 KiB, and a message to the size of the largest job.
inline constexpr char kJoinMetadata[] = "strata-join-bin";

// The largest request: a name, a token's secret and a request for a certificate.
inline constexpr size_t kJoinBytesMax = 4096;

// Prefix of ListNodesReply.security if the cluster has keys; its name follows.
inline constexpr char kHasKeys[] = "mutual TLS, cluster ";

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_CREDENTIALS_H_
