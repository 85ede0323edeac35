#include "cli/options/key_options.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "cli/options/options.h"
#include "common/control/keys_client.h"
#include "common/keys/join_token.h"
#include "common/keys/private_file.h"
#include "common/log.h"
#include "common/os/environment.h"
#include "common/os/unix_socket.h"
#include "common/unique_fd.h"

namespace strata::cli {
namespace {

constexpr size_t kKeyBytesMax = 256 << 10;
constexpr size_t kTokenBytesMax = 4096;
// Users get to know the cluster's newest authorities so often.
constexpr absl::Duration kUserRenewal = absl::Hours(24);
constexpr absl::Duration kRenewalDeadline = absl::Seconds(3);

// An expired certificate is useless: a daemon that has a token joins again.
bool HasEnded(const keys::KeyFile& keys) { return absl::Now() >= keys.chain.front().not_after(); }

void RenewIfOld(const std::string& path, const std::string& coordinator, absl::Duration deadline) {
  const absl::StatusOr<keys::KeyFile> keys = keys::ReadKeyFile(path);
  if (!keys.ok() || HasEnded(*keys)) return;  // the command itself says so
  const absl::Time now = absl::Now();
  if (now < keys->chain.front().not_before() + kUserRenewal) return;
  const absl::StatusOr<keys::KeyFile> renewed =
      control::Renew({.coordinator = coordinator,
                      .credentials = control::Credentials::Of(*keys),
                      .deadline = std::min(deadline, kRenewalDeadline)});
  const absl::Status written = renewed.ok() ? keys::WriteKeyFile(path, *renewed) : renewed.status();
  // Another authority's are renewed by whoever issued them.
  if (written.ok() || absl::IsUnimplemented(written)) return;
  if (now < keys::RenewAt(keys->chain.front())) return;
  LogWarning("%s is good until %s and cannot be renewed: %s", path,
             keys::TimeText(keys->chain.front().not_after()), std::string(written.message()));
}

absl::StatusOr<std::string> ReadToken(const std::string& path, keys::Role role,
                                      const std::string& name) {
  const std::string command = keys::TokenCommand(role, name);
  if (path != "-") {
    absl::StatusOr<std::string> text = keys::ReadPrivateFile(path, kTokenBytesMax);
    if (!absl::IsNotFound(text.status())) return text;
    return absl::NotFoundError(
        absl::StrCat(path, ": is not there: ", command.substr(0, command.size() - 1),
                     " --out FILE` on the coordinator's host makes one"));
  }
  std::string text(std::istreambuf_iterator<char>(std::cin), {});
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) {
    return absl::FailedPreconditionError(
        absl::StrCat("there are no keys yet, and no token on standard input: ", command,
                     " on the coordinator's host makes one"));
  }
  if (text.size() <= kTokenBytesMax) return text;
  return absl::InvalidArgumentError("standard input: is no token");
}

// Returns whether the token is for another cluster than the keys. A used token may be gone.
bool IsOfAnotherCluster(const keys::KeyFile& keys, const std::string& join_file) {
  if (join_file == "-") return false;  // may be a terminal
  const absl::StatusOr<std::string> text = keys::ReadPrivateFile(join_file, kTokenBytesMax);
  if (!text.ok()) return false;
  const absl::StatusOr<keys::JoinToken> token = keys::ParseJoinToken(*text);
  return token.ok() &&
         std::none_of(keys.roots.begin(), keys.roots.end(), [&](const keys::Certificate& root) {
           return root.fingerprint() == token->authority;
         });
}

absl::Status CheckOwner(const keys::KeyFile& keys, keys::Role role, const std::string& origin,
                        std::string* name) {
  if (keys.identity.role == role && name->empty()) *name = keys.identity.name;
  if (keys.identity.role == role && keys.identity.name == *name) return absl::OkStatus();
  const std::string by_name =
      keys.identity.role == role ? absl::StrCat("say --name ", keys.identity.name, ", or ") : "";
  return absl::FailedPreconditionError(absl::StrCat(
      origin, ": is of ", keys::IdentityText(keys.identity), ", not of a ", keys::RoleName(role),
      name->empty() ? "" : " ", *name, ": ", by_name, "name another file with --keys"));
}

// Keys from a file; the daemon joins if there are no valid ones.
absl::StatusOr<keys::KeyFile> HaveKeys(const KeyOptions& options, const std::string& path,
                                       keys::Role role, const std::string& coordinator,
                                       absl::Duration deadline, const std::string& name) {
  absl::StatusOr<keys::KeyFile> keys = control::Credentials::File(path).Keys();
  const bool joins =
      !options.join_file.empty() &&
      (absl::IsNotFound(keys.status()) ||
       (keys.ok() && (HasEnded(*keys) || IsOfAnotherCluster(*keys, options.join_file))));
  if (!joins && absl::IsNotFound(keys.status())) {
    return absl::NotFoundError(absl::StrCat(path, ": is not there: --join-file with a token of ",
                                            keys::TokenCommand(role, ""), " makes it"));
  }
  if (!joins) return keys;
  const std::string as = !name.empty() ? name
                         : keys.ok()   ? keys->identity.name
                                       : NameOfDaemon(role);
  keys = JoinWithFile(options.join_file, coordinator, deadline, role, as, path);
  if (keys.ok()) LogInfo("joined cluster %s as %s", keys->identity.cluster, as);
  return keys;
}

}  // namespace

