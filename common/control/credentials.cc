#include "common/control/credentials.h"

#include <utility>

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
  return keys::ReadKeyFile(path_);
}

}  // namespace strata::control
