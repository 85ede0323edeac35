#include "worker/client/c/good_exit.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"

namespace strata::client {
namespace {

using ::testing::ExitedWithCode;

void SayIt() {
  AtGoodExit([] {
    std::fputs("called\n", stderr);
    return absl::OkStatus();
  });
}

TEST(GoodExit, CallsWhatWasSetLast) {
  EXPECT_EXIT(
      {
        AtGoodExit([] { return absl::UnavailableError("never"); });
        SayIt();
        std::exit(0);
      },
      ExitedWithCode(0), "^called\n$");
}

TEST(GoodExit, CallsNothingAtABadExit) {
  EXPECT_EXIT(
      {
        SayIt();
        std::exit(3);
      },
      ExitedWithCode(3), "^$");
}

TEST(GoodExit, CallsNothingOnceThatIsNull) {
  EXPECT_EXIT(
      {
        SayIt();
        AtGoodExit(nullptr);
        std::exit(0);
      },
      ExitedWithCode(0), "^$");
}

TEST(GoodExit, AFailureIsALineAndStatus1) {
  EXPECT_EXIT(
      {
        AtGoodExit([] { return absl::UnavailableError("rank 2 is gone"); });
        std::exit(0);
      },
      ExitedWithCode(1), "^strata: the job has stopped: rank 2 is gone\n$");
}

TEST(GoodExit, AProcessThatForkedCallsNothing) {
  EXPECT_EXIT(
      {
        SayIt();
        const pid_t child = fork();
        if (child == 0) std::exit(0);
        int status = 1;
        waitpid(child, &status, 0);
        std::fputs("waited\n", stderr);
        std::exit(status);
      },
      ExitedWithCode(0), "^waited\ncalled\n$");
}

}  // namespace
}  // namespace strata::client
