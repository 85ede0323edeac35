// Users who read logs, and a worker that offers to read them, over real TLS.
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/control/logs_client.h"
#include "common/control/logs_offer.h"
#include "common/ids.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/logs.pb.h"
#include "server/coordinator/tenants_fixture.h"
#include "server/testing/fake_daemon.h"

namespace strata::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A log of rank 0, as a worker's reader would read it.
class FakeLog {
 public:
  void Write(const std::string& text) {
    absl::MutexLock lock(&mutex_);
    text_ += text;
  }
  void Fail(const std::string& why) {
    absl::MutexLock lock(&mutex_);
    error_ = why;
  }
  std::unique_ptr<control::LogsSource> Source() { return std::make_unique<Reader>(this); }

 private:
  struct Reading {
    bool follows = false;
    size_t shown = 0;
  };
  class Reader final : public control::LogsSource {
   public:
    explicit Reader(FakeLog* log) : log_(log) {}
    void OnWanted(const proto::LogWanted& wanted) override {
      if (wanted.has_begin()) readings_[wanted.reading()].follows = wanted.begin().lines().follow();
      if (wanted.has_job_ended()) readings_[wanted.reading()].follows = false;
      if (wanted.has_end()) readings_.erase(wanted.reading());
    }
    Step Next() override {
      absl::MutexLock lock(&log_->mutex_);
      for (auto& [id, reading] : readings_) {
        // Whole lines, except at the end.
        const size_t end = reading.follows ? log_->text_.rfind('\n') + 1 : log_->text_.size();
        if (reading.follows && end <= reading.shown) continue;
        proto::LogPart part;
        part.set_reading(id);
        part.mutable_process()->set_rank(0);
        part.set_lines(log_->text_.substr(reading.shown, end - reading.shown));
        part.set_error(log_->error_);
        part.set_ended(!reading.follows);
        reading.shown = end;
        if (part.ended()) readings_.erase(id);
        return {.part = std::move(part), .goes_on = true};
      }
      return {};
    }
    bool Watches() const override { return !readings_.empty(); }

   private:
    FakeLog* const log_;
    std::map<uint64_t, Reading> readings_;
  };

  absl::Mutex mutex_;
  std::string text_ ABSL_GUARDED_BY(mutex_), error_ ABSL_GUARDED_BY(mutex_);
};

struct Shown {
  absl::Status status;
  std::string lines;
  std::vector<std::string> errors;
};

class LogsTest : public TenantsTest {
 protected:
  // A worker that offers the logs of the worker `shows`; empty: none.
  std::unique_ptr<FakeDaemon> Worker(const std::string& name, const std::string& shows) {
    const absl::Time now = absl::Now();
    auto worker = std::make_unique<FakeDaemon>(
        address_, FakeDaemon::Worker(name, 8),
        Credentials::Of(keys::MakeKeyFile(*LoadKeys(State())->authority,
                                          {"lab", keys::Role::kWorker, name},
                                          now - absl::Minutes(1), now + absl::Hours(1))));
    if (!shows.empty()) {
      offer_ = control::LogsOffer::Start(
          {.worker = shows, .new_source = [this] { return log_.Source(); }});
      worker->SetOnLine([this](auto line) { offer_->OnLine(std::move(line)); });
    }
    EXPECT_EQ(worker->Start(), absl::OkStatus());
    return worker;
  }
  void StartWorker(const std::string& shows = "w1") { worker_ = Worker("w1", shows); }
  JobId Running(const std::string& user) {
    const JobId job = Submitted(user);
    EXPECT_TRUE(worker_->WaitFor(proto::CoordinatorMessage::kRunNode, job.value()));
    return job;
  }

