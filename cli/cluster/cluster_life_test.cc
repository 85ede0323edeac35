#include "cli/cluster/cluster_life.h"

#include <signal.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/cluster/daemon.h"
#include "cli/options/invocation.h"
#include "common/os/stop_request.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// The order in which a cluster's daemons are started and stopped, whoever runs them.

namespace strata::cli {

namespace {

using testing::ElementsAre;

// Daemons that exist in the log only.
class FakeStarter : public DaemonStarter {
 public:
  absl::StatusOr<std::unique_ptr<RunningDaemon>> Start(const DaemonSpec& spec,
                                                       Events events) override {
    log.push_back(absl::StrCat("start ", absl::StrJoin(spec.args, " ")));
    if (spec.title == refused) return absl::NotFoundError("no such file");
    events_[spec.title] = std::move(events);
    return std::make_unique<Daemon>(this, spec.title);
  }
  void Ready(const std::string& title, const std::string& line = " ready ") {
    events_.at(title).on_ready(line);
  }
  void End(const std::string& title, const std::string& why) { events_.at(title).on_end(why); }

  bool Reaches(const std::string& host) const override { return host != lost_host; }

  std::vector<std::string> log;
  std::string refused;
  std::string lost_host = "none";

 private:
  class Daemon : public RunningDaemon {
   public:
    Daemon(FakeStarter* starter, const std::string& title) : starter_(starter), title_(title) {}
    void Signal(int signal) override {
      starter_->log.push_back(absl::StrCat(signal == SIGTERM ? "stop " : "kill ", title_));
    }

   private:
    FakeStarter* starter_;
    const std::string title_;
  };

  std::map<std::string, Events> events_;
};

class ClusterLifeTest : public testing::Test {
 protected:
  ClusterLifeTest() {
    options_.plan = {{DaemonRole::kCoordinator, {"c", "", {"coordinator"}}},
                     {DaemonRole::kServer, {"s0", "", {"server"}}},
                     {DaemonRole::kWorker, {"w0", "", {"worker", "0"}}},
                     {DaemonRole::kWorker, {"w1", "", {"worker", "1"}}}};
  }
  void Create() {
    life_.emplace(
        &loop_, &starter_, options_,
        ClusterLife::Callbacks{
            nullptr, [this](const absl::Status& status) { ready_ = status; },
            [this](const PlannedDaemon& daemon, const std::string& why) {
              lost_.push_back(absl::StrCat(daemon.spec.title, ": ", why));
            },
            [this](const PlannedDaemon& daemon, const std::string& why, absl::Duration delay) {
              restarts_.push_back(
                  absl::StrCat(daemon.spec.title, ": ", why, " ", absl::FormatDuration(delay)));
            }});
  }
  void StartAll() {
    life_->Start();
    starter_.Ready("c", "strata coordinator ready address=h:1 state=x");
    for (const char* title : {"s0", "w0", "w1"}) starter_.Ready(title);
    ASSERT_EQ(ready_, absl::OkStatus());
    starter_.log.clear();
  }

  // Runs the loop for all of them, one every 100 ms.
  void RunInTurn(const std::vector<std::function<void()>>& steps) {
    absl::Duration at;
    for (const auto& step : steps) loop_.After(at += absl::Milliseconds(100), step);
    loop_.After(at + absl::Milliseconds(1), [this] { loop_.Stop(); });
    loop_.Run();
  }

