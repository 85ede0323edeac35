#include "cli/render/cluster_watch.h"

#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// A coordinator in memory; its clients share it.
struct FakeCoordinator {
  absl::Mutex mutex;
  absl::Status answer = absl::OkStatus();
  std::map<uint32_t, proto::JobStatus> jobs;
  std::map<uint32_t, std::vector<proto::FollowEvent>> events;
  std::string cluster_id = "c";
  bool stopped = false;
  int asked = 0;
  int following = 0;
};

class FakeClient final : public control::CoordinatorClient {
 public:
  explicit FakeClient(FakeCoordinator* fake) : fake_(fake) {}

  absl::StatusOr<JobId> Submit(const proto::Job&, const proto::ResumeFrom&) override {
    return absl::UnimplementedError("");
  }
  absl::Status Cancel(JobId) override { return absl::UnimplementedError("it only looks"); }
  absl::StatusOr<std::vector<proto::JobStatus>> ListJobs() override {
    absl::MutexLock lock(&fake_->mutex);
    if (!fake_->answer.ok()) return fake_->answer;
    std::vector<proto::JobStatus> jobs;
    for (const auto& [id, job] : fake_->jobs) jobs.push_back(job);
    return jobs;
  }
  absl::StatusOr<proto::JobStatus> GetJob(JobId) override { return absl::UnimplementedError(""); }
  absl::StatusOr<proto::ListNodesReply> ListNodes() override {
    absl::MutexLock lock(&fake_->mutex);
    ++fake_->asked;
    if (!fake_->answer.ok()) return fake_->answer;
    proto::ListNodesReply reply;
    reply.set_cluster_id(fake_->cluster_id);
    return reply;
  }
  absl::StatusOr<proto::JobStatus> Follow(
      JobId job, const std::function<void(const proto::FollowEvent&)>& on_event) override {
    absl::MutexLock lock(&fake_->mutex);
    ++fake_->following;
    size_t told = 0;
    while (true) {
      const auto is_news = [&] {
        return fake_->stopped || !fake_->answer.ok() || fake_->events[job.value()].size() > told ||
               control::HasEnded(fake_->jobs[job.value()].state());
      };
      fake_->mutex.Await(absl::Condition(&is_news));
      if (fake_->events[job.value()].size() > told) {
        on_event(fake_->events[job.value()][told++]);
        continue;
      }
      --fake_->following;
      if (fake_->stopped) return absl::CancelledError("");
      if (!fake_->answer.ok()) return fake_->answer;
      return fake_->jobs[job.value()];
    }
  }
  absl::Status GetTrace(JobId, const std::function<void(const proto::TraceBatch&)>&) override {
    return absl::UnimplementedError("");
  }
  void StopFollowing() override {
    absl::MutexLock lock(&fake_->mutex);
    fake_->stopped = true;
  }
  absl::StatusOr<proto::DrainReply> Drain(const proto::DrainRequest&) override {
    return absl::UnimplementedError("it only looks");
  }

 private:
  FakeCoordinator* const fake_;
};

class ClusterWatchTest : public ::testing::Test {
 protected:
  ClusterWatch::Options Options() {
    return {.coordinator = "head:7070",
            .connect = [this] { return std::make_unique<FakeClient>(&fake_); },
            .every = absl::Milliseconds(5),
            .pause = absl::Milliseconds(1),
            .idle_every = absl::Milliseconds(20),
            .idle_after = absl::Seconds(100),
            .on_change = [this] { ++changes_; }};
  }
  void SetJob(uint32_t id, proto::JobState state, uint64_t step = 0) {
    absl::MutexLock lock(&fake_.mutex);
    fake_.jobs[id].set_job_id(id);
    fake_.jobs[id].set_state(state);
    fake_.jobs[id].mutable_progress()->set_step(step);
  }
  void Tell(uint32_t job, uint64_t step) {
    proto::FollowEvent event;
    event.mutable_metrics()->set_step(step);
    event.mutable_metrics()->set_samples(1);
    absl::MutexLock lock(&fake_.mutex);
    fake_.events[job].push_back(event);
  }
  // Waits until what is seen is as wanted.
  template <typename Predicate>
  std::shared_ptr<const ClusterScene> Await(ClusterWatch* watch, const Predicate& wanted) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (true) {
      std::shared_ptr<const ClusterScene> scene = watch->Look();
      if (wanted(*scene) || absl::Now() > deadline) return scene;
      absl::SleepFor(absl::Milliseconds(2));
    }
  }

  FakeCoordinator fake_;
  std::atomic<int> changes_ = 0;
};

