#include "server/coordinator/service/acceptor.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/os/unix_socket.h"
#include "common/testing/other_user.h"
#include "common/unique_fd.h"
#include "gtest/gtest.h"

namespace strata::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

UniqueFd ConnectTo(int port) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

class AcceptorTest : public ::testing::Test {
 protected:
  void Start(int descriptors_max, const std::string& listen = "127.0.0.1:0") {
    acceptor_ = *Acceptor::Create({.listen = listen, .descriptors_max = descriptors_max});
    acceptor_->Start({.take =
                          [this](UniqueFd fd, bool) {
                            absl::MutexLock lock(&mutex_);
                            taken_.push_back(std::move(fd));
                          },
                      .refused =
                          [this] {
                            absl::MutexLock lock(&mutex_);
                            ++refused_;
                          },
                      .stranger =
                          [this] {
                            absl::MutexLock lock(&mutex_);
                            ++strangers_;
                          }});
  }
  // Waits until so many connections were taken and refused in total.
  bool Await(size_t taken, int refused) {
    absl::MutexLock lock(&mutex_);
    const auto is_so = [&] { return taken_.size() == taken && refused_ == refused; };
    return mutex_.AwaitWithTimeout(absl::Condition(&is_so), kPatience);
  }
  void EndTaken() {
    absl::MutexLock lock(&mutex_);
    taken_.clear();
  }

  absl::Mutex mutex_;
  std::vector<UniqueFd> taken_;
  int refused_ = 0, strangers_ = 0;
  std::unique_ptr<Acceptor> acceptor_;
};

TEST_F(AcceptorTest, TakesConnectionsUpToTheLimitAndAgainOnceSomeHaveEnded) {
  // Both ends belong to this process: with the listener and the doorbell, three connections and one
  // end of a fourth take nine.
  const int lowest = UniqueFd(dup(STDERR_FILENO)).get();
  Start(lowest + 9);
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 3; ++i) {
    peers.push_back(ConnectTo(acceptor_->port()));
    ASSERT_TRUE(Await(i + 1, 0)) << i;
  }
  const UniqueFd too_much = ConnectTo(acceptor_->port());
  ASSERT_TRUE(Await(3, 1));
  char byte = 0;
  EXPECT_LE(recv(too_much.get(), &byte, 1, 0), 0) << "it is closed";
  EndTaken();
  const UniqueFd next = ConnectTo(acceptor_->port());
  EXPECT_TRUE(Await(1, 1));
}

TEST_F(AcceptorTest, TakesConnectionsAgainAfterTheProcessHadNoDescriptors) {
  Start(INT_MAX);
  const UniqueFd first = ConnectTo(acceptor_->port());
  ASSERT_TRUE(Await(1, 0));
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const UniqueFd second(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit none = {static_cast<rlim_t>(second.get() + 1), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_in address = {.sin_family = AF_INET};
  address.sin_port = htons(static_cast<uint16_t>(acceptor_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(connect(second.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  absl::SleepFor(absl::Milliseconds(200));  // it keeps failing
  {
    absl::MutexLock lock(&mutex_);
    EXPECT_EQ(taken_.size(), 1u);
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(Await(2, 0));
}

class AcceptorOfOneUserTest : public AcceptorTest {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/acceptor_test-XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
    path_ = folder_ + "/s";
    Start(INT_MAX, "unix:" + path_);
  }
  void TearDown() override {
    acceptor_.reset();
    EXPECT_NE(access(path_.c_str(), F_OK), 0) << "its file goes with it";
    EXPECT_EQ(rmdir(folder_.c_str()), 0);
  }
  std::string folder_, path_;
};

TEST_F(AcceptorOfOneUserTest, TakesThisUsersConnections) {
  EXPECT_EQ(acceptor_->port(), 0);
  const auto own = DialUnix(path_);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_TRUE(Await(1, 0));
}

TEST_F(AcceptorOfOneUserTest, ASocketBesidesAPortIsTakenWhereItIsFree) {
  const std::string second = folder_ + "/second";
  for (const std::string& also : {second, path_}) {  // the second is the other acceptor's
    absl::Mutex mutex;
    int taken = 0;
    const auto acceptor =
        *Acceptor::Create({.listen = "127.0.0.1:0", .also = also, .descriptors_max = INT_MAX});
    acceptor->Start({.take =
                         [&](UniqueFd, bool) {
                           absl::MutexLock lock(&mutex);
                           ++taken;
                         },
                     .refused = [] {},
                     .stranger = [] {}});
    const UniqueFd tcp = ConnectTo(acceptor->port());
    ASSERT_TRUE(tcp.valid());
    const bool is_there = also == second;
    if (is_there) {
      EXPECT_TRUE(DialUnix(second).ok());
    }
    absl::MutexLock lock(&mutex);
    const auto all_taken = [&] { return taken == (is_there ? 2 : 1); };
    EXPECT_TRUE(mutex.AwaitWithTimeout(absl::Condition(&all_taken), absl::Seconds(60)));
  }
  EXPECT_TRUE(DialUnix(path_).ok()) << "it is still there";
}

// The kernel identifies peers that get past the file's mode.
TEST_F(AcceptorOfOneUserTest, EndsThoseOfAnotherUser) {
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  ASSERT_EQ(chmod(path_.c_str(), 0777), 0);
  const bool ran = AsOtherUser([&] {
    const UniqueFd fd = ConnectBlindly(path_);
    char byte = 0;
    return fd.valid() && recv(fd.get(), &byte, 1, 0) <= 0;  // the other side has ended it
  });
  if (!ran) GTEST_SKIP() << "takes root, outside of a namespace";
  absl::MutexLock lock(&mutex_);
  EXPECT_EQ(strangers_, 1);
  EXPECT_EQ(taken_.size(), 0u);
}

TEST(ListenOn, AcceptsAnyFreePort) {
  for (const char* address : {"127.0.0.1:0", "localhost:0"}) {
    const auto listeners = ListenOn(address);
    ASSERT_TRUE(listeners.ok()) << listeners.status();
    for (const UniqueFd& listener : *listeners) {
      EXPECT_EQ(BoundPort(listener), BoundPort(listeners->front()));
      EXPECT_GT(BoundPort(listener), 0);
    }
  }
}

TEST(ListenOn, NamesAPortInUse) {
  const UniqueFd taken(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(taken.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(taken.get(), 1), 0);
  ASSERT_EQ(getsockname(taken.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string where = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  EXPECT_EQ(ListenOn(where).status(),
            absl::AlreadyExistsError("cannot listen on " + where + ": Address already in use"));
}

TEST(ListenOn, NamesAnAddressThatIsNone) {
  for (const char* address : {"7070", ":7070", "127.0.0.1:", "127.0.0.1:70000", "127.0.0.1:x"}) {
    EXPECT_EQ(ListenOn(address).status(),
              absl::InvalidArgumentError(std::string("cannot listen on ") + address +
                                         ": expected HOST:PORT"));
  }
  // An address of the documentation network: no host has it.
  EXPECT_EQ(ListenOn("192.0.2.1:0").status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace

}  // namespace strata::server
