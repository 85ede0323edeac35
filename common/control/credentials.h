#ifndef STRATA_COMMON_CONTROL_CREDENTIALS_H_
#define STRATA_COMMON_CONTROL_CREDENTIALS_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/keys/key_file.h"

namespace strata::control {

// How a process and the coordinator at a HOST:PORT know each other. A Unix socket needs none of it:
// there the kernel says who is at the other end.
class Credentials {
 public:
  enum class Kind {
    kNone,      // a HOST:PORT is not dialled
    kInsecure,  // nothing is encrypted, and nobody knows who is who
    kKeys,      // mutual TLS
    kJoining,   // TLS; the coordinator alone shows who it is
  };

  Credentials() = default;  // kNone
  static Credentials Insecure();
  // Read anew for each connection: a renewed certificate takes the place of the old one there.
  static Credentials File(std::string path);
  static Credentials Of(keys::KeyFile keys);
  // Of a process that has no certificate yet. `authority`: SHA-256 of the root that must have
  // signed the coordinator's, 32 bytes.
  static Credentials Joining(std::string authority);

  Kind kind() const { return kind_; }
  // Empty: the keys are in memory.
  const std::string& path() const { return path_; }
  const std::string& authority() const { return authority_; }
  // Of kKeys. Errors: those of keys::ReadKeyFile, with what a member does about them.
  absl::StatusOr<keys::KeyFile> Keys() const;

 private:
  Kind kind_ = Kind::kNone;
  std::string path_;
  std::optional<keys::KeyFile> keys_;
  std::string authority_;
};

}  // namespace strata::control

#endif  // STRATA_COMMON_CONTROL_CREDENTIALS_H_
