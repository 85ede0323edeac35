#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/os/unix_socket.h"
#include "common/testing/other_user.h"
#include "gtest/gtest.h"
#include "worker/contract/node_memory.h"
#include "worker/contract/rank_socket.h"

namespace strata::worker {
namespace {

constexpr uint64_t kElements = 3000;

// One rank's mapping of the node's memory, with weights shared.
std::unique_ptr<NodeMemory> Attached(const NodeMemory& node, uint32_t local_rank) {
  auto memory = NodeMemory::Attach(UniqueFd(dup(node.fd())), kElements, 2, local_rank);
  EXPECT_TRUE(memory.ok()) << memory.status();
  EXPECT_TRUE((*memory)->ShareWeights().ok());
  return *std::move(memory);
}

TEST(NodeMemory, KeptWeightsAreARanksOwnAndOutliveTheNode) {
  auto node = *NodeMemory::Create(kElements, 2);
  for (uint64_t i = 0; i < kElements; ++i) node->weights()[i] = static_cast<float>(i);
  auto first = Attached(*node, 0), second = Attached(*node, 1);
  float* const own = first->weights();
  ASSERT_TRUE(first->KeepWeights().ok());
  EXPECT_EQ(first->weights(), own) << "the address stays";
  own[7] = -1;
  ASSERT_TRUE(first->KeepWeights().ok());
  EXPECT_EQ(own[7], -1.0f) << "a second call takes nothing back";
  EXPECT_EQ(node->weights()[7], 7.0f);
  EXPECT_EQ(second->weights()[7], 7.0f);
  first.reset();
  second.reset();
  node.reset();
  EXPECT_EQ(own[7], -1.0f);
  EXPECT_EQ(own[kElements - 1], static_cast<float>(kElements - 1));
}

TEST(NodeMemory, ShowsRanksTheStepsThatWereMadeBefore) {
  auto node = *NodeMemory::Create(kElements, 2);
  node->BeginAt(6, 5);
  for (uint32_t c = 0; c < 5; ++c) {
    EXPECT_EQ(node->consumed(c), 6u);
    EXPECT_EQ(node->landed(c), 0u);
  }
  EXPECT_EQ(node->consumed(5), 0u) << "the job has no such chunk";
  for (uint32_t r = 0; r < 2; ++r) {
    EXPECT_EQ(node->ready(r, 4), 6u);
    EXPECT_EQ(node->rank(r).published, 30u);
    EXPECT_EQ(node->rank(r).complete, 6u);
  }
}

constexpr absl::Duration kPatience = absl::Seconds(20);

bool IsReadable(const UniqueFd& fd) {
  pollfd look = {fd.get(), POLLIN, 0};
  return poll(&look, 1, static_cast<int>(absl::ToInt64Milliseconds(kPatience))) == 1;
}

// Returns whether the peer has closed it without sending anything.
bool Ends(const UniqueFd& fd) {
  char byte = 0;
  return IsReadable(fd) && recv(fd.get(), &byte, 1, MSG_DONTWAIT) == 0;
}

class RankSocket : public testing::Test {
 protected:
  void SetUp() override {
    if (!AsOtherUser([] { return true; })) GTEST_SKIP() << "takes root, outside of a namespace";
  }
  const std::string name_ =
      absl::StrCat(testing::UnitTest::GetInstance()->current_test_info()->name(), "-", getpid());
};

TEST_F(RankSocket, EndsTheConnectionOfAnotherUserAndServesTheNext) {
  const auto listener = ListenAt(name_);
  ASSERT_TRUE(listener.ok()) << listener.status();
  bool turned_away = false;
  std::thread server(
      [&] { turned_away = IsReadable(*listener) && !AcceptFrom(*listener).valid(); });
  AsOtherUser([&] {
    // Not by ConnectTo, which refuses this server as well.
    const auto address = MakeAbstractAddress(name_);
    const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    return connect(fd.get(), address->get(), address->bytes) == 0 && Ends(fd);
  });
  server.join();
  EXPECT_TRUE(turned_away);
  const auto own = ConnectTo(name_, kPatience);
  ASSERT_TRUE(own.ok()) << own.status();
  const UniqueFd served = AcceptFrom(*listener);
  ASSERT_TRUE(served.valid());
  ASSERT_EQ(send(own->get(), "x", 1, MSG_NOSIGNAL), 1);
  char byte = 0;
  EXPECT_EQ(recv(served.get(), &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
}

TEST_F(RankSocket, IsNotSpokenToWhereAnotherUserListens) {
  std::optional<absl::StatusOr<UniqueFd>> connected;
  // It retries until somebody listens.
  std::thread client([&] { connected = ConnectTo(name_, kPatience); });
  AsOtherUser([&] {
    const auto listener = ListenAt(name_);
    if (!listener.ok() || !IsReadable(*listener)) return false;
    return Ends(UniqueFd(accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)));
  });
  client.join();
  EXPECT_EQ(connected->status(),
            absl::PermissionDeniedError(
                absl::StrCat("a process of another user listens at socket \"", name_, "\"")));
}

}  // namespace
}  // namespace strata::worker
