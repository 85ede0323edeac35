#include "kernels/fake_cuda/streams.h"

#include <cuda_runtime.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "kernels/fake_cuda/control.h"
#include "kernels/fake_cuda/testing.h"

namespace fake_cuda {
namespace {

class StreamsTest : public testing::Test {
 protected:
  StreamsTest() { Configure({}); }
  ~StreamsTest() override { Configure({}); }

  cudaError_t Copy(int* to, const int* from, const OwnedStream& stream) {
    return cudaMemcpyAsync(to, from, sizeof(int), cudaMemcpyDefault, stream.get());
  }

  OwnedStream stream_ = NewStream(), other_ = NewStream();
};

__global__ void Add(int* at, int value) { *at += value; }

TEST_F(StreamsTest, NothingIsDoneBeforeItsTurn) {
  const Array<int> array(1);
  const OwnedEvent event = NewEvent();
  int from = 40, to = -1;
  Gate gate;
  gate.Close(stream_.get());
  ASSERT_EQ(Copy(array.at(), &from, stream_), cudaSuccess);
  ASSERT_EQ(LaunchOn(stream_, 1, 1, &Add, array.at(), 2), cudaSuccess);
  ASSERT_EQ(Copy(&to, array.at(), stream_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event.get(), stream_.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(to, -1);
  from = 50;  // what was not read yet is read when its turn comes
  gate.Open();
  ASSERT_EQ(cudaEventSynchronize(event.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaSuccess);
  EXPECT_EQ(to, 52);
}

TEST_F(StreamsTest, AStreamWaitsForAnEventOfAnotherAndNoOtherStreamDoes) {
  const Array<int> array(1);
  const OwnedEvent event = NewEvent(), free = NewEvent();
  const int one = 1;
  int seen = -1;
  Gate gate;
  gate.Close(stream_.get());
  Copy(array.at(), &one, stream_);
  cudaEventRecord(event.get(), stream_.get());
  ASSERT_EQ(cudaStreamWaitEvent(other_.get(), event.get()), cudaSuccess);
  Copy(&seen, array.at(), other_);
  absl::Notification called;
  cudaLaunchHostFunc(
      other_.get(), [](void* called) { static_cast<absl::Notification*>(called)->Notify(); },
      &called);
  // Long enough for a stream that does not wait though it should.
  EXPECT_FALSE(called.WaitForNotificationWithTimeout(absl::Milliseconds(100)));
  cudaEventRecord(free.get(), NewStream().get());
  EXPECT_EQ(cudaEventSynchronize(free.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorNotReady);
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(other_.get()), cudaSuccess);
  EXPECT_EQ(seen, 1);
}

TEST_F(StreamsTest, AWaitIsForTheLastRecordBeforeItAndForNoneIfThereIsNone) {
  const OwnedEvent event = NewEvent();
  EXPECT_EQ(cudaEventQuery(event.get()), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaSuccess);
  cudaStreamWaitEvent(other_.get(), event.get());
  EXPECT_EQ(cudaStreamSynchronize(other_.get()), cudaSuccess);

  cudaEventRecord(event.get(), stream_.get());
  cudaStreamWaitEvent(other_.get(), event.get());
  Gate gate;
  gate.Close(stream_.get());
  cudaEventRecord(event.get(), stream_.get());
  EXPECT_EQ(cudaStreamSynchronize(other_.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event.get()), cudaErrorNotReady);
  gate.Open();
  EXPECT_EQ(cudaEventSynchronize(event.get()), cudaSuccess);
}

TEST_F(StreamsTest, AnEventMayGoBeforeTheWorkThatWaitsForIt) {
  const Array<int> array(1);
  const int one = 1;
  int seen = -1;
  Gate gate;
  gate.Close(stream_.get());
  Copy(array.at(), &one, stream_);
  {
    const OwnedEvent event = NewEvent();
    cudaEventRecord(event.get(), stream_.get());
    cudaStreamWaitEvent(other_.get(), event.get());
  }
  Copy(&seen, array.at(), other_);
  gate.Open();
  EXPECT_EQ(cudaStreamSynchronize(other_.get()), cudaSuccess);
  EXPECT_EQ(seen, 1);
}

TEST_F(StreamsTest, BetweenEventsOfAStreamThatPretendsATimeItIsThatAndElseTheRealOne) {
  cudaEvent_t raw[3] = {};
  for (cudaEvent_t& event : raw) ASSERT_EQ(cudaEventCreateWithFlags(&event, 0), cudaSuccess);
  const OwnedEvent begin(raw[0]), end(raw[1]), elsewhere(raw[2]);
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin.get(), end.get()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  Gate gate;
  cudaEventRecord(begin.get(), stream_.get());
  stream_->Add([this] {
    absl::SleepFor(absl::Milliseconds(2));
    stream_->Pretend(7000);
  });
  gate.Close(stream_.get());
  cudaEventRecord(end.get(), stream_.get());
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin.get(), end.get()), cudaErrorNotReady);
  gate.Open();
  cudaStreamSynchronize(stream_.get());
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin.get(), end.get()), cudaSuccess);
  EXPECT_EQ(ms, 7);
  EXPECT_EQ(cudaEventElapsedTime(&ms, end.get(), begin.get()), cudaSuccess);
  EXPECT_EQ(ms, -7);
  cudaEventRecord(elsewhere.get(), other_.get());
  cudaStreamSynchronize(other_.get());
  EXPECT_EQ(cudaEventElapsedTime(&ms, end.get(), elsewhere.get()), cudaSuccess);
  EXPECT_GE(ms, 0);
  float whole = 0;
  EXPECT_EQ(cudaEventElapsedTime(&whole, begin.get(), elsewhere.get()), cudaSuccess);
  EXPECT_GE(whole, ms + 1.99f);
}

// CUDA C++ Programming Guide, "Stream and Event Behavior" of several devices.
class StreamsOfTwoDevicesTest : public StreamsTest {
 protected:
  StreamsOfTwoDevicesTest() {
    Configure({.devices = 2});
    cudaSetDevice(1);
    elsewhere_ = NewStream();
    event_ = NewTimedEvent();
    cudaSetDevice(0);
  }
  ~StreamsOfTwoDevicesTest() override { cudaSetDevice(0); }

