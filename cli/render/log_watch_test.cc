#include "cli/render/log_watch.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace strata::cli {

// The logs that can be read; all sources share it.
struct FakeLogs {
  absl::Mutex mutex;
  std::vector<proto::LogLines> said;  // to each source from the first on
  bool is_over = false;               // then Read ends so:
  absl::Status status = absl::OkStatus();
  // This job's logs continue, whatever is received and whoever stops it.
  std::optional<uint32_t> deaf_job;
  std::vector<proto::ReadLogs> requests;
  int open = 0;
};

class FakeSource final : public LogSource {
 public:
  explicit FakeSource(FakeLogs* fake) : fake_(fake) {
    absl::MutexLock lock(&fake_->mutex);
    ++fake_->open;
  }
  ~FakeSource() override {
    absl::MutexLock lock(&fake_->mutex);
    --fake_->open;
  }

  absl::Status Read(const proto::ReadLogs& request,
                    const std::function<void(const proto::LogLines&)>& on_lines) override {
    absl::MutexLock lock(&fake_->mutex);
    fake_->requests.push_back(request);
    for (size_t told = 0; true;) {
      const auto is_news = [&] {
        const bool is_deaf = request.job_id() == fake_->deaf_job;
        return !is_deaf && (is_stopped_ || fake_->is_over || told < fake_->said.size());
      };
      fake_->mutex.Await(absl::Condition(&is_news));
      if (is_stopped_) return absl::CancelledError("");
      if (told >= fake_->said.size()) return fake_->status;
      const proto::LogLines lines = fake_->said[told++];
      fake_->mutex.Unlock();
      on_lines(lines);
      fake_->mutex.Lock();
    }
  }
  void Stop() override {
    absl::MutexLock lock(&fake_->mutex);
    is_stopped_ = true;
  }

 private:
  FakeLogs* const fake_;
  bool is_stopped_ = false;
};

inline proto::LogLines LinesOf(uint32_t rank, const std::string& lines,
                               const std::string& error = "") {
  proto::LogLines said;
  said.mutable_process()->set_rank(rank);
  said.set_lines(lines);
  said.set_error(error);
  return said;
}

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LogWatchTest : public ::testing::Test {
 protected:
  LogWatch::Options Options() {
    return {.connect = [this] { return std::make_unique<FakeSource>(&fake_); },
            .retry_after = absl::ZeroDuration(),
            .change_every = absl::ZeroDuration(),
            .on_change = [this] { ++changes_; }};
  }
  void Say(const proto::LogLines& lines) {
    absl::MutexLock lock(&fake_.mutex);
    fake_.said.push_back(lines);
  }
  void End(const absl::Status& status) {
    absl::MutexLock lock(&fake_.mutex);
    fake_.is_over = true;
    fake_.status = status;
  }
  int open() {
    absl::MutexLock lock(&fake_.mutex);
    return fake_.open;
  }
  size_t begun() {
    absl::MutexLock lock(&fake_.mutex);
    return fake_.requests.size();
  }
  // Returns everything received from this place on, until it is as expected.
  template <typename Predicate>
  LogNews Await(LogWatch* watch, LogPlace* place, const Predicate& wanted,
                const LogChoice& choice = {.job = 3}) {
    LogNews all;
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    while (!wanted(all) && absl::Now() < deadline) {
      LogNews news;
      if (!watch->TakeNews(choice, job_, place, &news)) {
        absl::SleepFor(absl::Milliseconds(1));
        continue;
      }
      if (news.anew) all.lines.clear();
      all.anew |= news.anew;
      all.passed_over += news.passed_over;
      all.lines.insert(all.lines.end(), news.lines.begin(), news.lines.end());
      all.problem = news.problem;
      all.ended = news.ended;
    }
    return all;
  }
  static auto Lines(size_t count) {
    return [count](const LogNews& news) { return news.lines.size() >= count; };
  }

  FakeLogs fake_;
  LogJob job_{.cluster = "c", .ranks = 2};
  std::atomic<int> changes_ = 0;
};