TEST_F(ClusterWatchTest, SeesJobsTheirCourseAndTheirEnd) {
  SetJob(1, proto::RUNNING, 40);
  Tell(1, 50);
  ClusterWatch watch(Options());
  auto scene = Await(&watch, [](const ClusterScene& seen) {
    return !seen.jobs.empty() && seen.jobs[0]->course.size() == 1;
  });
  ASSERT_THAT(scene->jobs, SizeIs(1));
  ASSERT_THAT(scene->jobs[0]->course, SizeIs(1));
  EXPECT_EQ(scene->jobs[0]->course[0].step, 50u);
  EXPECT_EQ(scene->jobs[0]->watched_from_step, 40u);
  EXPECT_EQ(scene->jobs[0]->first_seen_ended, absl::InfiniteFuture());
  EXPECT_EQ(scene->problem, "");
  EXPECT_EQ(scene->coordinator, "head:7070");

  SetJob(1, proto::FINISHED, 50);
  SetJob(2, proto::QUEUED);
  scene = Await(&watch, [](const ClusterScene& seen) {
    return seen.jobs.size() == 2 && seen.jobs[1]->status.state() == proto::FINISHED;
  });
  ASSERT_THAT(scene->jobs, SizeIs(2));
  EXPECT_EQ(scene->jobs[0]->status.job_id(), 2u) << "the newest first";
  EXPECT_THAT(scene->jobs[1]->course, SizeIs(1)) << "it stays";
  EXPECT_LE(scene->jobs[1]->first_seen_ended, absl::Now());
  EXPECT_GT(changes_, 1);
}

TEST_F(ClusterWatchTest, WithoutAnAnswerTheLastSceneStaysAndSaysWhy) {
  SetJob(1, proto::RUNNING);
  ClusterWatch watch(Options());
  const auto before = Await(&watch, [](const ClusterScene& seen) { return !seen.jobs.empty(); });
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.answer = absl::UnavailableError("coordinator at head:7070\ncannot be reached");
  }
  auto scene = Await(&watch, [](const ClusterScene& seen) { return !seen.problem.empty(); });
  EXPECT_EQ(scene->problem, "coordinator at head:7070 cannot be reached");
  EXPECT_THAT(scene->jobs, SizeIs(1));
  EXPECT_GE(scene->taken, before->taken);
  const absl::Time taken = scene->taken;
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.answer = absl::OkStatus();
  }
  scene = Await(&watch, [&](const ClusterScene& seen) { return seen.taken > taken; });
  EXPECT_EQ(scene->problem, "");
  Tell(1, 10);
  scene = Await(&watch, [](const ClusterScene& seen) { return !seen.jobs[0]->course.empty(); });
  EXPECT_THAT(scene->jobs[0]->course, SizeIs(1)) << "it is followed again";
}

TEST_F(ClusterWatchTest, TheFirstAnswerCanBeWaitedFor) {
  SetJob(1, proto::RUNNING);
  ClusterWatch watch(Options());
  watch.AwaitFirst(absl::Seconds(60));
  EXPECT_THAT(watch.Look()->jobs, SizeIs(1));
}

TEST_F(ClusterWatchTest, ACoordinatorThatWasNeverThereIsNamed) {
  fake_.answer = absl::UnavailableError("coordinator at head:7070 cannot be reached");
  ClusterWatch watch(Options());
  const auto scene =
      Await(&watch, [](const ClusterScene& seen) { return seen.problem != "not asked yet"; });
  EXPECT_THAT(scene->problem, HasSubstr("head:7070"));
  EXPECT_EQ(scene->taken, absl::InfinitePast());
}

TEST_F(ClusterWatchTest, FollowsNoMoreThanSoManyJobsAtOnce) {
  ClusterWatch::Options options = Options();
  options.followed_max = 3;
  for (uint32_t id = 1; id <= 10; ++id) SetJob(id, proto::RUNNING);
  ClusterWatch watch(options);
  Await(&watch, [](const ClusterScene& seen) { return seen.jobs.size() == 10; });
  absl::MutexLock lock(&fake_.mutex);
  EXPECT_LE(fake_.following, 3);
}

TEST_F(ClusterWatchTest, AfterARestartTheStepsThatAreMadeAgainAreShownOnce) {
  SetJob(1, proto::RUNNING);
  for (const uint64_t step : {10, 20, 30}) Tell(1, step);
  proto::FollowEvent restart;
  restart.mutable_status()->add_restarts()->set_step(10);
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.events[1].push_back(restart);
  }
  Tell(1, 25);
  ClusterWatch watch(Options());
  const auto scene = Await(&watch, [](const ClusterScene& seen) {
    return !seen.jobs.empty() && !seen.jobs[0]->course.empty() &&
           seen.jobs[0]->course.back().step == 25;
  });
  ASSERT_THAT(scene->jobs[0]->course, SizeIs(2));
  EXPECT_EQ(scene->jobs[0]->course[0].step, 10u);
}

