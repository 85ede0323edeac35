#ifndef STRATA_COMMON_TESTING_OTHER_USER_H_
#define STRATA_COMMON_TESTING_OTHER_USER_H_

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata {

inline constexpr uid_t kOtherUser = 12345;

// Runs `call`, which returns whether everything was as expected, in a process of another user.
// Returns false if that is impossible: it requires root, in a namespace that knows other users,
// unlike Bazel's sandbox.
template <typename Call>
bool AsOtherUser(const Call& call) {
  constexpr int kGood = 0, kBad = 1, kImpossible = 2;
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(kOtherUser, kOtherUser, kOtherUser) != 0) _exit(kImpossible);
    _exit(call() ? kGood : kBad);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kImpossible) return false;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == kGood);
  return true;
}

// Connects to a Unix socket, whoever listens there. Invalid: it cannot.
inline UniqueFd ConnectBlindly(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path);
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.Reset();
  return fd;
}

}  // namespace strata

#endif  // STRATA_COMMON_TESTING_OTHER_USER_H_
