#include "common/keys/verify.h"

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/keys/join_token.h"
#include "common/keys/openssl_pointers.h"

namespace strata::keys {
namespace {

// 112 bits: no SHA-1 signatures, no RSA below 2048 bits.
constexpr int kSecurityLevel = 2;
constexpr int kIntermediatesMax = kCertificatesMax;

// Describes the owner of a certificate for a message. The name is only a claim as long as the
// certificate has not been verified; it helps to find the host.
std::string Whose(const Certificate& leaf) {
  const absl::StatusOr<Identity> identity = leaf.identity();
  return identity.ok() ? absl::StrCat("the certificate of ", IdentityText(*identity))
                       : std::string("its certificate");
}

std::string FingerprintOf(const Certificate& certificate) {
  return absl::StrCat("fingerprint ", FingerprintText(certificate.fingerprint()));
}

// Returns how the leaf's owner gets a valid certificate.
std::string HintFor(const Certificate& leaf, const Judge& judge) {
  if (!judge.makes_tokens) {
    return "your own authority issues a new one, and `strata keys import` makes a key file of it";
  }
  const absl::StatusOr<Identity> identity = leaf.identity();
  if (identity.ok()) return RenewHint(identity->role, identity->name);
  return "`strata keys token`, for users `strata keys user`, on the coordinator's host makes a "
         "token for a new one";
}

// The same for a certificate that does not belong here. The judge of a coordinator's is a member
// with wrong keys or a wrong address.
std::string HintForStranger(const Certificate& leaf, const Judge& judge) {
  const absl::StatusOr<Identity> identity = leaf.identity();
  const bool is_coordinators = identity.ok() && identity->role == Role::kCoordinator;
  if (!is_coordinators || !judge.makes_tokens) return HintFor(leaf, judge);
  return "look whether it is the right coordinator; then name its keys with --keys, or join with "
         "a token of it";
}

absl::Status OtherAuthority(const Certificate& leaf, const Judge& judge) {
  return absl::UnauthenticatedError(
      absl::StrCat(Whose(leaf), " is of another cluster or authority (", FingerprintOf(leaf),
                   "): ", HintForStranger(leaf, judge)));
}

absl::Status WrongSignature(const Certificate& leaf, const Judge& judge) {
  return absl::UnauthenticatedError(
      absl::StrCat(Whose(leaf), " has a wrong signature (", FingerprintOf(leaf),
                   "): it was changed or forged; ", HintFor(leaf, judge)));
}

// The error names the certificate that is not valid now: the leaf, or that of an authority above
// it.
absl::Status OutOfTime(const Certificate& leaf, const Certificate& at, bool is_leaf, absl::Time now,
                       const Judge& judge) {
  const std::string whose =
      is_leaf ? Whose(leaf) : absl::StrCat("the authority that signed ", Whose(leaf));
  if (at.not_before() > now) {
    return absl::UnauthenticatedError(absl::StrCat(whose, " is valid only from ",
                                                   TimeText(at.not_before()), ", and ", judge.clock,
                                                   " says ", TimeText(now), ": set the clocks"));
  }
  return absl::UnauthenticatedError(absl::StrCat(
      whose, " expired at ", TimeText(at.not_after()), ": ",
      is_leaf ? HintFor(leaf, judge)
              : "a new one (of `strata keys rotate-ca`, unless it is your own) has to issue new "
                "certificates"));
}

// Describes the failure of the check. `context` is in the state after the check.
absl::Status Explain(X509_STORE_CTX* context, const Certificate& leaf, absl::Time now,
                     const Judge& judge) {
  const int error = X509_STORE_CTX_get_error(context);
  switch (error) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
    case X509_V_ERR_CERT_NOT_YET_VALID: {
      const absl::StatusOr<Certificate> at =
          Certificate::FromX509(X509_STORE_CTX_get_current_cert(context));
      if (!at.ok()) return at.status();
      return OutOfTime(leaf, *at, X509_STORE_CTX_get_error_depth(context) == 0, now, judge);
    }
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
      return OtherAuthority(leaf, judge);
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_UNABLE_TO_DECRYPT_CERT_SIGNATURE:
      return WrongSignature(leaf, judge);
    case X509_V_ERR_INVALID_CA:
    case X509_V_ERR_KEYUSAGE_NO_CERTSIGN:
    case X509_V_ERR_PATH_LENGTH_EXCEEDED:
      return absl::UnauthenticatedError(
          absl::StrCat(Whose(leaf), " was signed with a certificate that may not sign others (",
                       FingerprintOf(leaf), "): ", HintFor(leaf, judge)));
    default:
      return absl::UnauthenticatedError(
          absl::StrCat(Whose(leaf), " is not acceptable (", FingerprintOf(leaf),
                       "): ", X509_verify_cert_error_string(error), "; ", HintFor(leaf, judge)));
  }
}

// Trusts only the given roots, never the host's; and a chain must end with one of them.
absl::Status CheckSignatures(const std::vector<Certificate>& chain, const Trust& trust,
                             absl::Time now, const Judge& judge) {
  const StorePointer store(X509_STORE_new());
  const StoreContextPointer context(X509_STORE_CTX_new());
  const BorrowedStackPointer others(sk_X509_new_null());
  bool is_made = store != nullptr && context != nullptr && others != nullptr;
  for (const Certificate& root : trust.roots) {
    is_made = is_made && X509_STORE_add_cert(store.get(), root.get()) == 1;
  }
  for (size_t i = 1; i < chain.size(); ++i) {
    is_made = is_made && sk_X509_push(others.get(), chain[i].get()) > 0;
  }
  const Certificate& leaf = chain.front();
  is_made =
      is_made && X509_STORE_CTX_init(context.get(), store.get(), leaf.get(), others.get()) == 1;
  if (!is_made) return absl::ResourceExhaustedError("no memory to check a certificate");
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context.get());
  X509_VERIFY_PARAM_set_time(rules, absl::ToTimeT(now));
  X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_ANY);
  X509_VERIFY_PARAM_set_auth_level(rules, kSecurityLevel);
  X509_VERIFY_PARAM_set_depth(rules, kIntermediatesMax);
  if (X509_verify_cert(context.get()) != 1) return Explain(context.get(), leaf, now, judge);
  // OpenSSL accepts old certificates without basic constraints as an authority's; this does not.
  const STACK_OF(X509)* const verified = X509_STORE_CTX_get0_chain(context.get());
  bool is_signed = sk_X509_num(verified) > 1;
  for (int i = 1; i < sk_X509_num(verified); ++i) {
    constexpr int kIsAuthority = 1;
    is_signed = is_signed && X509_check_ca(sk_X509_value(verified, i)) == kIsAuthority;
  }
  return is_signed ? absl::OkStatus() : OtherAuthority(leaf, judge);
}