TEST_F(LogWatchTest, TellsEachReaderWhatItHasNotReadYet) {
  Say(LinesOf(1, "one\ntwo\n"));
  LogWatch watch(Options());
  LogPlace place;
  LogNews news = Await(&watch, &place, Lines(2));
  ASSERT_THAT(news.lines, SizeIs(2));
  EXPECT_TRUE(news.anew);
  EXPECT_EQ(news.lines[0].process, "1");
  EXPECT_EQ(news.lines[0].text, "one");
  EXPECT_EQ(news.lines[1].text, "two");
  EXPECT_FALSE(watch.TakeNews({.job = 3}, job_, &place, &news));

  Say(LinesOf(0, "\x1b[31mthree\x1b[0m\n"));
  Say(LinesOf(0, "", "rank 0: its log is gone"));
  news = Await(&watch, &place, Lines(2));
  ASSERT_THAT(news.lines, SizeIs(2));
  EXPECT_FALSE(news.anew);
  EXPECT_EQ(news.lines[0].text, "three");
  EXPECT_FALSE(news.lines[0].is_problem);
  EXPECT_EQ(news.lines[1].text, "rank 0: its log is gone");
  EXPECT_TRUE(news.lines[1].is_problem);
  EXPECT_GT(changes_, 1);

  LogPlace another;
  EXPECT_THAT(Await(&watch, &another, Lines(4)).lines, SizeIs(4));
  EXPECT_EQ(begun(), 1u) << "both read the same";
}

TEST_F(LogWatchTest, AsksForTheLastLinesOfWhatIsChosen) {
  LogWatch watch(Options());
  const auto request = [&](const LogChoice& choice, uint32_t ranks) {
    const size_t before = begun();
    LogPlace place;
    LogNews news;
    watch.TakeNews(choice, {.ranks = ranks}, &place, &news);
    while (begun() == before) absl::SleepFor(absl::Milliseconds(1));
    absl::MutexLock lock(&fake_.mutex);
    return fake_.requests.back();
  };
  const proto::ReadLogs all = request({.job = 3}, 50);
  EXPECT_EQ(all.job_id(), 3u);
  EXPECT_TRUE(all.lines().follow());
  EXPECT_EQ(all.lines().tail_lines(), 10u);
  EXPECT_THAT(all.ranks(), IsEmpty());
  EXPECT_EQ(request({.job = 4}, 1'000'000).lines().tail_lines(), 1u);
  const proto::ReadLogs one = request({.job = 3, .rank = 7}, 50);
  EXPECT_THAT(one.ranks(), ElementsAre(7));
  EXPECT_EQ(one.lines().tail_lines(), 100u);
  EXPECT_TRUE(request({.job = 3, .aggregators = true}, 2).aggregators());
}

TEST_F(LogWatchTest, WhatNobodyLooksAtIsNotRead) {
  LogWatch::Options options = Options();
  options.idle_after = absl::Milliseconds(20);
  LogWatch watch(options);
  LogPlace place;
  LogNews news;
  watch.TakeNews({.job = 3}, job_, &place, &news);
  EXPECT_EQ(open(), 1);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (open() > 0 && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(5));
    watch.Sweep();
  }
  EXPECT_EQ(open(), 0);
}

TEST_F(LogWatchTest, OfManyLinesTheNewestAreKeptAndASlowReaderIsTold) {
  LogWatch::Options options = Options();
  options.lines_max = 3;
  LogWatch watch(options);
  LogPlace place;
  Say(LinesOf(0, "a\n"));
  Await(&watch, &place, Lines(1));
  Say(LinesOf(0, "b\nc\nd\ne\nf\n"));
  const LogNews news = Await(&watch, &place, Lines(3));
  ASSERT_THAT(news.lines, SizeIs(3));
  EXPECT_EQ(news.lines[0].text, "d");
  EXPECT_EQ(news.passed_over, 2u);
}

TEST_F(LogWatchTest, OfALongLineItsBeginningIsTold) {
  LogWatch::Options options = Options();
  options.line_bytes_max = 6;
  LogWatch watch(options);
  Say(LinesOf(0, "12345\xc3\xa9 and more\n"));
  LogPlace place;
  const LogNews news = Await(&watch, &place, Lines(1));
  EXPECT_EQ(news.lines[0].text, "12345… (16 bytes)");
}

