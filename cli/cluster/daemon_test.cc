#include "cli/cluster/daemon.h"

#include <signal.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "cli/program/invocation.h"
#include "common/process/stop_request.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

// A daemon that has started is told to end, and `leave` happens while it leaves the cluster.
class DaemonTest : public ::testing::Test {
 protected:
  int Run(const std::function<void()>& leave) {
    DaemonSteps steps;
    steps.start = [] { return absl::OkStatus(); };
    steps.ready_line = [] { return kill(getpid(), SIGTERM), "ready"; };
    steps.notice = absl::Hours(1);
    steps.leave = leave;
    steps.has_left = [this] { return has_left_; };
    steps.stop = [this] { is_stopped_ = true; };
    return RunDaemon(&request_, steps);
  }

  StopRequest request_;
  bool has_left_ = false, is_stopped_ = false;
};

TEST_F(DaemonTest, EndsOnceItHasLeft) {
  EXPECT_EQ(Run([this] { has_left_ = true; }), kExitOk);
  EXPECT_TRUE(is_stopped_);
}

TEST_F(DaemonTest, AnotherSignalEndsItAtOnce) {
  EXPECT_EQ(Run([] { kill(getpid(), SIGINT); }), kExitOk);
  EXPECT_TRUE(is_stopped_);
}

TEST_F(DaemonTest, WhatEndsItMeanwhileIsNoGoodEnd) {
  EXPECT_EQ(Run([this] { request_.Raise(absl::UnavailableError("no coordinator")); }), kExitFailed);
  EXPECT_TRUE(is_stopped_);
}

}  // namespace
}  // namespace strata::cli
