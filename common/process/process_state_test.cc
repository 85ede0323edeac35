#include "common/process/process_state.h"

#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/process/process.h"
#include "gtest/gtest.h"

namespace strata {
namespace {

// Polls until the process is in `state`; false at the deadline.
bool Becomes(pid_t pid, const std::string& state) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (ProcessState(pid) != state) {
    if (absl::Now() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

TEST(ProcessState, TellsRunningFromStoppedAndGone) {
  EXPECT_EQ(ProcessState(getpid()), "running");
  Process::Spec spec;
  spec.args = {"sleep", "100"};
  auto process = Process::Start(spec);
  ASSERT_TRUE(process.ok()) << process.status();
  const pid_t pid = (*process)->pid();
  EXPECT_TRUE(Becomes(pid, "running"));
  (*process)->Signal(SIGSTOP);
  EXPECT_TRUE(Becomes(pid, "stopped by a signal"));
  (*process)->Signal(SIGCONT);
  EXPECT_TRUE(Becomes(pid, "running"));
  (*process)->Signal(SIGKILL);
  EXPECT_TRUE(Becomes(pid, "gone")) << "not reaped";
  (*process)->Reap();
  EXPECT_EQ(ProcessState(pid), "gone");
}

TEST(ProcessState, TellsTheCpuTimeThatAProcessHasUsed) {
  const auto used = [] {
    timespec time = {};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000 + time.tv_nsec / 1'000'000;
  };
  while (used() < 100) {
  }
  // The kernel counts in ticks.
  EXPECT_GE(ProcessCpuMs(getpid()) + 20, 100u);
  EXPECT_LE(ProcessCpuMs(getpid()), used() + 20);
  EXPECT_EQ(ProcessCpuMs(-1), 0u);
}

TEST(ProcessState, IsNotMisledByAProcessesName) {
  ASSERT_EQ(prctl(PR_SET_NAME, "a) T (b"), 0);
  EXPECT_EQ(ProcessState(getpid()), "running");
}

}  // namespace
}  // namespace strata