TEST_F(LogWatchTest, NoMoreThanSoManyAreReadAtOnce) {
  LogWatch::Options options = Options();
  options.readings_max = 2;
  LogWatch watch(options);
  LogPlace first, second, third;
  LogNews news;
  watch.TakeNews({.job = 1}, job_, &first, &news);
  watch.TakeNews({.job = 2}, job_, &second, &news);
  ASSERT_TRUE(watch.TakeNews({.job = 3}, job_, &third, &news));
  EXPECT_THAT(news.problem, HasSubstr("as many logs as may be, 2, are looked at"));
  EXPECT_FALSE(watch.TakeNews({.job = 3}, job_, &third, &news)) << "said once";
  EXPECT_EQ(open(), 2);
}

TEST_F(LogWatchTest, WhereThereIsNoRoomToReadAnewWhatWasReadIsKept) {
  LogWatch::Options options = Options();
  options.readings_max = 1;
  options.gives_way_after = absl::ZeroDuration();
  fake_.deaf_job = 4;
  LogWatch watch(options);
  LogPlace other, place, later;
  LogNews news;
  watch.TakeNews({.job = 4}, job_, &other, &news);  // continues though it gives way
  Say(LinesOf(0, "a\n"));
  Await(&watch, &place, Lines(1));
  End(absl::UnavailableError("the worker is gone"));
  Await(&watch, &place, [](const LogNews& seen) { return !seen.problem.empty(); });
  EXPECT_TRUE(watch.TakeNews({.job = 3}, job_, &later, &news));
  EXPECT_THAT(news.lines, SizeIs(1));
  EXPECT_EQ(news.problem, "the worker is gone");
  absl::MutexLock lock(&fake_.mutex);
  fake_.deaf_job.reset();
}

TEST_F(LogWatchTest, AtTheJobsEndItSaysThatThisIsAll) {
  Say(LinesOf(0, "done\n"));
  LogWatch watch(Options());
  LogPlace place;
  Await(&watch, &place, Lines(1));
  job_.has_ended = true;
  End(absl::OkStatus());
  const LogNews news = Await(&watch, &place, [](const LogNews& seen) { return seen.ended; });
  EXPECT_TRUE(news.ended);
  EXPECT_EQ(news.problem, "");
  EXPECT_EQ(begun(), 1u);
}

TEST_F(LogWatchTest, AJobThatGoesOnIsReadAgain) {
  Say(LinesOf(3, "", "worker w1, which is gone, has the log of rank 3"));
  End(absl::OkStatus());
  LogWatch watch(Options());
  LogPlace place;
  LogNews news = Await(&watch, &place, Lines(1));
  EXPECT_FALSE(news.ended);
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.is_over = false;
    fake_.said = {LinesOf(3, "here again\n")};
  }
  news = Await(&watch, &place, [](const LogNews& seen) {
    return !seen.lines.empty() && seen.lines.back().text == "here again";
  });
  EXPECT_THAT(news.lines, SizeIs(1));
}

TEST_F(LogWatchTest, WhereOneProcessCannotBeReadAllAreReadAgain) {
  LogWatch::Options options = Options();
  options.again_after = absl::Milliseconds(20);
  Say(LinesOf(0, "one\n"));
  Say(LinesOf(3, "", "rank 3 is now on worker w2, not followed here: ask again for it"));
  LogWatch watch(options);
  LogPlace place;
  Await(&watch, &place, Lines(2));
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.said = {LinesOf(0, "one\n"), LinesOf(3, "on w2\n")};
  }
  const LogNews news = Await(&watch, &place, [](const LogNews& seen) {
    return !seen.lines.empty() && seen.lines.back().text == "on w2";
  });
  EXPECT_THAT(news.lines, SizeIs(2));
  EXPECT_GE(begun(), 2u);
}

TEST_F(LogWatchTest, AnotherClustersLogsAreNotTheseOnes) {
  Say(LinesOf(0, "of before\n"));
  job_.has_ended = true;
  End(absl::OkStatus());
  LogWatch watch(Options());
  LogPlace place;
  Await(&watch, &place, [](const LogNews& seen) { return seen.ended; });
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.said = {LinesOf(0, "of now\n")};
  }
  job_.cluster = "d";
  const LogNews news = Await(&watch, &place, Lines(1));
  EXPECT_TRUE(news.anew);
  EXPECT_EQ(news.lines[0].text, "of now");
}

