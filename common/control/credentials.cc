#include "common/control/credentials.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace strata::control {

Credentials Credentials::Insecure() {
  Credentials credentials;
  credentials.kind_ = Kind::kInsecure;
  return credentials;
}

Credentials Credentials::File(std::string path) {
  Credentials credentials;
  credentials.kind_ = Kind::kKeys;
  credentials.path_ = std::move(path);
  return credentials;
}

Credentials Credentials::Of(keys::KeyFile keys) {
  Credentials credentials;
  credentials.kind_ = Kind::kKeys;
  credentials.keys_ = std::move(keys);
  return credentials;
}

Credentials Credentials::Joining(std::string authority) {
  Credentials credentials;
  credentials.kind_ = Kind::kJoining;
  credentials.authority_ = std::move(authority);
  return credentials;
}

absl::StatusOr<keys::KeyFile> Credentials::Keys() const {
  if (keys_.has_value()) return *keys_;
  absl::StatusOr<keys::KeyFile> keys = keys::ReadKeyFile(path_);
  if (absl::IsNotFound(keys.status())) {
    return absl::NotFoundError(
        absl::StrCat(path_, ": is not there: `strata keys join` with a token makes it"));
  }
  if (absl::IsInvalidArgument(keys.status())) {
    return absl::InvalidArgumentError(
        absl::StrCat(keys.status().message(),
                     "; take the file from a copy, or remove it and join anew with a token"));
  }
  return keys;
}

}  // namespace strata::control
