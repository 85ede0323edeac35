// Members who begin calls and do not say what they ask for.
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "common/control/channel.h"
#include "gtest/gtest.h"
#include "proto/control.pb.h"
#include "tests/e2e/keys/keys_case.h"

namespace strata::tests {
namespace {

using keys::Role;

constexpr int kSilentCallsMax = 16;  // of one member: docs/limits.md

// Calls over one connection, of which the coordinator hears the head alone.
class SilentCalls {
 public:
  SilentCalls(const std::string& address, const std::string& keys) {
    auto line = control::LineTo(address, control::Credentials::File(keys));
    EXPECT_TRUE(line.ok()) << line.status();
    EXPECT_TRUE(line->Await(absl::Now() + kDeadline).ok());
    stub_ = std::make_unique<grpc::GenericStub>(line->channel);
  }
  ~SilentCalls() {
    for (const auto& call : calls_) call->context.TryCancel();
    queue_.Shutdown();
    void* tag = nullptr;
    bool good = false;
    while (queue_.Next(&tag, &good)) {
    }
  }

  void Begin(const std::string& method) {
    auto call = std::make_unique<Call>();
    call->stream = stub_->PrepareCall(&call->context, method, &queue_);
    call->stream->StartCall(nullptr);
    call->stream->Finish(&call->status, call.get());
    calls_.push_back(std::move(call));
  }
  // What all of them ask for at last.
  void SayInAll(const std::string& request) {
    const grpc::Slice slice(request);
    for (const auto& call : calls_) {
      if (!call->has_ended) call->stream->WriteLast({&slice, 1}, grpc::WriteOptions(), nullptr);
    }
  }

  // How many have ended with that code.
  int Ended(grpc::StatusCode code) const {
    return static_cast<int>(std::count_if(calls_.begin(), calls_.end(), [code](const auto& call) {
      return call->has_ended && call->status.error_code() == code;
    }));
  }
  // Waits until so many have ended.
  bool AwaitEnds(size_t count) {
    const auto deadline = std::chrono::system_clock::now() + std::chrono::seconds(60);
    while (ended_ < count) {
      void* tag = nullptr;
      bool good = false;
      if (queue_.AsyncNext(&tag, &good, deadline) != grpc::CompletionQueue::GOT_EVENT) return false;
      if (tag == nullptr) continue;
      static_cast<Call*>(tag)->has_ended = true;
      ++ended_;
    }
    return true;
  }

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
    grpc::Status status;
    bool has_ended = false;
  };

  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
  std::vector<std::unique_ptr<Call>> calls_;
  size_t ended_ = 0;
};

class KeysSilence : public KeysCase {};

TEST_F(KeysSilence, OneMembersCallsAreFewAndEndSoon) {
  constexpr int kCalls = 40;
  SilentCalls calls(address_, Keys(Role::kWorker, "w1"));
  for (int i = 0; i < kCalls; ++i) calls.Begin("/strata.proto.Keys/Renew");
  EXPECT_TRUE(calls.AwaitEnds(kCalls - kSilentCallsMax));
  EXPECT_EQ(calls.Ended(grpc::StatusCode::RESOURCE_EXHAUSTED), kCalls - kSilentCallsMax);
  // Others get in, as many as before.
  const CommandResult jobs =
      RunStrata({"jobs", "--coordinator", address_, "--keys", Keys(Role::kUser, "ada")});
  EXPECT_EQ(jobs.status.code, 0) << jobs.err;
  EXPECT_TRUE(calls.AwaitEnds(kCalls)) << "who says nothing is waited for";
}

TEST_F(KeysSilence, WhatIsAskedAfterARevocationIsRefusedThoughTheCallBeganBefore) {
  SilentCalls calls(address_, Keys(Role::kUser, "ada"));
  // One too many: once it is refused the others have been greeted.
  for (int i = 0; i <= kSilentCallsMax; ++i) calls.Begin("/strata.proto.Coordinator/Submit");
  ASSERT_TRUE(calls.AwaitEnds(1));
  ASSERT_EQ(calls.Ended(grpc::StatusCode::RESOURCE_EXHAUSTED), 1);
  Operator({"revoke", "ada", "--role", "user"});
  proto::SubmitRequest request;
  request.mutable_job()->set_name("late");
  calls.SayInAll(request.SerializeAsString());
  EXPECT_TRUE(calls.AwaitEnds(kSilentCallsMax + 1));
  EXPECT_EQ(calls.Ended(grpc::StatusCode::PERMISSION_DENIED), kSilentCallsMax);
}

}  // namespace
}  // namespace strata::tests