TEST_F(ClusterWatchTest, AJobThatBeginsToWaitIsAskedForAtOnce) {
  ClusterWatch::Options options = Options();
  options.every = options.idle_every = absl::Hours(1);
  SetJob(1, proto::RUNNING);
  ClusterWatch watch(options);
  watch.AwaitFirst(absl::Seconds(60));
  proto::FollowEvent event;
  event.mutable_status()->add_waits()->set_text("rank 1 is stopped");
  {
    absl::MutexLock lock(&fake_.mutex);
    *fake_.jobs[1].add_waits() = event.status().waits(0);
    fake_.events[1].push_back(event);
  }
  const auto scene = Await(&watch, [](const ClusterScene& seen) {
    return !seen.jobs.empty() && seen.jobs[0]->status.waits_size() == 1;
  });
  EXPECT_EQ(scene->jobs[0]->status.waits_size(), 1);
}

TEST_F(ClusterWatchTest, OfJobsThatHaveEndedTheNewestAreShown) {
  for (uint32_t id = 1; id <= kEndedJobsMax + 20; ++id) SetJob(id, proto::FINISHED);
  SetJob(5, proto::RUNNING);
  ClusterWatch watch(Options());
  const auto scene = Await(&watch, [](const ClusterScene& seen) { return !seen.jobs.empty(); });
  EXPECT_THAT(scene->jobs, SizeIs(kEndedJobsMax + 1));
  EXPECT_EQ(scene->jobs.back()->status.job_id(), 5u);
}

TEST_F(ClusterWatchTest, WhatHadEndedBeforeTheWatchBeganEndedThen) {
  const absl::Time ended = absl::FromUnixMillis(absl::ToUnixMillis(absl::Now() - absl::Hours(1)));
  const absl::Time ahead = absl::Now() + absl::Hours(1);  // by another clock
  for (const auto& [id, at] : std::map<uint32_t, absl::Time>{{1, ended}, {2, ahead}}) {
    SetJob(id, proto::FAILED);
    absl::MutexLock lock(&fake_.mutex);
    fake_.jobs[id].set_ended_ms(absl::ToUnixMillis(at));
  }
  SetJob(3, proto::RUNNING);
  ClusterWatch watch(Options());
  auto scene = Await(&watch, [](const ClusterScene& seen) { return seen.jobs.size() == 3; });
  ASSERT_THAT(scene->jobs, SizeIs(3));
  EXPECT_EQ(scene->jobs[2]->first_seen_ended, ended);
  EXPECT_LE(scene->jobs[1]->first_seen_ended, absl::Now());

  // A job that ends while watched gets our time, not its own clock's.
  const absl::Time before = absl::Now();
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.jobs[3].set_ended_ms(absl::ToUnixMillis(ended));
    fake_.jobs[3].set_state(proto::FAILED);
  }
  scene = Await(&watch, [](const ClusterScene& seen) {
    return seen.jobs[0]->status.state() == proto::FAILED;
  });
  EXPECT_GE(scene->jobs[0]->first_seen_ended, before);
}

TEST_F(ClusterWatchTest, OfAnotherClusterNothingIsKnownFromTheOneBefore) {
  SetJob(1, proto::RUNNING, 40);
  Tell(1, 50);
  SetJob(2, proto::FINISHED);
  ClusterWatch watch(Options());
  Await(&watch, [](const ClusterScene& seen) {
    return seen.jobs.size() == 2 && seen.jobs[1]->course.size() == 1;
  });
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.answer = absl::UnavailableError("gone");
  }
  Await(&watch, [](const ClusterScene& seen) { return !seen.problem.empty(); });
  SetJob(1, proto::RUNNING, 3);
  SetJob(2, proto::RUNNING, 7);
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.cluster_id = "d";
    fake_.events.clear();
    fake_.answer = absl::OkStatus();
  }
  const auto is_new = [](const ClusterScene& seen) {
    return seen.nodes.cluster_id() == "d" && seen.jobs.size() == 2;
  };
  auto scene = Await(&watch, is_new);
  ASSERT_THAT(scene->jobs, SizeIs(2));
  EXPECT_THAT(scene->jobs[1]->course, SizeIs(0));
  EXPECT_EQ(scene->jobs[1]->watched_from_step, 3u);
  EXPECT_EQ(scene->jobs[0]->first_seen_ended, absl::InfiniteFuture());
  Tell(1, 10);
  scene = Await(&watch, [](const ClusterScene& seen) { return !seen.jobs[1]->course.empty(); });
  ASSERT_THAT(scene->jobs[1]->course, SizeIs(1));
  EXPECT_EQ(scene->jobs[1]->course[0].step, 10u);
}

TEST_F(ClusterWatchTest, WhileNobodyLooksItAsksLessAndAtOnceWhenSomebodyDoes) {
  ClusterWatch::Options options = Options();
  options.idle_after = absl::ZeroDuration();
  options.idle_every = absl::Hours(1);
  options.every = absl::Hours(1);
  ClusterWatch watch(options);
  const auto asked = [&] {
    absl::MutexLock lock(&fake_.mutex);
    return fake_.asked;
  };
  while (asked() == 0) absl::SleepFor(absl::Milliseconds(1));
  const int before = asked();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  watch.KeepLooking();
  while (asked() == before && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_GT(asked(), before);
}

}  // namespace
}  // namespace strata::cli