  static OwnedEvent NewTimedEvent() {
    cudaEvent_t event = nullptr;
    cudaEventCreateWithFlags(&event, 0);
    return OwnedEvent(event);
  }

  OwnedStream elsewhere_;  // on device 1, as the event
  OwnedEvent event_;
};

TEST_F(StreamsOfTwoDevicesTest, AnEventIsRecordedInStreamsOfItsOwnDeviceOnly) {
  EXPECT_EQ(cudaEventRecord(event_.get(), stream_.get()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventQuery(event_.get()), cudaSuccess) << "still never recorded";
  EXPECT_EQ(cudaEventRecord(event_.get(), elsewhere_.get()), cudaSuccess) << "whatever is current";
  EXPECT_EQ(cudaStreamWaitEvent(stream_.get(), event_.get()), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_.get()), cudaSuccess);
}

TEST_F(StreamsOfTwoDevicesTest, ThereIsNoTimeBetweenEventsOfTwoDevices) {
  const OwnedEvent here = NewTimedEvent();
  ASSERT_EQ(cudaEventRecord(here.get(), stream_.get()), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(event_.get(), elsewhere_.get()), cudaSuccess);
  cudaStreamSynchronize(stream_.get());
  cudaStreamSynchronize(elsewhere_.get());
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, here.get(), event_.get()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventElapsedTime(&ms, event_.get(), here.get()), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(ms, -1);
}

TEST_F(StreamsOfTwoDevicesTest, AKernelIsLaunchedIntoStreamsOfTheCurrentDeviceOnly) {
  const Array<int> array(1);
  const int one = 1;
  ASSERT_EQ(Copy(array.at(), &one, elsewhere_), cudaSuccess) << "a copy goes everywhere";
  ASSERT_EQ(cudaStreamSynchronize(elsewhere_.get()), cudaSuccess);
  EXPECT_EQ(LaunchOn(elsewhere_, 1, 1, &Add, array.at(), 10), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(LaunchOn(stream_, 1, 1, &Add, array.at(), 100), cudaSuccess);
  EXPECT_EQ(array.Read(stream_.get())[0], 101);
  cudaSetDevice(1);
  EXPECT_EQ(LaunchOn(stream_, 1, 1, &Add, array.at(), 10), cudaErrorInvalidResourceHandle);
  const Array<int> there(1);
  ASSERT_EQ(Copy(there.at(), &one, elsewhere_), cudaSuccess);
  EXPECT_EQ(LaunchOn(elsewhere_, 1, 1, &Add, there.at(), 10), cudaSuccess);
  EXPECT_EQ(there.Read(elsewhere_.get())[0], 11);
}

TEST_F(StreamsTest, AStreamThatIsDestroyedDoesItsWorkFirst) {
  const Array<int> array(1);
  const int one = 1;
  Copy(array.at(), &one, stream_);
  for (int i = 0; i < 100; ++i) LaunchOn(stream_, 1, 1, &Add, array.at(), 1);
  stream_.reset();
  EXPECT_EQ(array.Read(other_.get())[0], 101);
}

TEST_F(StreamsTest, TheLaunchThatIsToFailDoesAndNothingAfterItIsDone) {
  Settings settings;
  settings.fails_at = 3;
  settings.error = cudaErrorIllegalAddress;
  Configure(settings);
  const Array<int> array(1);
  const int zero = 0;
  int seen = -1;
  std::atomic<int> called = 0;
  Copy(array.at(), &zero, stream_);
  LaunchOn(stream_, 1, 1, &Add, array.at(), 1);
  LaunchOn(stream_, 1, 1, &Add, array.at(), 10);
  Copy(&seen, array.at(), stream_);
  ASSERT_EQ(cudaStreamSynchronize(stream_.get()), cudaSuccess);
  EXPECT_EQ(seen, 11);

  LaunchOn(stream_, 1, 1, &Add, array.at(), 100);
  Copy(&seen, array.at(), stream_);
  cudaLaunchHostFunc(
      stream_.get(), [](void* count) { ++*static_cast<std::atomic<int>*>(count); }, &called);
  EXPECT_EQ(cudaStreamSynchronize(stream_.get()), cudaErrorIllegalAddress);
  EXPECT_EQ(seen, 11);
  EXPECT_EQ(called, 0);
  EXPECT_EQ(Sticky(), cudaErrorIllegalAddress);

  Configure({});
  EXPECT_EQ(array.Read(stream_.get())[0], 11) << "the launch itself did nothing";
}

TEST_F(StreamsTest, OptionsOfThePluginSayWhatThereIs) {
  ASSERT_EQ(ConfigureFrom("devices=3,memory_mb=2,driver=12040,fails_at=7,error=700,delay_us=9"),
            absl::OkStatus());
  const Settings& settings = CurrentSettings();
  EXPECT_EQ(settings.devices, 3);
  EXPECT_EQ(settings.memory_bytes, size_t{2} << 20);
  EXPECT_EQ(settings.driver, 12040);
  EXPECT_EQ(settings.fails_at, 7u);
  EXPECT_EQ(settings.error, 700);
  EXPECT_EQ(settings.delay_us, 9u);
  ASSERT_EQ(ConfigureFrom(""), absl::OkStatus());
  EXPECT_EQ(CurrentSettings().devices, 1);
  EXPECT_EQ(ConfigureFrom("devices=2,speed=3"),
            absl::InvalidArgumentError("speed=3: is no option of the fake device"));
  EXPECT_EQ(ConfigureFrom("devices=-1"),
            absl::InvalidArgumentError("devices=-1: is not NAME=NUMBER"));
  EXPECT_EQ(ConfigureFrom("devices"), absl::InvalidArgumentError("devices: is not NAME=NUMBER"));
}

TEST_F(StreamsTest, ErrorsHaveCudasNamesAndTexts) {
  EXPECT_EQ(std::string(cudaGetErrorName(cudaErrorLaunchFailure)), "cudaErrorLaunchFailure");
  EXPECT_EQ(std::string(cudaGetErrorString(cudaErrorLaunchFailure)), "unspecified launch failure");
  EXPECT_EQ(std::string(cudaGetErrorName(static_cast<cudaError_t>(9999))),
            "unrecognized error code");
}

}  // namespace
}  // namespace fake_cuda
