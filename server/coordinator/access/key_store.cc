#include "server/coordinator/access/key_store.h"

#include <google/protobuf/text_format.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/keys/authority.h"
#include "common/keys/private_file.h"
#include "common/keys/verify.h"

namespace strata::server {

namespace {

// Anybody who reads the authority's key can make certificates of any validity, so a short validity
// of the coordinator's own certificate, which is stored beside it, would protect nothing.
constexpr absl::Duration kAuthorityLife = absl::Hours(24 * 3653);
constexpr absl::Duration kClockDifference = absl::Minutes(5);
constexpr size_t kBookBytesMax = 64 << 20;
constexpr size_t kPemBytesMax = 64 << 10;

std::string Path(const std::string& state_dir, const std::string& file) {
  return absl::StrCat(state_dir, "/keys/", file);
}
std::string AuthorityPath(const std::string& state_dir) { return Path(state_dir, "authority.pem"); }
std::string OwnPath(const std::string& state_dir) { return Path(state_dir, "coordinator.pem"); }
std::string BookPath(const std::string& state_dir) { return Path(state_dir, "book.textproto"); }

// Adds to the error of a missing or damaged file what to do, as only a backup can restore it.
absl::Status WithHint(const absl::Status& status, const std::string& state_dir) {
  if (!absl::IsNotFound(status) && !absl::IsInvalidArgument(status)) return status;
  const std::string folder = absl::StrCat(state_dir, "/keys");
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; take ", folder, " from a copy, or remove it, say `strata ",
                   "keys init --state ", state_dir, "`, and all members join anew"));
}

absl::StatusOr<keys::Authority> LoadAuthority(const std::string& state_dir) {
  const std::string path = AuthorityPath(state_dir);
  const absl::StatusOr<std::string> pem = keys::ReadPrivateFile(path, kPemBytesMax);
  if (!pem.ok()) return pem.status();
  absl::StatusOr<keys::Authority> authority = keys::Authority::FromPem(*pem);
  if (authority.ok()) return authority;
  return absl::Status(authority.status().code(),
                      absl::StrCat(path, ": ", authority.status().message()));
}

absl::StatusOr<proto::KeyBookRecord> LoadBook(const std::string& state_dir) {
  const std::string path = BookPath(state_dir);
  const absl::StatusOr<std::string> text = keys::ReadPrivateFile(path, kBookBytesMax);
  if (absl::IsNotFound(text.status())) return proto::KeyBookRecord();
  if (!text.ok()) return text.status();
  proto::KeyBookRecord book;
  if (google::protobuf::TextFormat::ParseFromString(*text, &book)) return book;
  return absl::DataLossError(absl::StrCat(path, ": is damaged"));
}

// Creates the coordinator's own key and certificate, signed by the authority's newest root.
absl::StatusOr<keys::KeyFile> MakeOwn(const keys::Authority& authority, absl::Time now) {
  const keys::Identity identity{authority.cluster(), keys::Role::kCoordinator, "coordinator"};
  return keys::IssueKeyFile(authority, identity, now - kClockDifference, now + kAuthorityLife);
}

absl::StatusOr<keys::Authority> LoadForRotation(const std::string& state_dir) {
  absl::StatusOr<keys::Authority> authority = LoadAuthority(state_dir);
  if (!absl::IsNotFound(authority.status())) return authority;
  return absl::NotFoundError(absl::StrCat(state_dir, " has no keys: `strata keys init --state ",
                                          state_dir, "` makes them"));
}

std::string NewestRoot(const keys::Authority& authority) {
  return keys::FingerprintText(authority.roots().front().fingerprint());
}

}  // namespace

absl::StatusOr<StoredKeys> LoadKeys(const std::string& state_dir) {
  StoredKeys stored;
  absl::StatusOr<keys::Authority> authority = LoadAuthority(state_dir);
  absl::StatusOr<keys::KeyFile> own = keys::ReadKeyFile(OwnPath(state_dir));
  absl::StatusOr<proto::KeyBookRecord> book = LoadBook(state_dir);
  if (!book.ok()) return book.status();
  stored.book = *std::move(book);
  if (absl::IsNotFound(authority.status()) && absl::IsNotFound(own.status())) return stored;
  // A single file is a leftover, not a cluster without keys.
  if (!authority.ok()) return WithHint(authority.status(), state_dir);
  if (!own.ok()) return WithHint(own.status(), state_dir);
  own->roots = authority->roots();
  stored.authority = *std::move(authority);
  stored.own = *std::move(own);
  return stored;
}

bool HasAuthority(const std::string& state_dir) {
  return access(AuthorityPath(state_dir).c_str(), F_OK) == 0;
}

absl::StatusOr<std::string> InitKeys(const std::string& state_dir, const std::string& cluster,
                                     absl::Time now) {
  const absl::StatusOr<StoredKeys> there = LoadKeys(state_dir);
  if (!there.ok()) return there.status();
  if (there->own.has_value()) {
    return absl::AlreadyExistsError(
        absl::StrCat(state_dir, " has keys already, of cluster ", there->own->identity.cluster));
  }
  const auto authority = keys::Authority::Make(cluster, now, kAuthorityLife);
  if (!authority.ok()) return authority.status();
  const auto own = MakeOwn(*authority, now);
  if (!own.ok()) return own.status();
  const absl::Status saved = keys::WritePrivateFile(AuthorityPath(state_dir), authority->ToPem());
  if (!saved.ok()) return saved;
  const absl::Status written = keys::WriteKeyFile(OwnPath(state_dir), *own);
  if (!written.ok()) return written;
  return NewestRoot(*authority);
}

absl::StatusOr<std::string> RotateKeys(const std::string& state_dir, absl::Time now) {
  const auto authority = LoadForRotation(state_dir);
  if (!authority.ok()) return authority.status();
  if (authority->roots().size() > 1) {
    return absl::FailedPreconditionError(
        "a rotation is under way: end it with --finish, see `strata keys list`");
  }
  const auto next = authority->Rotated(now, kAuthorityLife);
  if (!next.ok()) return next.status();
  // An expired authority is not trusted along with it, so FinishRotation has nothing to do.
  if (next->roots().size() == 1) {
    const auto own = MakeOwn(*next, now);
    if (!own.ok()) return own.status();
    const absl::Status written = keys::WriteKeyFile(OwnPath(state_dir), *own);
    if (!written.ok()) return written;
  }
  const absl::Status saved = keys::WritePrivateFile(AuthorityPath(state_dir), next->ToPem());
  if (!saved.ok()) return saved;
  return NewestRoot(*next);
}

absl::Status FinishRotation(const std::string& state_dir, bool regardless, absl::Time now) {
  const auto authority = LoadForRotation(state_dir);
  if (!authority.ok()) return authority.status();
  if (authority->roots().size() < 2) {
    return absl::FailedPreconditionError(
        "no rotation is under way: `strata keys rotate-ca` begins one");
  }
  const auto book = LoadBook(state_dir);
  if (!book.ok()) return book.status();
  std::vector<std::string> late;
  for (const proto::IssuedKey& key : book->keys()) {
    const bool counts =
        now < absl::FromUnixMillis(key.expires_ms()) && key.revoked_ms() < key.begins_ms();
    if (counts && key.authority() != NewestRoot(*authority)) {
      late.push_back(absl::StrCat(key.role(), " ", key.name()));
    }
  }
  if (!late.empty() && !regardless) {
    return absl::FailedPreconditionError(absl::StrCat(
        "without a certificate of the new authority yet: ", absl::StrJoin(late, ", "),
        "; daemons get it once they are connected, users with their next command; --force leaves "
        "them out"));
  }
  const std::vector<keys::Certificate> newest = {authority->roots().front()};
  const auto alone =
      keys::Authority::FromPem(authority->key().ToPem() + keys::CertificatesToPem(newest));
  if (!alone.ok()) return alone.status();
  const auto own = MakeOwn(*alone, now);
  if (!own.ok()) return own.status();
  const absl::Status written = keys::WriteKeyFile(OwnPath(state_dir), *own);
  if (!written.ok()) return written;
  return keys::WritePrivateFile(AuthorityPath(state_dir), alone->ToPem());
}

absl::Status SaveBook(const std::string& state_dir, const proto::KeyBookRecord& book) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(book, &text);
  return keys::WritePrivateFile(BookPath(state_dir), text);
}

absl::Status CheckOwnKeys(const keys::KeyFile& own, const std::string& origin,
                          const std::string& renewal, absl::Time now) {
  const std::string who = keys::IdentityText(own.identity);
  if (own.identity.role != keys::Role::kCoordinator) {
    return absl::FailedPreconditionError(absl::StrCat(
        origin, ": is of ", who,
        ", not of a coordinator: `strata keys init` makes its keys in the state's folder, and "
        "`strata keys import` makes a file of them with an authority of your own"));
  }
  // Verify does not know which command renews it.
  const absl::Time ends = own.chain.front().not_after();
  if (ends < now) {
    return absl::FailedPreconditionError(absl::StrCat(
        origin, ": the certificate of ", who, " expired at ", keys::TimeText(ends), ": ", renewal));
  }
  const auto counts = keys::Verify(own.chain, own.trust(), now, {.makes_tokens = false});
  if (counts.ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(origin, ": ", counts.status().message()));
}

}  // namespace strata::server
