// A worker's stream of logs with a coordinator played by the test.
#include "common/control/logs_offer.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/testing/short_folder.h"
#include "gtest/gtest.h"
#include "proto/logs.grpc.pb.h"

namespace strata::control {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);
// Time within which everything in flight arrives.
constexpr absl::Duration kQuiet = absl::Milliseconds(500);
constexpr size_t kPartBytes = 64 << 10;

// Has endless output once anything is requested.
class Endless final : public LogsSource {
 public:
  void OnWanted(const proto::LogWanted& wanted) override { is_wanted_ = wanted.has_begin(); }
  Step Next() override {
    if (!is_wanted_) return {};
    proto::LogPart part;
    part.set_lines(std::string(kPartBytes, 'a'));
    return {.part = std::move(part), .goes_on = true};
  }
  bool Watches() const override { return false; }

 private:
  bool is_wanted_ = false;
};

class FakeCoordinator final : public proto::Logs::Service {
 public:
  using ServerStream = grpc::ServerReaderWriter<proto::LogWanted, proto::LogPart>;

  explicit FakeCoordinator(const std::string& folder) : address_("unix:" + folder + "/c") {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::shared_ptr<grpc::Channel> Line() const {
    return grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  }
  // Streams that begin from now on end at once.
  void RefuseFromNowOn() {
    absl::MutexLock lock(&mutex_);
    refuses_ = true;
  }

  grpc::Status Offer(grpc::ServerContext*, ServerStream* stream) override {
    proto::LogPart part;
    if (!stream->Read(&part)) return grpc::Status::OK;
    {
      absl::MutexLock lock(&mutex_);
      ++streams_;
      worker_ = part.offered().worker();
      if (refuses_) return {grpc::StatusCode::PERMISSION_DENIED, "not you"};
      stream_ = stream;
      bytes_ = 0;
    }
    while (stream->Read(&part)) {
      absl::MutexLock lock(&mutex_);
      bytes_ += part.ByteSizeLong();
    }
    absl::MutexLock lock(&mutex_);
    stream_ = nullptr;
    return grpc::Status::OK;
  }

  bool AwaitStream(int count) {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return streams_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&is_there), kPatience);
  }
  bool AwaitEnd() {
    absl::MutexLock lock(&mutex_);
    const auto is_there = [&]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stream_ == nullptr; };
    return mutex_.AwaitWithTimeout(absl::Condition(&is_there), kPatience);
  }
  void Send(const proto::LogWanted& wanted) {
    absl::MutexLock lock(&mutex_);
    ASSERT_NE(stream_, nullptr);
    EXPECT_TRUE(stream_->Write(wanted));
  }
  // Returns how many bytes have come on this stream once no more come; waits for at least `least`.
  size_t AwaitBytes(size_t least) {
    absl::MutexLock lock(&mutex_);
    const auto are_there = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return bytes_ >= least; };
    mutex_.AwaitWithTimeout(absl::Condition(&are_there), kPatience);
    while (true) {
      const size_t before = bytes_;
      const auto is_more = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return bytes_ > before; };
      if (!mutex_.AwaitWithTimeout(absl::Condition(&is_more), kQuiet)) return bytes_;
      if (bytes_ > (16 << 20)) return bytes_;  // without end
    }
  }
  int streams() {
    absl::MutexLock lock(&mutex_);
    return streams_;
  }
  std::string worker() {
    absl::MutexLock lock(&mutex_);
    return worker_;
  }

 private:
  const std::string address_;
  absl::Mutex mutex_;
  int streams_ ABSL_GUARDED_BY(mutex_) = 0;
  bool refuses_ ABSL_GUARDED_BY(mutex_) = false;
  std::string worker_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  ServerStream* stream_ ABSL_GUARDED_BY(mutex_) = nullptr;
  std::unique_ptr<grpc::Server> server_;
};

class LogsOfferTest : public ::testing::Test {
 protected:
  static proto::LogWanted Begin() {
    proto::LogWanted wanted;
    wanted.mutable_begin();
    return wanted;
  }
  static proto::LogWanted Arrived(size_t bytes) {
    proto::LogWanted wanted;
    wanted.set_arrived_bytes(static_cast<uint32_t>(bytes));
    return wanted;
  }

  ShortFolder folder_;
  FakeCoordinator coordinator_{folder_.path()};
  std::unique_ptr<LogsOffer> offer_ =
      LogsOffer::Start({.worker = "w1", .new_source = [] { return std::make_unique<Endless>(); }});
};

TEST_F(LogsOfferTest, NoMoreIsUnderWayThanAHeartbeatMayWaitBehind) {
  offer_->OnLine(coordinator_.Line());
  ASSERT_TRUE(coordinator_.AwaitStream(1));
  EXPECT_EQ(coordinator_.worker(), "w1");
  EXPECT_EQ(coordinator_.AwaitBytes(0), 0u) << "nothing is wanted yet";
  coordinator_.Send(Begin());
  const size_t first = coordinator_.AwaitBytes(LogsOffer::kUnderWayBytesMax);
  EXPECT_GE(first, LogsOffer::kUnderWayBytesMax);
  EXPECT_LE(first, 256u << 10);
  coordinator_.Send(Arrived(first));
  EXPECT_EQ(coordinator_.AwaitBytes(2 * first), 2 * first);
  // Confirming more than was sent counts as confirming everything.
  coordinator_.Send(Arrived(100 * first));
  EXPECT_EQ(coordinator_.AwaitBytes(3 * first), 3 * first);
  offer_->Stop();
  EXPECT_TRUE(coordinator_.AwaitEnd());
}

TEST_F(LogsOfferTest, TheStreamEndsWithTheLineAndBeginsOnTheNext) {
  EXPECT_EQ(coordinator_.streams(), 0) << "there is no line yet";
  for (int i = 1; i <= 3; ++i) {
    offer_->OnLine(coordinator_.Line());
    ASSERT_TRUE(coordinator_.AwaitStream(i));
    coordinator_.Send(Begin());
    const size_t bytes = coordinator_.AwaitBytes(LogsOffer::kUnderWayBytesMax);
    EXPECT_GE(bytes, LogsOffer::kUnderWayBytesMax) << "each stream has its own";
    EXPECT_LE(bytes, 256u << 10);
    offer_->OnLine(nullptr);
    EXPECT_TRUE(coordinator_.AwaitEnd());
  }
  EXPECT_EQ(coordinator_.streams(), 3);
}

TEST_F(LogsOfferTest, WhoIsRefusedDoesNotAskAgainSoonButOnTheNextLineAtOnce) {
  coordinator_.RefuseFromNowOn();
  offer_->OnLine(coordinator_.Line());
  ASSERT_TRUE(coordinator_.AwaitStream(1));
  absl::SleepFor(2 * kQuiet);
  EXPECT_EQ(coordinator_.streams(), 1);
  offer_->OnLine(coordinator_.Line());
  ASSERT_TRUE(coordinator_.AwaitStream(2));
  offer_->Stop();
  offer_->OnLine(coordinator_.Line());
  absl::SleepFor(kQuiet);
  EXPECT_EQ(coordinator_.streams(), 2);
}

}  // namespace
}  // namespace strata::control
