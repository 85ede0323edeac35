#include <fcntl.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/control/channel.h"
#include "common/control/dial.h"
#include "common/keys/authority.h"
#include "common/keys/private_file.h"
#include "common/testing/short_folder.h"
#include "common/testing/test_keys.h"
#include "common/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/control.grpc.pb.h"
#include "proto/control.pb.h"
#include "proto/keys.grpc.pb.h"
#include "tests/e2e/hostile/keys_case.h"
#include "tests/e2e/testing/cluster.h"

// Strangers at a coordinator's port, without a certificate, who try to exhaust its memory or its
// connections.

namespace strata::tests {

namespace {

using keys::Role;
using testing::HasSubstr;

constexpr size_t kLarge = 60 << 20;  // below the limit of a message

// A coordinator whose keys `strata keys init` has made, and a worker.
class KeysFlood : public testing::Test {
 protected:
  void SetUp() override {
    const std::string state = TestDir() + "/state";
    std::filesystem::remove_all(state);
    ASSERT_EQ(RunStrata({"keys", "init", "--state", state}).status.code, 0);
    auto coordinator =
        StartDaemon("coordinator", {"coordinator", "--listen", "127.0.0.1:0", "--state", state},
                    {"env", "XDG_RUNTIME_DIR=" + runtime_.path()});
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    address_ = ValueIn(coordinator_.ready_line, "address");
    const auto pem = keys::ReadPrivateFile(state + "/keys/authority.pem", 1 << 16);
    ASSERT_TRUE(pem.ok()) << pem.status();
    const auto authority = keys::Authority::FromPem(*pem);
    ASSERT_TRUE(authority.ok()) << authority.status();
    root_ = authority->roots().front().fingerprint();
    user_ = Keys(*authority, Role::kUser, "ada");
    auto worker = StartDaemon("worker", {"worker", "--coordinator", address_, "--keys",
                                         Keys(*authority, Role::kWorker, "w1"), "--slots", "1",
                                         "--runs", TestDir() + "/runs"});
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
    sessions_ = Sessions();
    ASSERT_EQ(sessions_, 1);
  }

  std::string Keys(const keys::Authority& authority, Role role, const std::string& name) {
    const absl::Time now = absl::Now();
    const std::string path = absl::StrCat(TestDir(), "/", name, ".pem");
    const keys::KeyFile file = keys::MakeKeyFile(authority, {authority.cluster(), role, name},
                                                 now - absl::Hours(1), now + absl::Hours(1));
    EXPECT_TRUE(keys::WriteKeyFile(path, file).ok());
    return path;
  }

  // Returns a number of the coordinator's process: "VmRSS", "VmHWM", in MiB.
  int64_t MiB(const std::string& what) {
    std::ifstream status(absl::StrCat("/proc/", coordinator_.process->pid(), "/status"));
    std::string key;
    int64_t kib = 0;
    while (status >> key) {
      if (key == what + ":" && status >> kib) return kib / 1024;
    }
    return -1;
  }

  // Returns how often daemons have registered.
  int Sessions() {
    std::ifstream log(TestDir() + "/state/audit.log");
    int count = 0;
    for (std::string line; std::getline(log, line);) {
      count += line.find(R"("what":"register")") != std::string::npos ? 1 : 0;
    }
    return count;
  }

  void ExpectServes() {
    const CommandResult nodes = RunStrata({"nodes", "--coordinator", address_, "--keys", user_});
    EXPECT_EQ(nodes.status.code, 0) << nodes.err;
    EXPECT_THAT(nodes.out, HasSubstr("w1"));
  }

