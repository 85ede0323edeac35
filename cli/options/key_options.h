#ifndef STRATA_CLI_OPTIONS_KEY_OPTIONS_H_
#define STRATA_CLI_OPTIONS_KEY_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/program/invocation.h"
#include "common/control/credentials.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"

namespace strata::cli {

// How a command or daemon shows a coordinator at a HOST:PORT who it is. At a Unix socket nothing of
// it is needed.
struct KeyOptions {
  std::string file;       // empty: KeyFileOf, where one is there
  std::string join_file;  // of daemons
  int fd = -1;            // what the file would have, from whoever started the daemon
  bool insecure = false;
};

// --keys and --insecure, for commands.
void AddKeyOptions(CLI::App* command, KeyOptions* options);
// The same for daemons, and --join-file.
void AddDaemonKeyOptions(CLI::App* command, KeyOptions* options);

// Where keys lie unless it is said: $XDG_CONFIG_HOME/strata/ROLE-NAME.pem, or the same in
// ~/.config, as hosts may share a home; a user's in user.pem there, or where $STRATA_KEYS says.
// Empty: there is no home.
std::string KeyFileOf(keys::Role role, const std::string& name);

// Of a command. A certificate that is older than a day is renewed on the way, if that goes; where
// it must be soon, a warning says why not.
control::Credentials CredentialsOfUser(const KeyOptions& options, const std::string& coordinator,
                                       absl::Duration deadline);

// Of a daemon, which joins first where it is to and has no keys that count, or those of another
// cluster than the token's; `name`, where it is empty, becomes
// that of the certificate. Errors: those of control::Join, ReadKeyFile and of the token's file;
// FailedPrecondition: the keys are another daemon's.
absl::StatusOr<control::Credentials> CredentialsOfDaemon(const KeyOptions& options, keys::Role role,
                                                         const std::string& coordinator,
                                                         absl::Duration deadline,
                                                         std::string* name);

// What a daemon of this host is called unless it is said: HOSTNAME, a server HOSTNAME-server, as no
// two daemons of a cluster have one name.
std::string NameOfDaemon(keys::Role role);

// Reads the token in a file, "-": standard input, joins, and writes the key file. Errors: see
// there.
absl::StatusOr<keys::KeyFile> JoinWithFile(const std::string& join_file,
                                           const std::string& coordinator, absl::Duration deadline,
                                           keys::Role role, const std::string& name,
                                           const std::string& key_file);

// What somebody else has handed over in a descriptor, which is closed. Errors: InvalidArgument.
absl::StatusOr<keys::KeyFile> ReadKeysFrom(int fd);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_KEY_OPTIONS_H_
