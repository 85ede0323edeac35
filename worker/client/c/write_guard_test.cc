#include "worker/client/c/write_guard.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace strata::client {
namespace {

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
