#ifndef STRATA_CLI_OPTIONS_KEY_OPTIONS_H_
#define STRATA_CLI_OPTIONS_KEY_OPTIONS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/options/invocation.h"
#include "common/control/credentials.h"
#include "common/keys/identity.h"
#include "common/keys/key_file.h"

namespace strata::cli {

// How a command or daemon authenticates to a coordinator at a HOST:PORT. A Unix socket needs
// nothing.
struct KeyOptions {
  std::string file;       // empty: KeyFileOf, if that exists
  std::string join_file;  // for daemons
  int fd = -1;            // the file's content from the process that started the daemon
  bool insecure = false;
};

// --keys and --insecure, for commands.
void AddKeyOptions(CLI::App* command, KeyOptions* options);
// The same for daemons, and --join-file.
void AddDaemonKeyOptions(CLI::App* command, KeyOptions* options);

// Returns the default key file: $XDG_CONFIG_HOME/strata/ROLE-NAME.pem, or the same in ~/.config
// (hosts may share a home); for a user, user.pem there, or $STRATA_KEYS. Empty: there is no home.
std::string KeyFileOf(keys::Role role, const std::string& name);

// Returns a command's credentials. A certificate older than a day is renewed if possible; if it
// expires soon, a warning says why that failed.
control::Credentials CredentialsOfUser(const KeyOptions& options, const std::string& coordinator,
                                       absl::Duration deadline);

// Returns a daemon's credentials. The daemon joins first if it has a token and no valid keys, or
// keys of another cluster. An empty `name` becomes that of the certificate. Errors: those of
// control::Join, ReadKeyFile and of the token's file; FailedPrecondition: the keys are another
// daemon's.
absl::StatusOr<control::Credentials> CredentialsOfDaemon(const KeyOptions& options, keys::Role role,
                                                         const std::string& coordinator,
                                                         absl::Duration deadline,
                                                         std::string* name);

// The default name of a daemon on this host: HOSTNAME, for a server HOSTNAME-server, as names of
// daemons are unique in a cluster.
std::string NameOfDaemon(keys::Role role);

// Reads the token in a file ("-": standard input), joins, and writes the key file. Errors: see
// there.
absl::StatusOr<keys::KeyFile> JoinWithFile(const std::string& join_file,
                                           const std::string& coordinator, absl::Duration deadline,
                                           keys::Role role, const std::string& name,
                                           const std::string& key_file);

// Reads keys that another process passed in a descriptor, and closes it. Errors: InvalidArgument.
absl::StatusOr<keys::KeyFile> ReadKeysFrom(int fd);

}  // namespace strata::cli

#endif  // STRATA_CLI_OPTIONS_KEY_OPTIONS_H_