  EventLoop loop_;
  FakeStarter starter_;
  ClusterLife::Options options_;
  std::optional<ClusterLife> life_;
  std::optional<absl::Status> ready_;
  std::vector<std::string> lost_, restarts_;
};

TEST_F(ClusterLifeTest, StartsOneDaemonAfterTheOtherAndTellsEachWhereTheCoordinatorIs) {
  Create();
  life_->Start();
  EXPECT_THAT(starter_.log, ElementsAre("start coordinator"));
  starter_.Ready("c", "strata coordinator ready address=0.0.0.0:7070 state=x");
  EXPECT_THAT(starter_.log, ElementsAre("start coordinator",
                                        "start server --coordinator "
                                        "0.0.0.0:7070"));
  starter_.Ready("s0");
  starter_.Ready("w0");
  EXPECT_EQ(ready_, std::nullopt);
  starter_.Ready("w1");
  EXPECT_EQ(ready_, absl::OkStatus());
  EXPECT_EQ(starter_.log.back(), "start worker 1 --coordinator 0.0.0.0:7070");
}

TEST_F(ClusterLifeTest, OthersReachTheCoordinatorUnderTheHostThatIsGiven) {
  options_.coordinator_host = "head";
  Create();
  life_->Start();
  starter_.Ready("c", "strata coordinator ready address=0.0.0.0:4711 state=x");
  EXPECT_EQ(life_->coordinator(), "head:4711");
  EXPECT_EQ(starter_.log.back(), "start server --coordinator head:4711");
}

TEST_F(ClusterLifeTest, StopsWorkersThenServersThenTheCoordinator) {
  Create();
  StartAll();
  bool done = false;
  life_->Stop([&] { done = true; });
  EXPECT_THAT(starter_.log, ElementsAre("stop w0", "stop w1"));
  starter_.End("w1", "");
  EXPECT_EQ(starter_.log.size(), 2u);
  starter_.End("w0", "");
  EXPECT_EQ(starter_.log.back(), "stop s0");
  starter_.End("s0", "");
  EXPECT_EQ(starter_.log.back(), "stop c");
  EXPECT_FALSE(done);
  starter_.End("c", "");
  EXPECT_TRUE(done);
}

TEST_F(ClusterLifeTest, ADaemonThatCannotStartOrEndsBeforeItIsReadyIsNamed) {
  starter_.refused = "s0";
  Create();
  life_->Start();
  starter_.Ready("c", "address=h:1 ");
  EXPECT_EQ(ready_, absl::UnavailableError("s0: no such file"));
  bool done = false;
  life_->Stop([&] { done = true; });
  EXPECT_EQ(starter_.log.back(), "stop c") << "what has started is stopped";
  starter_.End("c", "");
  EXPECT_TRUE(done);

  starter_.refused = "";
  ready_.reset();
  Create();
  life_->Start();
  starter_.End("c", "port in use");
  EXPECT_EQ(ready_, absl::UnavailableError("c: port in use"));
}

TEST_F(ClusterLifeTest, ADaemonThatEndsLaterIsLostAndIsNotStoppedAgain) {
  Create();
  StartAll();
  starter_.End("w0", "killed by signal 9 (Killed)");
  EXPECT_THAT(lost_, ElementsAre("w0: killed by signal 9 (Killed)"));
  life_->Stop([] {});
  EXPECT_THAT(starter_.log, ElementsAre("stop w1"));
}

TEST_F(ClusterLifeTest, OneThatEndsIsBegunAgainWithItsOptionsAfterAGrowingDelay) {
  options_.plan[0].spec.args = {"coordinator", "--listen", "h:0"};
  options_.supervision = {.first_delay = absl::Milliseconds(10),
                          .longest_delay = absl::Milliseconds(30),
                          .restarts_max = 10};
  Create();
  StartAll();
  RunInTurn({
      [this] {
        starter_.End("w0", "killed by signal 9 (Killed)");
        EXPECT_THAT(starter_.log, ElementsAre()) << "not at once";
      },
      [this] {
        EXPECT_THAT(starter_.log, ElementsAre("start worker 0 --coordinator h:1"));
        starter_.Ready("w0");
        starter_.End("c", "killed by signal 9 (Killed)");
      },
      [this] {
        EXPECT_EQ(starter_.log.back(), "start coordinator --listen h:1") << "where it was";
        starter_.Ready("c", "strata coordinator ready address=h:1 state=x");
        starter_.refused = "s0";
        starter_.End("s0", "status 1");
      },
      [this] {
        EXPECT_GE(restarts_.size(), 5u) << "one that cannot be started is tried again";
        starter_.refused = "";
      },
      [this] {
        EXPECT_EQ(starter_.log.back(), "start server --coordinator h:1");
        life_->Stop([] {});
        EXPECT_THAT(starter_.log.back(), "stop w1") << "w0, too, is stopped";
      },
  });
  restarts_.resize(5);
  EXPECT_THAT(restarts_, ElementsAre("w0: killed by signal 9 (Killed) 10ms",
                                     "c: killed by signal 9 (Killed) 10ms", "s0: status 1 10ms",
                                     "s0: no such file 20ms", "s0: no such file 30ms"));
  EXPECT_THAT(lost_, ElementsAre());
}

TEST_F(ClusterLifeTest, OneOnAHostThatIsLostIsNotBegunAgain) {
  options_.supervision = {.first_delay = absl::ZeroDuration()};
  options_.plan[3].spec.host = "h2";
  Create();
  StartAll();
  starter_.lost_host = "h2";
  RunInTurn({[this] { starter_.End("w1", "the connection is lost"); },
             [this] { starter_.End("w0", "status 1"); }, [] {}});
  EXPECT_THAT(lost_, ElementsAre("w1: the connection is lost"));
  EXPECT_THAT(restarts_, ElementsAre("w0: status 1 0"));
}

TEST_F(ClusterLifeTest, OneThatEndsTooOftenIsGivenUpAndNoneIsBegunOnceTheClusterStops) {
  options_.supervision = {.first_delay = absl::ZeroDuration(), .restarts_max = 2};
  Create();
  StartAll();
  const auto end_w1 = [this] { starter_.End("w1", "status 1"); };
  RunInTurn({
      end_w1,
      end_w1,
      end_w1,
      [this] {
        EXPECT_EQ(restarts_.size(), 2u);
        EXPECT_THAT(starter_.log, testing::SizeIs(2)) << "begun again twice";
        EXPECT_THAT(lost_, ElementsAre("w1: has ended 3 times within 1m and is not started again; "
                                       "at last: status 1"));
        starter_.log.clear();
        starter_.End("s0", "status 1");
        life_->Stop([] {});
      },
      [this] { EXPECT_THAT(starter_.log, ElementsAre("stop w0")); },
  });
}

TEST_F(ClusterLifeTest, OneThatDoesNotEndIsKilledAndAtLastGivenUp) {
  options_.stop_deadline = absl::Milliseconds(10);
  Create();
  StartAll();
  starter_.End("w1", "");
  loop_.Post([this] { life_->Stop([this] { loop_.Stop(); }); });
  loop_.Run();
  EXPECT_THAT(starter_.log,
              ElementsAre("stop w0", "kill w0", "stop s0", "kill s0", "stop c", "kill c"));
}

TEST_F(ClusterLifeTest, OneThatIsNotReadyInTimeIsNamed) {
  options_.ready_deadline = absl::Milliseconds(10);
  Create();
  loop_.Post([this] { life_->Start(); });
  loop_.After(absl::Milliseconds(50), [this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_EQ(ready_, absl::DeadlineExceededError("c is not ready after 10ms"));
}

// A started daemon is told to end, and `leave` happens while it leaves the cluster.
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
