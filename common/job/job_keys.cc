#include "common/job/job_keys.h"

#include "absl/strings/str_cat.h"
#include "common/seal/secret.h"

namespace strata {

absl::StatusOr<std::optional<seal::JobKeys>> KeysOf(const proto::JobRecord& record,
                                                    const std::string& own_address) {
  const proto::Job::Protection protection = record.job().protection();
  const bool is_sealed = protection == proto::Job::ENCRYPT || protection == proto::Job::SIGN;
  if (!is_sealed && record.secret().empty()) return std::nullopt;
  const absl::StatusOr<seal::Secret> secret = seal::SecretFromBytes(record.secret());
  if (!is_sealed || !secret.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection: ", proto::Job::Protection_Name(protection), " with a secret of ",
                     record.secret().size(), " bytes"));
  }
  seal::JobKeys keys;
  keys.protection =
      protection == proto::Job::SIGN ? seal::Protection::kSign : seal::Protection::kEncrypt;
  keys.secret = *secret;
  keys.attempt = record.attempt();
  keys.own_address = own_address;
  return keys;
}

}  // namespace strata
