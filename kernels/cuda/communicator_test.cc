// Ranks that sum data on their devices: as threads, and with the fake NCCL as processes.
#include "kernels/device/communicator.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/device/test_devices.h"

namespace strata::cuda {
namespace {

using device::Communicator;
using device::Device;
using device::Memory;
using device::Stream;
using testing::HasSubstr;

absl::Status Always() { return absl::OkStatus(); }

// Gives up after `time`, with a message of its own.
device::StillWanted For(absl::Duration time) {
  return [until = absl::Now() + time] {
    return absl::Now() < until ? absl::OkStatus() : absl::UnavailableError("the job was stopped");
  };
}

// One rank's device and memory.
struct Rank {
  explicit Rank(uint32_t index)
      : device(device::FindTestDevices()->Use(index).value()),
        stream(device->NewStream(false).value()) {}

  template <typename T>
  T* Put(const std::vector<T>& values) {
    memory = device->Allocate(values.size() * sizeof(T), "a test").value();
    EXPECT_EQ(stream->Copy(memory.get(), values.data(), values.size() * sizeof(T)),
              absl::OkStatus());
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    return reinterpret_cast<T*>(memory.get());
  }
  template <typename T>
  std::vector<T> Get(const T* at, size_t count) {
    std::vector<T> values(count);
    EXPECT_EQ(stream->Copy(values.data(), at, count * sizeof(T)), absl::OkStatus());
    EXPECT_EQ(stream->Synchronize(), absl::OkStatus());
    return values;
  }

  std::shared_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  Memory memory;
};

class CommunicatorTest : public testing::Test {
 protected:
  CommunicatorTest() { device::ConfigureTestDevices("devices=4"); }
  ~CommunicatorTest() override { device::ConfigureTestDevices(""); }

  void SetUp() override {
    const absl::Status status =
        device::FindTestDevices()->Use(0).value()->NewCommunicatorId().status();
    if (absl::IsNotFound(status) || absl::IsUnimplemented(status)) GTEST_SKIP() << status.message();
    ASSERT_EQ(status, absl::OkStatus());
  }

  static std::string NewId() {
    return device::FindTestDevices()->Use(0).value()->NewCommunicatorId().value();
  }