  const ShortFolder runtime_;
  std::string address_, root_, user_;
  Daemon coordinator_, worker_;
  int sessions_ = 0;
};

// Sends large messages as a stranger, over its own connection.
void SayMuch(const std::string& address, const std::string& root) {
  const auto line = control::LineTo(address, control::Credentials::Joining(root));
  ASSERT_TRUE(line.ok()) << line.status();
  const absl::Status up = line->Await(absl::Now() + kDeadline);
  ASSERT_TRUE(up.ok()) << up;
  proto::JoinRequest join;
  join.set_role("worker");
  join.set_secret(std::string(kLarge, 's'));
  grpc::ClientContext joining;
  proto::IssuedCertificate issued;
  const grpc::Status joined = proto::Keys::NewStub(line->channel)->Join(&joining, join, &issued);
  EXPECT_EQ(joined.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << joined.error_message();

  const auto coordinator = proto::Coordinator::NewStub(line->channel);
  proto::SubmitRequest submit;
  submit.mutable_job()->set_name(std::string(kLarge, 'n'));
  grpc::ClientContext submitting;
  proto::SubmitReply reply;
  EXPECT_THAT(coordinator->Submit(&submitting, submit, &reply).error_message(),
              HasSubstr("only those who show a certificate"));
  proto::DaemonMessage message;
  message.mutable_node_failed()->set_reason(std::string(kLarge, 'r'));
  grpc::ClientContext session;
  const auto stream = coordinator->Session(&session);
  stream->Write(message);
  EXPECT_THAT(stream->Finish().error_message(), HasSubstr("only those who show a certificate"));
}

TEST_F(KeysFlood, WhatStrangersSayInLargeMessagesIsNotReadIntoMemory) {
  const int64_t before = MiB("VmRSS");
  ASSERT_GT(before, 0);
  std::vector<std::thread> strangers;
  for (int i = 0; i < 8; ++i) strangers.emplace_back([&] { SayMuch(address_, root_); });
  for (int i = 0; i < 3; ++i) ExpectServes();
  for (std::thread& stranger : strangers) stranger.join();
  ExpectServes();
  EXPECT_LT(MiB("VmHWM") - before, 200);
  EXPECT_EQ(Sessions(), sessions_) << "a daemon has lost its session";
}

// A connection with a complete TLS handshake and no byte of HTTP/2.
UniqueFd ShakenHands(const std::string& address) {
  auto fd = control::DialTcp(address, absl::Seconds(60), absl::Seconds(60));
  EXPECT_TRUE(fd.ok()) << fd.status();
  if (!fd.ok()) return UniqueFd();
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  &SSL_CTX_free);
  const unsigned char http2[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), http2, sizeof http2);
  const std::unique_ptr<SSL, decltype(&SSL_free)> tls(SSL_new(context.get()), &SSL_free);
  const int flags = fcntl(fd->get(), F_GETFL);
  fcntl(fd->get(), F_SETFL, flags & ~O_NONBLOCK);
  SSL_set_fd(tls.get(), fd->get());
  EXPECT_EQ(SSL_connect(tls.get()), 1);
  fcntl(fd->get(), F_SETFL, flags | O_NONBLOCK);
  return *std::move(fd);
}

bool HasEnded(const UniqueFd& fd) {
  char dropped[4096];
  ssize_t got = 1;
  while (got > 0) got = recv(fd.get(), dropped, sizeof dropped, MSG_DONTWAIT);
  return got == 0 || errno == ECONNRESET;
}

TEST_F(KeysFlood, SilentStrangersArePutOut) {
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 50; ++i) {
    auto fd = control::DialTcp(address_, absl::Seconds(60), absl::Seconds(60));
    ASSERT_TRUE(fd.ok()) << fd.status();
    silent.push_back(*std::move(fd));
    silent.push_back(ShakenHands(address_));
  }
  // gRPC itself would wait for 2 minutes.
  const auto all_ended = [&] {
    for (const UniqueFd& fd : silent) {
      if (!HasEnded(fd)) return false;
    }
    return true;
  };
  EXPECT_TRUE(WaitUntil(all_ended, absl::Seconds(60)));
  ExpectServes();
  EXPECT_EQ(Sessions(), sessions_) << "a daemon has lost its session";
}

// Members who begin calls and send no request.

constexpr int kSilentCallsMax = 16;  // of one member: docs/limits.md

// Calls over one connection, of which the coordinator receives only the headers.
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
  // Sends the last request on every connection.
  void SayInAll(const std::string& request) {
    const grpc::Slice slice(request);
    for (const auto& call : calls_) {
      if (!call->has_ended) call->stream->WriteLast({&slice, 1}, grpc::WriteOptions(), nullptr);
    }
  }

  // Returns how many have ended with that code.
  int Ended(grpc::StatusCode code) const {
    return static_cast<int>(std::count_if(calls_.begin(), calls_.end(), [code](const auto& call) {
      return call->has_ended && call->status.error_code() == code;
    }));
  }
  // Waits until this many have ended.
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
  // As many others as before are accepted.
  const CommandResult jobs =
      RunStrata({"jobs", "--coordinator", address_, "--keys", Keys(Role::kUser, "ada")});
  EXPECT_EQ(jobs.status.code, 0) << jobs.err;
  EXPECT_TRUE(calls.AwaitEnds(kCalls)) << "who says nothing is waited for";
}

TEST_F(KeysSilence, WhatIsAskedAfterARevocationIsRefusedThoughTheCallBeganBefore) {
  SilentCalls calls(address_, Keys(Role::kUser, "ada"));
  // One too many: once it is refused, the others have been accepted.
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