TEST_F(LogWatchTest, WhatWasLookedAtAMomentAgoGivesWay) {
  LogWatch::Options options = Options();
  options.readings_max = 1;
  options.gives_way_after = absl::Milliseconds(10);
  LogWatch watch(options);
  LogPlace first, second;
  LogNews news;
  watch.TakeNews({.job = 1}, job_, &first, &news);
  absl::SleepFor(absl::Milliseconds(20));
  watch.TakeNews({.job = 2}, job_, &second, &news);
  EXPECT_EQ(news.problem, "");
}

TEST_F(LogWatchTest, WhatGoesWellHasNoOldProblem) {
  LogWatch::Options options = Options();
  options.well_after = absl::Milliseconds(20);
  End(absl::FailedPreconditionError("job 3 has not begun"));
  LogWatch watch(options);
  LogPlace place;
  Await(&watch, &place, [](const LogNews& seen) { return !seen.problem.empty(); });
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.is_over = false;
  }
  LogNews news;
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (absl::Now() < deadline) {
    if (watch.TakeNews({.job = 3}, job_, &place, &news) && news.problem.empty()) break;
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_EQ(news.problem, "");
}

TEST_F(LogWatchTest, NobodyHasNewsMoreOftenThanSaid) {
  LogWatch::Options options = Options();
  options.change_every = absl::Hours(1);
  Say(LinesOf(0, "one\n"));
  LogWatch watch(options);
  LogPlace place;
  LogNews news;
  ASSERT_TRUE(watch.TakeNews({.job = 3}, job_, &place, &news));
  while (begun() == 0) absl::SleepFor(absl::Milliseconds(1));
  Say(LinesOf(0, "two\n"));
  LogPlace another;
  const LogNews all = Await(&watch, &another, [](const LogNews& seen) { return seen.anew; });
  EXPECT_FALSE(watch.TakeNews({.job = 3}, job_, &place, &news));
}

TEST_F(LogWatchTest, WhatIsRefusedIsSaidAndNotTriedAgain) {
  End(absl::PermissionDeniedError("job 3 is ann's:\nask her"));
  LogWatch watch(Options());
  LogPlace place;
  const LogNews news =
      Await(&watch, &place, [](const LogNews& seen) { return !seen.problem.empty(); });
  EXPECT_EQ(news.problem, "job 3 is ann's: ask her");
  LogNews more;
  for (int i = 0; i < 10; ++i) watch.TakeNews({.job = 3}, job_, &place, &more);
  EXPECT_EQ(begun(), 1u);
}

TEST_F(LogWatchTest, AfterABreakTheLinesStayUntilTheyAreReadAgain) {
  Say(LinesOf(0, "one\n"));
  LogWatch watch(Options());
  LogPlace place;
  Await(&watch, &place, Lines(1));
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.said.clear();
  }
  End(absl::UnavailableError("coordinator at head:7070 cannot be reached"));
  LogNews news = Await(&watch, &place, [](const LogNews& seen) { return !seen.problem.empty(); });
  EXPECT_THAT(news.problem, HasSubstr("head:7070"));
  EXPECT_FALSE(news.anew);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  while (begun() < 4 && absl::Now() < deadline) {
    EXPECT_FALSE(watch.TakeNews({.job = 3}, job_, &place, &news)) << "nothing has changed";
  }
  LogPlace late;
  EXPECT_THAT(Await(&watch, &late, Lines(1)).lines, SizeIs(1));
  {
    absl::MutexLock lock(&fake_.mutex);
    fake_.is_over = false;
    fake_.said = {LinesOf(0, "one\ntwo\n")};
  }
  news = Await(&watch, &place, Lines(2));
  EXPECT_TRUE(news.anew);
  EXPECT_EQ(news.problem, "");
  ASSERT_THAT(news.lines, SizeIs(2));
  EXPECT_EQ(news.lines[0].text, "one");
}

}  // namespace

}  // namespace strata::cli
