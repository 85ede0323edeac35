#include "worker/client/c/process_guards.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
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

constexpr size_t kBytes = 8192;

char* ReadOnly() {
  void* memory = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<char*>(memory);
}

TEST(WriteGuardDeathTest, AWriteNamesWhatItHits) {
  char* const memory = ReadOnly();
  const auto write = [memory](size_t at) {
    GuardWrites({{memory, 4096, "first"}, {memory + 4096, 4000, "second"}});
    *const_cast<volatile char*>(memory + at) = 1;
  };
  EXPECT_EXIT(write(4095), testing::KilledBySignal(SIGSEGV), "wrote to \"first\"");
  EXPECT_EXIT(write(4096), testing::KilledBySignal(SIGSEGV), "wrote to \"second\"");
}

TEST(WriteGuardDeathTest, AnotherFaultIsWhatItWas) {
  char* const memory = ReadOnly();
  const auto write = [memory] {
    GuardWrites({{memory, 4096, "first"}});
    *const_cast<volatile char*>(memory + 4096) = 1;
  };
  EXPECT_EXIT(write(), testing::KilledBySignal(SIGSEGV), "^$");
}

TEST(WriteGuardDeathTest, NoRangesNameNothing) {
  char* const memory = ReadOnly();
  const auto write = [memory] {
    GuardWrites({{memory, 4096, "first"}});
    GuardWrites({});
    *const_cast<volatile char*>(memory) = 1;
  };
  EXPECT_EXIT(write(), testing::KilledBySignal(SIGSEGV), "^$");
}

}  // namespace
}  // namespace strata::client