// Returns whether it claims to be an authority's, or some programs accept it as one.
bool LooksLikeAnAuthority(const Certificate& leaf) {
  constexpr int kNoAuthority = 0;
  return X509_check_ca(leaf.get()) != kNoAuthority ||
         (X509_get_extension_flags(leaf.get()) & EXFLAG_CA) != 0;
}

// Returns whether the certificate is unrestricted, or permits these uses.
bool IsFor(const Certificate& leaf, Role role) {
  if ((X509_get_key_usage(leaf.get()) & X509v3_KU_DIGITAL_SIGNATURE) == 0) return false;
  const uint32_t limits = X509_get_extended_key_usage(leaf.get());
  const uint32_t needed = role == Role::kUser ? XKU_SSL_CLIENT : XKU_SSL_CLIENT | XKU_SSL_SERVER;
  return (limits & needed) == needed;
}

}  // namespace

std::string RenewHint(Role role, absl::string_view name) {
  if (role == Role::kCoordinator) {
    return "what it says when it is started makes a new one: `strata keys rotate-ca`, or `strata "
           "keys import` where the authority is your own";
  }
  return absl::StrCat(TokenCommand(role, name),
                      " on the coordinator's host makes a token for a new one");
}

absl::StatusOr<Identity> Verify(const std::vector<Certificate>& chain, const Trust& trust,
                                absl::Time now, const Judge& judge) {
  if (chain.empty()) {
    return absl::UnauthenticatedError(
        "it showed no certificate: the keys of a member of this cluster have one");
  }
  const ErrorQueueScope scope;
  const Certificate& leaf = chain.front();
  if (LooksLikeAnAuthority(leaf)) {
    return absl::UnauthenticatedError(absl::StrCat("its certificate is an authority's own (",
                                                   FingerprintOf(leaf),
                                                   "), not a member's: ", HintFor(leaf, judge)));
  }
  if (absl::Status status = CheckSignatures(chain, trust, now, judge); !status.ok()) return status;
  absl::StatusOr<Identity> identity = leaf.identity();
  if (!identity.ok()) {
    return absl::UnauthenticatedError(
        absl::StrCat("its certificate (", FingerprintOf(leaf),
                     ") does not say who it is: ", identity.status().message()));
  }
  if (identity->cluster != trust.cluster) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the certificate of ", IdentityText(*identity), " is of cluster ", identity->cluster,
        ", and this is cluster ", trust.cluster, ": ", HintForStranger(leaf, judge)));
  }
  if (!IsFor(leaf, identity->role)) {
    return absl::UnauthenticatedError(absl::StrCat(
        "the certificate of ", IdentityText(*identity),
        " is not for TLS: it needs the key usage digitalSignature and the extended key usage ",
        identity->role == Role::kUser ? "clientAuth" : "serverAuth and clientAuth"));
  }
  return identity;
}

}  // namespace strata::keys