  control::LogsClient::Options LogsAs(const std::string& user) const {
    return {.coordinator = address_, .credentials = KeysOf(user), .deadline = absl::Seconds(20)};
  }
  static proto::ReadLogs Asking(JobId job, bool follow = false) {
    proto::ReadLogs request;
    request.set_job_id(job.value());
    request.mutable_lines()->set_follow(follow);
    return request;
  }
  Shown Read(const std::string& user, const proto::ReadLogs& request) const {
    control::LogsClient client(LogsAs(user));
    absl::Notification has_ended;
    std::thread watch([&] {
      if (!has_ended.WaitForNotificationWithTimeout(absl::Seconds(20))) client.Stop();
    });
    Shown shown;
    shown.status = client.Read(request, [&](const proto::LogLines& lines) {
      shown.lines += lines.lines();
      if (!lines.error().empty()) shown.errors.push_back(lines.error());
    });
    has_ended.Notify();
    watch.join();
    return shown;
  }
  // Reads once the worker's stream has been opened.
  Shown ReadOnceOffered(const std::string& user, const proto::ReadLogs& request) const {
    for (const absl::Time end = absl::Now() + absl::Seconds(60);; absl::SleepFor(kLook)) {
      Shown shown = Read(user, request);
      if (shown.errors.empty() || absl::Now() > end) return shown;
    }
  }

  static constexpr absl::Duration kLook = absl::Milliseconds(50);

  FakeLog log_;
  std::unique_ptr<control::LogsOffer> offer_;
  std::unique_ptr<FakeDaemon> worker_;  // sends its lines to the offer
};

TEST_F(LogsTest, TheOwnerAndWhoOperatesTheClusterSeeAJobsLogs) {
  StartWorker();
  const JobId job = Running("sam");
  log_.Write("a\nb\n");
  const Shown sams = ReadOnceOffered("sam", Asking(job));
  EXPECT_EQ(sams.status, absl::OkStatus());
  EXPECT_EQ(sams.lines, "a\nb\n");
  for (const char* user : {"otto", "ada"}) EXPECT_EQ(Read(user, Asking(job)).lines, "a\nb\n");
  // Jobs of the same namespace, and of another one.
  for (const char* user : {"sue", "vera"}) {
    const Shown theirs = Read(user, Asking(job));
    EXPECT_TRUE(absl::IsPermissionDenied(theirs.status)) << theirs.status;
    EXPECT_THAT(theirs.status.message(), HasSubstr("may not look at this job's logs"));
    EXPECT_EQ(theirs.lines, "");
  }
  const Shown hidden = Read("rex", Asking(job));
  EXPECT_TRUE(absl::IsNotFound(hidden.status));
  EXPECT_EQ(hidden.status, absl::NotFoundError(absl::StrCat("no job ", job.value())));
  EXPECT_TRUE(absl::IsNotFound(Read("sam", Asking(JobId(4242))).status));
  worker_->Finish(job.value());
  EXPECT_EQ(Read("sam", Asking(job)).lines, "a\nb\n") << "the job has ended";
}