void AddKeyOptions(CLI::App* command, KeyOptions* options) {
  CLI::Option* const file = command->add_option(
      "--keys", options->file,
      "File with the keys for a coordinator at HOST:PORT (default: $STRATA_KEYS, else "
      "~/.config/strata/user.pem)");
  command
      ->add_flag("--insecure", options->insecure,
                 "Without keys: for a coordinator that was started so, too")
      ->excludes(file);
}

void AddDaemonKeyOptions(CLI::App* command, KeyOptions* options) {
  CLI::Option* const file =
      command->add_option("--keys", options->file,
                          "File with this daemon's keys (default: ~/.config/strata/" +
                              command->get_name() + "-NAME.pem)");
  CLI::Option* const join = command->add_option(
      "--join-file", options->join_file,
      "Where there are no keys yet: file with a token of `strata keys token`, or -, to get some");
  CLI::Option* const fd = command->add_option("--keys-fd", options->fd)->group("");
  fd->excludes(file)->excludes(join);
  command
      ->add_flag("--insecure", options->insecure,
                 "Without keys: for a coordinator that was started so, too")
      ->excludes(file)
      ->excludes(join)
      ->excludes(fd);
}

std::string KeyFileOf(keys::Role role, const std::string& name) {
  const auto environment = OwnEnvironment();
  const std::string given = Variable(environment, "STRATA_KEYS");
  if (role == keys::Role::kUser && !given.empty()) return given;
  std::string folder = Variable(environment, "XDG_CONFIG_HOME");
  if (folder.empty()) {
    const std::string home = Variable(environment, "HOME");
    if (home.empty()) return "";
    folder = home + "/.config";
  }
  const bool is_user = role == keys::Role::kUser;
  return absl::StrCat(folder, "/strata/", keys::RoleName(role), is_user ? "" : "-",
                      is_user ? "" : name, ".pem");
}

control::Credentials CredentialsOfUser(const KeyOptions& options, const std::string& coordinator,
                                       absl::Duration deadline) {
  if (options.insecure) return control::Credentials::Insecure();
  if (UnixPath(coordinator)) return control::Credentials();
  const std::string path = options.file.empty() ? KeyFileOf(keys::Role::kUser, "") : options.file;
  const bool is_there = !path.empty() && access(path.c_str(), F_OK) == 0;
  if (options.file.empty() && !is_there) return control::Credentials();
  RenewIfOld(path, coordinator, deadline);
  return control::Credentials::File(path);
}

absl::StatusOr<control::Credentials> CredentialsOfDaemon(const KeyOptions& options, keys::Role role,
                                                         const std::string& coordinator,
                                                         absl::Duration deadline,
                                                         std::string* name) {
  if (options.insecure) return control::Credentials::Insecure();
  if (options.fd >= 0) {
    absl::StatusOr<keys::KeyFile> keys = ReadKeysFrom(options.fd);
    if (!keys.ok()) return keys.status();
    const absl::Status own = CheckOwner(*keys, role, "--keys-fd", name);
    if (!own.ok()) return own;
    return control::Credentials::Of(*std::move(keys));
  }
  if (UnixPath(coordinator)) return control::Credentials();
  const std::string called = name->empty() ? NameOfDaemon(role) : *name;
  const std::string path = options.file.empty() ? KeyFileOf(role, called) : options.file;
  if (path.empty() && options.join_file.empty()) return control::Credentials();
  if (path.empty()) {
    return absl::FailedPreconditionError("there is no home for keys: --keys says where they are");
  }
  const auto keys = HaveKeys(options, path, role, coordinator, deadline, *name);
  // A user who names neither keys nor a token may have none.
  const bool may_lack = options.file.empty() && options.join_file.empty();
  if (absl::IsNotFound(keys.status()) && may_lack) return control::Credentials();
  if (!keys.ok()) return keys.status();
  const absl::Status own = CheckOwner(*keys, role, path, name);
  if (!own.ok()) return own;
  return control::Credentials::File(path);
}

std::string NameOfDaemon(keys::Role role) {
  return absl::StrCat(HostName(), role == keys::Role::kServer ? "-server" : "");
}

absl::StatusOr<keys::KeyFile> JoinWithFile(const std::string& join_file,
                                           const std::string& coordinator, absl::Duration deadline,
                                           keys::Role role, const std::string& name,
                                           const std::string& key_file) {
  const absl::StatusOr<std::string> text = ReadToken(join_file, role, name);
  if (!text.ok()) return text.status();
  const absl::StatusOr<keys::JoinToken> token = keys::ParseJoinToken(*text);
  if (!token.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(join_file, ": ", token.status().message()));
  }
  // A token is not used up for keys that nobody can keep.
  const absl::Status can_be_kept = keys::WritePrivateFile(key_file + ".new", "");
  if (!can_be_kept.ok()) return can_be_kept;
  unlink((key_file + ".new").c_str());
  absl::StatusOr<keys::KeyFile> keys =
      control::Join({.coordinator = coordinator, .deadline = deadline}, *token, role, name);
  if (!keys.ok()) return keys;
  const absl::Status written = keys::WriteKeyFile(key_file, *keys);
  if (!written.ok()) return written;
  return keys;
}

absl::StatusOr<keys::KeyFile> ReadKeysFrom(int fd) {
  const UniqueFd owned(fd);
  std::string text(kKeyBytesMax, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::InvalidArgumentError("--keys-fd: cannot be read");
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return keys::ParseKeyFile(text, "--keys-fd");
}

}  // namespace strata::cli
