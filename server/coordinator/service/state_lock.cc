#include "server/coordinator/service/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/file/own_folder.h"

namespace strata::server {

absl::StatusOr<UniqueFd> LockState(const std::string& directory) {
  if (absl::Status made = MakeOwnFolders(directory); !made.ok()) return made;
  const std::string file = directory + "/lock";
  UniqueFd lock(open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  if (!lock.valid()) {
    return absl::InternalError(absl::StrCat(file, ": ", std::strerror(errno)));
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    return absl::UnavailableError(
        absl::StrCat(directory, ": another coordinator uses this state directory"));
  }
  return lock;
}

}  // namespace strata::server