TEST_F(LogsTest, WhoFollowsSeesLinesAsTheyComeUntilTheJobHasEnded) {
  StartWorker();
  const JobId job = Running("sam");
  log_.Write("a\n");
  ASSERT_EQ(ReadOnceOffered("sam", Asking(job)).lines, "a\n");
  control::LogsClient client(LogsAs("sam"));
  absl::Mutex mutex;
  std::string lines;
  absl::Status status;
  std::thread reader([&] {
    status = client.Read(Asking(job, /*follow=*/true), [&](const proto::LogLines& more) {
      absl::MutexLock lock(&mutex);
      lines += more.lines();
    });
  });
  const auto shows = [&](const std::string& text) {
    absl::MutexLock lock(&mutex);
    const auto is_there = [&] { return lines == text; };
    return mutex.AwaitWithTimeout(absl::Condition(&is_there), absl::Seconds(20));
  };
  EXPECT_TRUE(shows("a\n"));
  log_.Write("b\nhalf");
  EXPECT_TRUE(shows("a\nb\n"));
  worker_->Finish(job.value());
  EXPECT_TRUE(shows("a\nb\nhalf"));
  reader.join();
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(LogsTest, WhoLosesTheRightSeesNoMore) {
  StartWorker();
  const JobId job = Running("sam");
  ASSERT_THAT(ReadOnceOffered("sam", Asking(job)).errors, IsEmpty());
  std::string less = kPolicy;
  const std::string sam = R"(users { name: "sam" namespace: "vision" role: SUBMIT })";
  less.replace(less.find(sam), sam.size(),
               R"(users { name: "sam" namespace: "vision" role: NONE })");
  std::thread writer([&] {
    absl::SleepFor(absl::Milliseconds(200));
    WritePolicy(less);
  });
  const absl::Status status = Read("sam", Asking(job, /*follow=*/true)).status;
  writer.join();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(absl::IsCancelled(status)) << status;
}

TEST_F(LogsTest, AWorkerThatIsNotThereIsNamed) {
  StartWorker(/*shows=*/"");
  const JobId job = Running("sam");
  const Shown shown = Read("sam", Asking(job));
  EXPECT_EQ(shown.status, absl::OkStatus());
  ASSERT_EQ(shown.errors.size(), 1u);
  EXPECT_THAT(shown.errors[0], HasSubstr("rank 0's log is on worker w1 ("));
  EXPECT_THAT(shown.errors[0], HasSubstr("which is not there"));
}

TEST_F(LogsTest, AnErrorOfTheWorkersNamesTheProcessAndTheWorker) {
  StartWorker();
  const JobId job = Running("sam");
  log_.Write("a\n");
  ASSERT_EQ(ReadOnceOffered("sam", Asking(job)).lines, "a\n");
  log_.Fail("cannot read it: No such file or directory");
  const Shown shown = Read("sam", Asking(job));
  EXPECT_THAT(shown.errors, ElementsAre(AllOf(HasSubstr("rank 0's log on worker w1 ("),
                                              HasSubstr("No such file or directory"))));
}

TEST_F(LogsTest, WhoShowsLogsOfAnotherWorkerIsRefused) {
  StartWorker(/*shows=*/"");
  const JobId job = Running("sam");
  const std::unique_ptr<FakeDaemon> other = Worker("w2", /*shows=*/"w1");
  for (const absl::Time end = absl::Now() + absl::Seconds(20);
       AuditLines().find("offer-logs") == std::string::npos && absl::Now() < end;) {
    absl::SleepFor(kLook);
  }
  EXPECT_THAT(AuditLines(), HasSubstr("which shows no logs of a worker w1"));
  // It is told why, and does not retry soon.
  const std::string once = AuditLines();
  absl::SleepFor(absl::Seconds(2));
  EXPECT_EQ(AuditLines(), once);
  EXPECT_EQ(Read("sam", Asking(job)).errors.size(), 1u);
}

TEST_F(LogsTest, WhoAsksForMoreThanAPatternIsRefused) {
  StartWorker();
  const JobId job = Running("sam");
  proto::ReadLogs request = Asking(job);
  request.mutable_lines()->set_grep(std::string(10 << 20, 'a'));
  const absl::Status status = Read("sam", request).status;
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), HasSubstr("lines.grep has 10485760 bytes"));
  request = Asking(job);
  for (int i = 0; i < 300'000; ++i) request.add_ranks(0);
  EXPECT_TRUE(absl::IsInvalidArgument(Read("sam", request).status));
}

TEST_F(LogsTest, AStreamThatBreaksWithItsSessionIsOpenedAgain) {
  StartWorker();
  const JobId job = Running("sam");
  log_.Write("a\n");
  ASSERT_EQ(ReadOnceOffered("sam", Asking(job)).lines, "a\n");
  ASSERT_NO_FATAL_FAILURE(Start());  // another coordinator, on the same port
  EXPECT_EQ(ReadOnceOffered("sam", Asking(job)).lines, "a\n");
}

}  // namespace
}  // namespace strata::server