  // Runs each on a thread and a device of its own; skips if there are too few.
  static void InRanks(uint32_t ranks,
                      const std::function<void(uint32_t, Communicator&, Rank&)>& body,
                      const device::StillWanted& wanted = Always) {
    if (device::TestDeviceCount() < ranks)
      GTEST_SKIP() << "there are fewer than " << ranks << " devices";
    const std::string id = NewId();
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < ranks; ++r) {
      threads.emplace_back([&, r] {
        Rank rank(r);
        auto communicator = rank.device->NewCommunicator(id, ranks, r, wanted);
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        body(r, **communicator, rank);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(CommunicatorTest, EveryRankHasTheSumOfAll) {
  InRanks(3, [](uint32_t r, Communicator& communicator, Rank& rank) {
    // More than one piece of the fake one's.
    std::vector<float> values(40000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1000 * r);
    float* const at = rank.Put(values);
    ASSERT_EQ(communicator.AllReduce(*rank.stream, at, at, values.size(), Always),
              absl::OkStatus());
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(3 * i + 3000);
    EXPECT_EQ(rank.Get(at, values.size()), values);
    EXPECT_EQ(communicator.Finish(Always), absl::OkStatus());
  });
}

TEST_F(CommunicatorTest, ASumElsewhereLeavesTheRanksOwnValuesAsTheyAre) {
  InRanks(3, [](uint32_t r, Communicator& communicator, Rank& rank) {
    constexpr size_t kCount = 40000;
    std::vector<float> values(2 * kCount, -1.0f);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<float>(i + 1000 * r);
    float* const at = rank.Put(values);
    ASSERT_EQ(communicator.AllReduce(*rank.stream, at, at + kCount, kCount, Always),
              absl::OkStatus());
    for (size_t i = 0; i < kCount; ++i) values[kCount + i] = static_cast<float>(3 * i + 3000);
    EXPECT_EQ(rank.Get(at, values.size()), values);
    EXPECT_EQ(communicator.Finish(Always), absl::OkStatus());
  });
}

TEST_F(CommunicatorTest, CountsAreAddedExactly) {
  InRanks(2, [](uint32_t r, Communicator& communicator, Rank& rank) {
    uint64_t* const at = rank.Put<uint64_t>({(uint64_t{1} << 60) + r});
    ASSERT_EQ(communicator.AllReduce(*rank.stream, at, 1, Always), absl::OkStatus());
    EXPECT_EQ(rank.Get(at, 1)[0], (uint64_t{1} << 61) + 1);
  });
}

TEST_F(CommunicatorTest, AReductionsSumIsItsRootsAlone) {
  InRanks(2, [](uint32_t r, Communicator& communicator, Rank& rank) {
    float* const at = rank.Put<float>({1.0f + r, 8});
    float* const sum = r == 1 ? at + 1 : nullptr;
    ASSERT_EQ(communicator.Reduce(*rank.stream, at, sum, 1, 1, Always), absl::OkStatus());
    EXPECT_EQ(rank.Get(at, 2), (std::vector<float>{1.0f + r, r == 1 ? 3.0f : 8.0f}));
  });
}

TEST_F(CommunicatorTest, EveryRankHasTheRootsBits) {
  InRanks(3, [](uint32_t r, Communicator& communicator, Rank& rank) {
    const auto of_rank = [](uint32_t from) {
      // More than one piece of the fake one's.
      std::vector<float> values(40000, static_cast<float>(from));
      values[1] = from == 2 ? -0.0f : 1;
      values[2] = std::bit_cast<float>(0x7fc0'0000u + from);  // each rank's own NaN
      values[3] = from == 2 ? std::numeric_limits<float>::denorm_min() : INFINITY;
      return values;
    };
    const std::vector<float> own = of_rank(r), expected = of_rank(2);
    float* const at = rank.Put(own);
    ASSERT_EQ(communicator.Broadcast(*rank.stream, at, own.size(), 2, Always), absl::OkStatus());
    const std::vector<float> found = rank.Get(at, own.size());
    EXPECT_EQ(std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)), 0);
  });
}

TEST_F(CommunicatorTest, ARankThatNeverComesHoldsTheOthersUpOnlyWhileTheyAreWanted) {
  Rank rank(0);
  const auto communicator =
      rank.device->NewCommunicator(NewId(), 2, 0, For(absl::Milliseconds(50)));
  EXPECT_EQ(communicator.status(), absl::UnavailableError("the job was stopped"));
}

TEST_F(CommunicatorTest, AnIdThatIsNoneIsRefused) {
  const Rank rank(0);
  EXPECT_EQ(rank.device->NewCommunicator("abc", 1, 0, Always).status(),
            absl::InvalidArgumentError("NCCL: an id has 128 bytes, not 3"));
}

// Tests of the fake library alone: failures, and their messages.
using CommunicatorOnFake = CommunicatorTest;

TEST_F(CommunicatorOnFake, AnErrorShowsAndWhatIsQueuedEndsWhenItIsAborted) {
  device::ConfigureTestDevices("devices=4,nccl_fails_rank=1,nccl_fails_at=2");
  InRanks(2, [](uint32_t r, Communicator& communicator, Rank& rank) {
    float* const at = rank.Put<float>({1});
    ASSERT_EQ(communicator.AllReduce(*rank.stream, at, at, 1, Always), absl::OkStatus());
    ASSERT_EQ(rank.Get(at, 1)[0], 2);
    ASSERT_EQ(communicator.Error(), absl::OkStatus());
    ASSERT_EQ(communicator.AllReduce(*rank.stream, at, at, 1, Always), absl::OkStatus());
    const absl::Time until = absl::Now() + absl::Seconds(60);
    while (r == 1 && communicator.Error().ok() && absl::Now() < until) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    if (r == 1) {
      const absl::Status error = communicator.Error();
      EXPECT_EQ(error.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(error.message()),
                  HasSubstr("device 1: NCCL: a collective: remote process exited"));
    }
    communicator.Abort();  // rank 0 sees nothing of it: it has to be told
    EXPECT_EQ(rank.stream->Synchronize(), absl::OkStatus());
    EXPECT_EQ(communicator.AllReduce(*rank.stream, at, at, 1, Always).code(),
              absl::StatusCode::kFailedPrecondition);
  });
}

TEST_F(CommunicatorOnFake, RanksOnOneDeviceAreRefused) {
  const std::string id = NewId();
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      const Rank rank(3);
      const absl::Status status = rank.device->NewCommunicator(id, 2, r, Always).status();
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr("device 3: NCCL: ncclCommInitRankConfig: invalid usage: Duplicate GPU "
                            "detected : rank 0 and rank 1"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(CommunicatorOnFake, AnIdThatNobodyMadeIsRefused) {
  const Rank rank(0);
  const absl::Status nobody =
      rank.device->NewCommunicator(std::string(128, '\x7f'), 1, 0, Always).status();
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("unhandled system error"));
}

}  // namespace
}  // namespace strata::cuda
